//! Third-party copies, counted by outcome.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that copies add to.
#[derive(Debug, Default)]
pub(crate) struct CopyCounters {
    pub(crate) active: AtomicU64,
    pub(crate) pulled: AtomicU64,
    pub(crate) pushed: AtomicU64,
    pub(crate) bytes_pulled: AtomicU64,
    pub(crate) bytes_pushed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopyTotals {
    /// Copies that are running.
    pub(crate) active: u64,
    /// Files fetched from other servers.
    pub(crate) pulled: u64,
    /// Files sent to other servers.
    pub(crate) pushed: u64,
    pub(crate) bytes_pulled: u64,
    pub(crate) bytes_pushed: u64,
    pub(crate) failed: u64,
    /// Copies whose client disconnected.
    pub(crate) cancelled: u64,
    /// Copies for which there was no slot.
    pub(crate) refused: u64,
}

impl CopyCounters {
    pub(crate) fn totals(&self) -> CopyTotals {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CopyTotals {
            active: now(&self.active),
            pulled: now(&self.pulled),
            pushed: now(&self.pushed),
            bytes_pulled: now(&self.bytes_pulled),
            bytes_pushed: now(&self.bytes_pushed),
            failed: now(&self.failed),
            cancelled: now(&self.cancelled),
            refused: now(&self.refused),
        }
    }
}
