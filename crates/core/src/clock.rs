//! Time comes in through a value, so that tests can run in virtual time.

use std::fmt::Debug;
use std::time::Duration;

/// A monotonic clock.
pub trait Clock: Send + Sync + Debug {
    /// Time since an origin of the clock's own.
    fn now(&self) -> Duration;
}
