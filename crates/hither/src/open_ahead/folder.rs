//! The open files of one folder, and the access pattern that predicts the reads of the next.

use crate::open_ahead::access_pattern::{AccessPattern, PrefetchRanges};
use crate::open_ahead::prefetched::PrefetchedEnds;
use crate::open_ahead::task::OpenAheadTask;
use hither_core::sync::lock;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Weak};

/// The open files of one folder and their access pattern.
#[derive(Debug, Default)]
pub(crate) struct FolderAccess {
    state: Mutex<FolderState>,
}

#[derive(Debug, Default)]
struct FolderState {
    pattern: AccessPattern,
    /// Files that were unused when they were opened.
    unused: Vec<Weak<OpenAheadTask>>,
    /// The read counter of the file that the program began to use last.
    reads_of_last: Option<Arc<AtomicUsize>>,
}

impl FolderAccess {
    /// Adds a file that is open and unused.
    pub(crate) fn add_unused(&self, file: &Arc<OpenAheadTask>) {
        self.state().unused.push(Arc::downgrade(file));
    }

    /// The ranges to prefetch of a file of this size.
    pub(crate) fn prefetch_ranges(&self, size: Option<u64>) -> PrefetchRanges {
        self.state().pattern.prefetch_ranges(size)
    }

    /// Records that the program begins to use a file. Returns the number of reads of the file that
    /// it used before, if there was one.
    pub(crate) fn begin_use(&self, ends: &PrefetchedEnds) -> Option<usize> {
        let before = self.state().reads_of_last.replace(ends.read_counter());
        before.map(|reads| reads.load(Ordering::Relaxed))
    }

    /// Records reads of a file. Returns true if the ranges to prefetch have changed.
    pub(crate) fn record_reads(&self, ends: &PrefetchedEnds, ranges: &[Range<u64>]) -> bool {
        let first = ends.count_reads(ranges);
        let mut state = self.state();
        let changes = ranges
            .iter()
            .zip(first..)
            .map(|(range, nth)| state.pattern.record(nth, range, ends.size));
        changes.fold(false, |any, changed| any | changed)
    }

    /// Records that a file with prefetched ranges was dropped, and whether one of them was read.
    pub(crate) fn record_drop(&self, useful: bool) {
        self.state().pattern.record_drop(useful);
    }

    /// Removes and returns the files that were unused when they were opened.
    pub(crate) fn take_unused(&self) -> Vec<Weak<OpenAheadTask>> {
        std::mem::take(&mut self.state().unused)
    }

    fn state(&self) -> MutexGuard<'_, FolderState> {
        lock(&self.state)
    }
}
