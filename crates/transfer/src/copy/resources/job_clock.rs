//! The clock of a job: that of the runtime, which tests may pause.

use futures_core::future::BoxFuture;
use hither_core::Clock;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::Instant;

/// Time since the job began.
#[derive(Debug)]
pub(crate) struct JobClock(Instant);

impl JobClock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for JobClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> u64 {
        // Seeded by the system.
        RandomState::new().hash_one(())
    }
}
