//! Identity of files and of their versions.

/// A file and the identity that reads it: bytes served to one identity are not served to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The URL or whatever else names the file, secrets included where they select it.
    pub name: String,
    /// Digest of the credential that it is read with; empty for none.
    pub identity: String,
}

/// Identity of a version of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    /// Size in bytes; none if the server does not state it.
    pub size: Option<u64>,
    /// Entity tag or date of the last change, as sent; none if the server has neither.
    pub validator: Option<String>,
}
