//! Cache partition: a key that separates the cached data of different users.
//!
//! A cache outlives a token, so the key should name the person: issuer and subject. But this client
//! has not verified these claims. The claims of a token from the user's own file or command are
//! trusted. For a token that was passed in as a value (a service may do so for many users), the
//! token itself is the key, so that a forged claim does not give access to another user's cache.
//!
//! The key is a SHA-256 digest, so that a file name reveals nothing. Passwords are not part of it:
//! they are short enough to be guessed.

use sha2::{Digest, Sha256};

/// Collects the credentials of a partition.
#[derive(Default)]
pub(crate) struct CachePartition {
    digest: Option<Sha256>,
}

impl CachePartition {
    /// Adds a credential of some `kind`. The lengths are hashed too, so that different lists of
    /// parts never collide.
    pub(crate) fn add(&mut self, kind: &str, parts: &[&str]) {
        let digest = self.digest.get_or_insert_default();
        for part in [kind].iter().chain(parts) {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
    }

    /// The key in hexadecimal digits; empty if nothing was added.
    pub(crate) fn name(self) -> String {
        let Some(digest) = self.digest else { return String::new() };
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
