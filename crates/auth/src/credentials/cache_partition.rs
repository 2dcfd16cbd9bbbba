//! A name for who we are, to keep apart in caches what different people were shown.
//!
//! A cache outlives a token, so the name should be that of the person: issuer and subject. But nobody has verified these
//! claims here. A token that the user's own file or command gave is taken at its word; one that was handed in as a value
//! (a service may do so for many users) names itself, so that a forged claim opens nobody else's cache.
//!
//! The name is a SHA-256 digest, so nothing of it can be read off a file name. A password does not go into it: passwords
//! are short enough to be found by trying.

use sha2::{Digest, Sha256};

/// Collects what makes up an identity.
#[derive(Default)]
pub(crate) struct CachePartition {
    digest: Option<Sha256>,
}

impl CachePartition {
    /// Adds one credential of some `kind`. Lengths go in as well, so that no two lists of parts look alike.
    pub(crate) fn add(&mut self, kind: &str, parts: &[&str]) {
        let digest = self.digest.get_or_insert_default();
        for part in [kind].iter().chain(parts) {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
    }

    /// Hexadecimal digits, or the empty text if nothing was added.
    pub(crate) fn name(self) -> String {
        let Some(digest) = self.digest else { return String::new() };
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
