//! The real clock.

use hither_core::Clock;
use std::time::Duration;
use tokio::time::Instant;

/// Time since the value was made. Tokio's clock: it stands still where a test has paused it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    origin: Instant,
}

impl Monotonic {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
