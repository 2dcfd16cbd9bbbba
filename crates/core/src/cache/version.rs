//! What tells files, and versions of a file, from each other.

/// What file, and as whom it is seen: what one identity was shown is not shown to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The URL or whatever else names the file, secrets included where they select it.
    pub name: String,
    /// Digest of the credential that it is read with; empty for none.
    pub identity: String,
}

/// What tells a version of a file from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Size in bytes; none if the server does not tell.
    pub size: Option<u64>,
    /// Entity tag or date of the last change, as sent; none if the server has neither.
    pub validator: Option<String>,
}
