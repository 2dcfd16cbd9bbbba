//! http.

pub(crate) mod call;
pub(crate) mod delivery;
pub(crate) mod digest;
pub(crate) mod exchange;
pub(crate) mod request;
pub(crate) mod request_body;
pub(crate) mod response_body;
pub(crate) mod scheme_mismatch;
pub(crate) mod source;
pub(crate) mod spooled_download;
pub(crate) mod status_error;
pub(crate) mod tail;
