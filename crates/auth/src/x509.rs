//! X.509: client certificates and their proxies, proxy chains as a server verifies them, trust
//! anchors.

pub(crate) mod client_certificate;
pub(crate) mod proxy_chain;
pub(crate) mod trust_anchors;
