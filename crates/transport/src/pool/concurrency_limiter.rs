//! Whether a server has time for one more request.

use hither_core::sync::lock;
use hither_core::{ConcurrencyLimit, RequestOutcome};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tracing::debug;

/// Lets as many requests through as the server can serve at a time.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyLimiter {
    courtesy: Mutex<ConcurrencyLimit>,
    /// Somebody has left, or more are welcome.
    left: Notify,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit<'a> {
    welcome: &'a ConcurrencyLimiter,
    left: bool,
}

impl ConcurrencyLimiter {
    /// Waits until the server can be expected to have time for one more request.
    pub(crate) async fn admit(&self) -> ConcurrencyPermit<'_> {
        loop {
            let left = self.left.notified();
            if self.courtesy().try_acquire() {
                return ConcurrencyPermit { welcome: self, left: false };
            }
            left.await;
        }
    }

    /// Whether a request under way that is refused with a time to come back is so for its file's sake.
    pub(crate) fn is_about_the_file(&self) -> bool {
        self.courtesy().is_about_the_file()
    }

    /// Requests that are welcome at a time; none if the server never refused any.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.courtesy().limit()
    }

    fn leave(&self, fate: RequestOutcome) -> bool {
        let mut limit = self.courtesy();
        let before = limit.limit();
        let again = limit.release(fate);
        let now = limit.limit();
        drop(limit);
        if before != now {
            debug!(?before, ?now, ?fate, "concurrency limit changed");
        }
        // Growth may make room for one more than who left.
        self.left.notify_one();
        self.left.notify_one();
        again
    }

    fn courtesy(&self) -> MutexGuard<'_, ConcurrencyLimit> {
        lock(&self.courtesy)
    }
}

impl ConcurrencyPermit<'_> {
    /// The request has ended. Tells whether it is worth sending again: it was refused, and fewer are sent now.
    pub(crate) fn leave(mut self, fate: RequestOutcome) -> bool {
        self.left = true;
        self.welcome.leave(fate)
    }
}

impl Drop for ConcurrencyPermit<'_> {
    fn drop(&mut self) {
        // The caller has given up.
        if !self.left {
            self.welcome.leave(RequestOutcome::Failed);
        }
    }
}
