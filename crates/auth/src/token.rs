//! Bearer tokens: their sources, claims and scopes, and the verification of their signatures.

pub(crate) mod claims;
pub(crate) mod jwks;
pub(crate) mod jwt;
pub(crate) mod scope;
pub(crate) mod source;
