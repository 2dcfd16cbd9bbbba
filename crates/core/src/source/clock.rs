//! Time and randomness as a value that is passed in, so that tests can run in virtual time.

use futures_core::future::BoxFuture;
use std::fmt::Debug;
use std::time::Duration;

/// A monotonic clock.
pub trait Clock: Send + Sync + Debug {
    /// Time since an origin of the clock's own.
    fn now(&self) -> Duration;
    /// Waits by this clock: in virtual time sleepers wake when virtual time has reached the end.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
    /// A random number, for pauses that differ from those of other clients.
    fn random(&self) -> u64;
}
