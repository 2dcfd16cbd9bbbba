//! Who may do what.

pub(crate) mod authorizer;
pub(crate) mod jwks_cache;
pub(crate) mod oidc_discovery;
pub(crate) mod policy_authorizer;
pub(crate) mod settings;
