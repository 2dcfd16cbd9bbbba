//! Bearer tokens: where they come from, what they say of themselves, and what their scopes allow.

pub(crate) mod claims;
pub(crate) mod scope;
pub(crate) mod source;
