//! The adaptive concurrency limit of a server, and the wait for it. The rule is
//! [`hither_load::concurrency_limit::ConcurrencyLimit`].

use hither_core::sync::lock;
use hither_load::concurrency_limit::{ConcurrencyLimit, RequestOutcome};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tracing::debug;

/// Admits as many requests as the server can serve at a time.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyLimiter {
    limit: Mutex<ConcurrencyLimit>,
    /// A request has ended, or the limit has grown.
    left: Notify,
}

/// An admitted request.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit<'a> {
    limiter: &'a ConcurrencyLimiter,
    left: bool,
}

impl ConcurrencyLimiter {
    /// Waits until the limit admits one more request.
    pub(crate) async fn admit(&self) -> ConcurrencyPermit<'_> {
        loop {
            let left = self.left.notified();
            if self.locked().try_acquire() {
                return ConcurrencyPermit { limiter: self, left: false };
            }
            left.await;
        }
    }

    /// Returns whether a rejection with `Retry-After` is about the requested file, not about the
    /// server.
    pub(crate) fn is_about_the_file(&self) -> bool {
        self.locked().is_about_the_file()
    }

    /// The current limit; `None` if the server never rejected a request.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.locked().limit()
    }

    fn leave(&self, fate: RequestOutcome) -> bool {
        let mut limit = self.locked();
        let before = limit.limit();
        let again = limit.release(fate);
        let now = limit.limit();
        drop(limit);
        if before != now {
            debug!(?before, ?now, ?fate, "concurrency limit changed");
        }
        // Growth may admit a second request.
        self.left.notify_one();
        self.left.notify_one();
        again
    }

    fn locked(&self) -> MutexGuard<'_, ConcurrencyLimit> {
        lock(&self.limit)
    }
}

impl ConcurrencyPermit<'_> {
    /// Ends the request. Returns whether to send it again: it was rejected, and the limit is lower
    /// now.
    pub(crate) fn leave(mut self, fate: RequestOutcome) -> bool {
        self.left = true;
        self.limiter.leave(fate)
    }
}

impl Drop for ConcurrencyPermit<'_> {
    fn drop(&mut self) {
        // The caller was cancelled.
        if !self.left {
            self.limiter.leave(RequestOutcome::Failed);
        }
    }
}
