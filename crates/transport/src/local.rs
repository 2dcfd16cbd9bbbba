//! local.

pub(crate) mod source;
pub(crate) mod storage;
pub(crate) mod upload;
