//! redirect.

pub(crate) mod retry_after;
