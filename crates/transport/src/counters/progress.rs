//! The progress of the requests to one server, for those that wait behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of progress on the connections to one server: bytes that arrive, and connections that
/// are given to the next request.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolProgress(Arc<AtomicU64>);

impl PoolProgress {
    /// Records that something moved.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of times that something moved.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
