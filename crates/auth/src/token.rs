//! Bearer tokens: where they come from, what they say of themselves, what their scopes allow, and who signed them.

pub(crate) mod claims;
pub(crate) mod jwks;
pub(crate) mod jwt;
pub(crate) mod scope;
pub(crate) mod source;
