//! State that all tasks of a copy share, and the records that they make in it.

use crate::copy::memory_budget::MemoryBudget;
use crate::copy::piece_size::WorkerRates;
use crate::copy::queue::Queue;
use crate::file::CopyItem;
use crate::journal::Journal;
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use crate::summary::{CopyFailure, CopySummary, FileChecksum};
use hither_core::sync::lock;
use hither_core::{DirEntry, Error};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tracing::warn;

/// State that all tasks of a job share.
#[derive(Debug)]
pub(crate) struct CopyContext {
    pub(crate) options: CopyOptions,
    /// Name of the job.
    pub(crate) job: String,
    pub(crate) budget: MemoryBudget,
    pub(crate) journal: Option<Journal>,
    pub(crate) progress: Arc<CopyProgress>,
    pub(crate) queue: Queue,
    pub(crate) rates: WorkerRates,
    pub(crate) tally: Mutex<CopySummary>,
    /// Local directories with new names in them, to be synced at the end.
    pub(crate) folders: Mutex<BTreeSet<PathBuf>>,
    /// Number of workers that help by now.
    pub(crate) workers: AtomicUsize,
    pub(crate) workers_changed: Notify,
}

impl CopyContext {
    /// Number of workers that help by now.
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::Acquire)
    }

    /// Adds a file to the queue.
    pub(crate) fn found(&self, item: CopyItem) {
        self.progress.found_file();
        self.progress.found_bytes(item.entry.as_ref().map_or(0, |entry| entry.size));
        self.queue.found(item);
    }

    /// Counts a directory that was created.
    pub(crate) fn made_directory(&self) {
        self.tally().directories += 1;
    }

    /// Records a file that could not be copied.
    pub(crate) fn failed(&self, source: String, error: Error) {
        warn!(file = source, %error, "file failed");
        self.progress.done_file();
        self.tally().failures.push(CopyFailure { source, error });
    }

    pub(crate) fn note_uploaded(&self, entry: DirEntry) {
        self.tally().last_uploaded = Some(entry);
    }

    pub(crate) fn note(&self, notice: String) {
        self.tally().notices.push(notice);
    }

    pub(crate) fn note_checksum(&self, checked: FileChecksum) {
        self.tally().checksums.push(checked);
    }

    pub(crate) fn note_resumed(&self, bytes: u64) {
        self.tally().bytes_resumed += bytes;
        self.progress.done_bytes(bytes);
    }

    /// Counts `bytes` that arrived, of which `taken` were of use.
    pub(crate) fn note_arrived(&self, bytes: u64, taken: u64) {
        self.progress.arrived(bytes, bytes.saturating_sub(taken));
    }

    pub(crate) fn sync_folders(&self) {
        for folder in self.folders().iter() {
            // The files themselves are synced; not every file system can sync their names.
            drop(std::fs::File::open(folder).and_then(|folder| folder.sync_all()));
        }
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, CopySummary> {
        lock(&self.tally)
    }

    pub(crate) fn folders(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        lock(&self.folders)
    }
}
