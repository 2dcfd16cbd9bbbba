//! How far a job has come, for whoever wants to show it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What a job is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanPhase {
    /// Waiting for a connection, or for the tree.
    Opening,
    /// Fetching and decoding data.
    Reading,
    /// Done.
    Done,
}

/// Shared by a job and its watcher; updated without locks.
#[derive(Debug, Default)]
pub struct ScanProgress {
    stage: AtomicU8,
    bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl ScanProgress {
    /// What the job is busy with.
    #[must_use]
    pub fn stage(&self) -> ScanPhase {
        match self.stage.load(Ordering::Relaxed) {
            0 => ScanPhase::Opening,
            1 => ScanPhase::Reading,
            _ => ScanPhase::Done,
        }
    }

    /// Bytes of data that have arrived, and that will have arrived in the end.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.total_bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn reading(&self, total_bytes: u64) {
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.stage.store(1, Ordering::Relaxed);
    }

    pub(crate) fn arrived(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) {
        self.stage.store(2, Ordering::Relaxed);
    }
}
