//! Cancels stalled copies.

use crate::third_party::copier::ThirdPartyCopier;
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::Location;
use std::pin::pin;
use std::time::Duration;
use tracing::debug;

/// The minimum number of bytes that a copy must move in a window of time.
#[derive(Debug, Clone)]
pub(crate) struct StallWatchdog {
    window: Duration,
    min_bytes: u64,
    /// The other server, for messages.
    other: String,
}

impl StallWatchdog {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a bound; a float cast saturates, which is what is meant"
    )]
    pub(crate) fn new(copier: &ThirdPartyCopier, other: &Location) -> Self {
        let window = copier.settings.stall();
        let bytes = copier.settings.min_bytes_per_second as f64 * window.as_secs_f64();
        Self { window, min_bytes: (bytes as u64).max(1), other: other.origin() }
    }

    /// Runs `work` as long as it moves enough bytes in every window. `moved` returns the bytes
    /// moved so far, or none while the work need not move any.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] if it stalls.
    pub(crate) async fn over<T>(
        &self,
        work: impl Future<Output = T>,
        moved: impl Fn() -> Option<u64>,
    ) -> Result<T> {
        let mut work = pin!(work);
        let mut before = Some(0);
        loop {
            if let Ok(done) = tokio::time::timeout(self.window, &mut work).await {
                return Ok(done);
            }
            let now = moved();
            if let (Some(before), Some(now)) = (before, now) {
                let bytes = now.saturating_sub(before);
                if bytes < self.min_bytes {
                    debug!(other = self.other, bytes, window = ?self.window, "copy stalled");
                    return Err(Error::new(
                        ErrorKind::Timeout,
                        format!(
                            "stalled: {bytes} bytes were exchanged with {} in {} s, expected at least {}; try again later",
                            self.other,
                            self.window.as_secs_f64(),
                            self.min_bytes
                        ),
                    ));
                }
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn watchdog() -> StallWatchdog {
        let window = Duration::from_secs(60);
        StallWatchdog { window, min_bytes: 100, other: "https://host:443".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_moves_enough_may_take_any_time() {
        let calls = Cell::new(0);
        let moved = || {
            calls.set(calls.get() + 1);
            Some(calls.get() * 100)
        };
        let work = tokio::time::sleep(Duration::from_secs(3600));
        assert!(watchdog().over(work, moved).await.is_ok());
        assert_eq!(calls.get(), 59);
    }

    #[tokio::test(start_paused = true)]
    async fn work_below_the_minimum_rate_is_cancelled() {
        let calls = Cell::new(0);
        let moved = || {
            calls.set(calls.get() + 1);
            Some(calls.get() * 99)
        };
        let error = watchdog().over(std::future::pending::<()>(), moved).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("99 bytes"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_need_not_move_bytes_continues() {
        let work = tokio::time::sleep(Duration::from_secs(3600));
        assert!(watchdog().over(work, || None).await.is_ok());
    }
}
