//! Authorization: which client may do what, by tokens and certificates.

pub(crate) mod authorizer;
pub(crate) mod jwks_cache;
pub(crate) mod oidc_discovery;
pub(crate) mod policy_authorizer;
pub(crate) mod settings;
