//! x509.

pub(crate) mod client_certificate;
pub(crate) mod proxy_chain;
pub(crate) mod trust_anchors;
