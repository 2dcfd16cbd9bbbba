//! A file, a client and a program, which the tests share.

pub(crate) mod program;
pub(crate) mod rig;
pub(crate) mod takeover;
