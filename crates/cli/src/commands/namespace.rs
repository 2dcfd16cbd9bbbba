//! Commands on names, sizes and dates of files and directories.

pub(super) mod du;
pub(super) mod find;
pub(super) mod ls;
pub(super) mod mkdir;
pub(super) mod mv;
pub(super) mod rm;
pub(super) mod stat;
