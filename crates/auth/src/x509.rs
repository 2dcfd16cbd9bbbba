//! X.509: names, client certificates and their proxies, verification of proxy chains on a server,
//! trust anchors, revocation lists, signing policies.

pub(crate) mod client_certificate;
pub(crate) mod distinguished_name;
pub(crate) mod proxy_chain;
pub(crate) mod revocation_lists;
pub(crate) mod signing_policy;
pub(crate) mod trust_anchors;
