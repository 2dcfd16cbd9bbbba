//! The clock of a simulated link: by default Tokio's, which tests can pause.

use crate::source::SimulatedSource;
use futures_core::future::BoxFuture;
use hither_core::Clock;
use hither_core::sync::lock;
use hither_netem::random::Random;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// Time since the first use, by the clock of the runtime.
#[derive(Debug, Default)]
pub(super) struct TokioClock {
    began: OnceLock<Instant>,
    random: Mutex<Random>,
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        let now = Instant::now();
        now - *self.began.get_or_init(|| now)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> u64 {
        lock(&self.random).next_u64()
    }
}

impl Clock for SimulatedSource {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }

    fn random(&self) -> u64 {
        self.clock.random()
    }
}
