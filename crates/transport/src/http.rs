//! Files over HTTP.
//!
//! [`source`] reads ranges of a file, also the end of one of unknown size. [`exchange`] is one such
//! request with its response, [`delivery`] the ranges that arrived. [`spooled_download`] serves
//! files whose server supports no ranges. [`call`] sends all other requests, with the bodies of
//! [`request_body`]; [`call::change`] decides which changes count as carried out. [`properties`]
//! are the request and the response of PROPFIND. All requests pass through the
//! [layers](crate::layers). [`status_error`] and [`scheme_mismatch`] explain errors.

pub(crate) mod call;
pub(crate) mod custom_fields;
pub(crate) mod delivery;
pub(crate) mod digest;
pub(crate) mod exchange;
pub(crate) mod properties;
pub(crate) mod request;
pub(crate) mod request_body;
pub(crate) mod response_body;
pub(crate) mod scheme_mismatch;
pub(crate) mod server_reason;
pub(crate) mod source;
pub(crate) mod spooled_download;
pub(crate) mod status_error;
pub(crate) mod tape;
pub(crate) mod third_party;
