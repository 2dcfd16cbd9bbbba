//! The time before which a file is not requested again, because its server is still staging it.

use hither_core::error::{Error, Retry};
use hither_core::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;
use tracing::{debug, info};

/// The `Retry-After` of a file.
#[derive(Debug, Default)]
pub(crate) struct RetryAfterTimer {
    not_before: Mutex<Option<Instant>>,
    was_told: AtomicBool,
}

impl RetryAfterTimer {
    /// Records the pause of a failed request, if its error asks to retry later.
    pub(crate) fn learn(&self, error: &Error) {
        if let Retry::Later { after } = error.retry() {
            if !self.was_told.swap(true, Ordering::Relaxed) {
                // The command shows it on a terminal: this may go on for minutes.
                let seconds = after.as_secs_f64();
                info!(target: "hither_wait", "{error}: waiting, asking again every {seconds:.0} s");
            }
            self.until(Instant::now().checked_add(after));
        }
    }

    /// Records the pause of a failed request, if its error asks to retry at the same server after
    /// some time.
    pub(crate) fn pause(&self, error: &Error) {
        if let Retry::SameServer { after } = error.retry()
            && !after.is_zero()
        {
            self.until(Instant::now().checked_add(after));
        }
    }

    fn until(&self, instant: Option<Instant>) {
        debug!(after = ?instant.map(|at| at.duration_since(Instant::now())), "file not available yet, waiting");
        *lock(&self.not_before) = instant;
    }

    /// Waits until the pause is over.
    pub(crate) async fn wait(&self) {
        let until = *lock(&self.not_before);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::error::ErrorKind;
    use std::time::Duration;

    async fn waited(retry: Retry, note: impl Fn(&RetryAfterTimer, &Error)) -> Duration {
        let retry_after = RetryAfterTimer::default();
        note(&retry_after, &Error::new(ErrorKind::Unavailable, "busy").with_retry(retry));
        let began = Instant::now();
        retry_after.wait().await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_waits_as_long_as_the_server_asks() {
        let after = Duration::from_secs(3);
        let later = Retry::Later { after };
        let soon = Retry::SameServer { after };
        assert_eq!(waited(later, RetryAfterTimer::learn).await.as_secs(), 3);
        assert_eq!(waited(soon, RetryAfterTimer::pause).await.as_secs(), 3);
        for (retry, note) in [
            (soon, RetryAfterTimer::learn as fn(&_, &_)),
            (later, RetryAfterTimer::pause),
            (Retry::Never, RetryAfterTimer::pause),
        ] {
            assert_eq!(waited(retry, note).await, Duration::ZERO);
        }
    }
}
