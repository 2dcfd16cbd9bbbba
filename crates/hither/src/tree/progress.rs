//! Progress of a scan, for display.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The phase of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanPhase {
    /// Waiting for a connection, or for the tree.
    Opening,
    /// Fetching and decoding data.
    Reading,
    /// Done.
    Done,
}

/// The progress of a scan. Readers and the scan share it without locks.
#[derive(Debug, Default)]
pub struct ScanProgress {
    phase: AtomicU8,
    bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl ScanProgress {
    /// The phase of the scan.
    #[must_use]
    pub fn phase(&self) -> ScanPhase {
        match self.phase.load(Ordering::Relaxed) {
            0 => ScanPhase::Opening,
            1 => ScanPhase::Reading,
            _ => ScanPhase::Done,
        }
    }

    /// The bytes of data that have arrived, and the total.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.total_bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn reading(&self, total_bytes: u64) {
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.phase.store(1, Ordering::Relaxed);
    }

    pub(crate) fn arrived(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) {
        self.phase.store(2, Ordering::Relaxed);
    }
}
