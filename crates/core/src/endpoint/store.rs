//! The memory of what servers can do, beyond the life of a process.

use crate::Endpoint;
use std::fmt::Debug;

/// Keeps one [`Endpoint`] per origin (scheme, host and port, as in `http://host:80`).
///
/// What comes back is untrusted: whoever recalls a record passes it through [`Endpoint::clamped`].
pub trait EndpointStore: Send + Sync + Debug {
    /// What is known of the server at `origin`.
    fn get(&self, origin: &str) -> Option<Endpoint>;
    /// Remembers what was learned. Failures are swallowed: nothing depends on remembering.
    fn put(&self, origin: &str, endpoint: &Endpoint);
    /// Asks for one connection more to the server at `origin`, of at most `most` on this machine.
    fn claim_slot(&self, origin: &str, most: usize) -> SlotClaim;
}

/// Whether there may be one connection more.
#[derive(Debug)]
pub enum SlotClaim {
    /// There may, until this is dropped.
    Granted(Box<dyn SlotGuard>),
    /// There are as many as there may be.
    Full,
}

/// Something that is held until it is dropped.
pub trait SlotGuard: Send + Sync + Debug {}

impl<T: Send + Sync + Debug> SlotGuard for T {}
