//! Files and directories on local disks.

pub(crate) mod source;
pub(crate) mod storage;
pub(crate) mod upload;
