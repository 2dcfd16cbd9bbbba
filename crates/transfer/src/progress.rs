//! Counters that a display reads while the job runs.

use crate::stage_clocks::{CopyStages, StageClock};
use hither_tune::{JobTuners, TuningDecision};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Progress of a copy. Cheap to read at any time, from any thread.
#[derive(Debug, Default)]
pub struct CopyProgress {
    files_found: AtomicU64,
    files_done: AtomicU64,
    bytes_found: AtomicU64,
    bytes_done: AtomicU64,
    bytes_arrived: AtomicU64,
    bytes_useless: AtomicU64,
    bytes_moved_by_servers: AtomicU64,
    pub(crate) fetch: StageClock,
    pub(crate) verify: StageClock,
    pub(crate) write: StageClock,
    /// The tuners of the first copy that has this progress.
    tuners: OnceLock<Arc<JobTuners>>,
}

/// The figures of [`CopyProgress`] at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Files found so far; all of them once every directory has been listed.
    pub files_found: u64,
    /// Files that have their final name, or were skipped, or failed.
    pub files_done: u64,
    /// Sum of their sizes in bytes, as far as known.
    pub bytes_found: u64,
    /// Bytes of these that are done, including those that an earlier attempt has moved.
    pub bytes_done: u64,
    /// Received bytes, including those that were received twice.
    pub bytes_arrived: u64,
}

impl CopyProgress {
    /// The figures now.
    #[must_use]
    pub fn figures(&self) -> ProgressSnapshot {
        ProgressSnapshot {
            files_found: self.files_found.load(Ordering::Relaxed),
            files_done: self.files_done.load(Ordering::Relaxed),
            bytes_found: self.bytes_found.load(Ordering::Relaxed),
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
            bytes_arrived: self.bytes_arrived.load(Ordering::Relaxed),
        }
    }

    /// The times of the stages so far.
    #[must_use]
    pub fn stages(&self) -> CopyStages {
        CopyStages {
            fetch: self.fetch.times(),
            verify: self.verify.times(),
            write: self.write.times(),
        }
    }

    /// The decisions of the tuners of a copy that is under way, the oldest first for each knob.
    #[must_use]
    pub fn tuning(&self) -> Vec<TuningDecision> {
        self.tuners.get().map(|tuners| tuners.decisions()).unwrap_or_default()
    }

    /// Shows the decisions of the tuners of a copy. A second copy with the same progress is shown
    /// by its own summary only.
    pub(crate) fn show_tuners(&self, tuners: &Arc<JobTuners>) {
        let _shown = self.tuners.set(Arc::clone(tuners));
    }

    pub(crate) fn found_file(&self) {
        self.files_found.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn found_bytes(&self, bytes: u64) {
        self.bytes_found.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn done_file(&self) {
        self.files_done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn done_bytes(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that servers have moved between them.
    pub(crate) fn moved_by_servers(&self, bytes: u64) {
        self.bytes_moved_by_servers.fetch_add(bytes, Ordering::Relaxed);
        self.done_bytes(bytes);
    }

    pub(crate) fn bytes_moved_by_servers(&self) -> u64 {
        self.bytes_moved_by_servers.load(Ordering::Relaxed)
    }

    /// Takes back bytes that were counted as done and have to be moved again.
    pub(crate) fn undone_bytes(&self, bytes: u64) {
        self.bytes_done.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts `bytes` that arrived; `useless_bytes` of them had arrived before.
    pub(crate) fn arrived(&self, bytes: u64, useless_bytes: u64) {
        self.bytes_arrived.fetch_add(bytes, Ordering::Relaxed);
        self.bytes_useless.fetch_add(useless_bytes, Ordering::Relaxed);
    }

    pub(crate) fn useless_bytes(&self) -> u64 {
        self.bytes_useless.load(Ordering::Relaxed)
    }
}
