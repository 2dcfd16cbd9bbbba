//! The memory of what servers can do, beyond the life of a process.

use crate::Endpoint;
use std::fmt::Debug;

/// Keeps one [`Endpoint`] per origin (scheme, host and port, as in `http://host:80`).
///
/// What comes back is untrusted: whoever recalls a record passes it through [`Endpoint::sane`].
pub trait Ledger: Send + Sync + Debug {
    /// What is known of the server at `origin`.
    fn recall(&self, origin: &str) -> Option<Endpoint>;
    /// Remembers what was learned. Failures are swallowed: nothing depends on remembering.
    fn remember(&self, origin: &str, endpoint: &Endpoint);
}
