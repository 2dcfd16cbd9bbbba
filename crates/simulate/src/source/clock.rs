//! Tokio's clock, which its tests may pause.

use futures_core::future::BoxFuture;
use hither_core::Clock;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::Instant;

/// Time since the first use, by the clock of the runtime.
#[derive(Debug, Default)]
pub(super) struct TokioClock {
    began: OnceLock<Instant>,
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        let now = Instant::now();
        now - *self.began.get_or_init(|| now)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
