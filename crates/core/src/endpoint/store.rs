//! Storage of endpoint records beyond the life of a process.

use crate::Endpoint;
use std::fmt::Debug;

/// Stores one [`Endpoint`] per origin (scheme, host and port, as in `http://host:80`).
///
/// Values from the store are untrusted: callers pass a record through [`Endpoint::clamped`].
pub trait EndpointStore: Send + Sync + Debug {
    /// The stored record of the server at `origin`.
    fn get(&self, origin: &str) -> Option<Endpoint>;
    /// Stores the record. Failures are ignored: nothing depends on it.
    fn put(&self, origin: &str, endpoint: &Endpoint);
    /// Claims one more connection to the server at `origin`, of at most `max` on this machine.
    fn claim_slot(&self, origin: &str, max: usize) -> SlotClaim;
}

/// Answer to a claim for one more connection.
#[derive(Debug)]
pub enum SlotClaim {
    /// Granted until this is dropped.
    Granted(Box<dyn SlotGuard>),
    /// All slots are taken.
    Full,
}

/// A claimed slot, released when dropped.
pub trait SlotGuard: Send + Sync + Debug {}

impl<T: Send + Sync + Debug> SlotGuard for T {}
