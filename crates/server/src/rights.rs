//! Who may do what.

pub(crate) mod access;
pub(crate) mod authorizer;
pub(crate) mod discovery;
pub(crate) mod guard;
pub(crate) mod keyring;
