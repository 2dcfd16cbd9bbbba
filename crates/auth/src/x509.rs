//! X.509: names, client certificates and their proxies, proxy chains as a server verifies them,
//! trust anchors, revocation lists, signing policies.

pub(crate) mod client_certificate;
pub(crate) mod distinguished_name;
pub(crate) mod proxy_chain;
pub(crate) mod revocation_lists;
pub(crate) mod signing_policy;
pub(crate) mod trust_anchors;
