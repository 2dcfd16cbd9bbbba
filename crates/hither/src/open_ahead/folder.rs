//! The files of one folder, as far as they were opened ahead: what the program reads of each tells what to bring along.

use crate::open_ahead::access_pattern::{AccessPattern, PrefetchRanges};
use crate::open_ahead::prefetched::PrefetchedEnds;
use crate::open_ahead::task::OpenAheadTask;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// The files of one folder.
#[derive(Debug, Default)]
pub(crate) struct FolderAccess {
    state: Mutex<FolderState>,
}

#[derive(Debug, Default)]
struct FolderState {
    habit: AccessPattern,
    /// Open, and not used when they came to be so.
    unused: Vec<Weak<OpenAheadTask>>,
    /// Reads of the file that the program began to use last.
    reads_of_last: Option<Arc<AtomicUsize>>,
}

impl FolderAccess {
    /// A file is open, and nobody uses it yet.
    pub(crate) fn unused(&self, file: &Arc<OpenAheadTask>) {
        self.state().unused.push(Arc::downgrade(file));
    }

    /// What to bring along with a file.
    pub(crate) fn wanted(&self, size: Option<u64>) -> PrefetchRanges {
        self.state().habit.wanted(size)
    }

    /// The program begins to use a file. How often it has read the one that it used before, if there was one.
    pub(crate) fn begins(&self, opened: &PrefetchedEnds) -> Option<usize> {
        let before = self.state().reads_of_last.replace(opened.count_of_reads());
        before.map(|reads| reads.load(Ordering::Relaxed))
    }

    /// The program reads these of a file. Tells whether other things will be wanted of the next than before.
    pub(crate) fn reads(&self, opened: &PrefetchedEnds, ranges: &[Range<u64>]) -> bool {
        let first = opened.reads(ranges);
        let mut state = self.state();
        let noted = ranges
            .iter()
            .zip(first..)
            .map(|(range, nth)| state.habit.note(nth, range, opened.size));
        noted.fold(false, |any, changed| any | changed)
    }

    /// A file is dropped for which something was brought along.
    pub(crate) fn ended(&self, useful: bool) {
        self.state().habit.ended(useful);
    }

    /// The files that were open and not used, of which more may be wanted now.
    pub(crate) fn take_unused(&self) -> Vec<Weak<OpenAheadTask>> {
        std::mem::take(&mut self.state().unused)
    }

    fn state(&self) -> MutexGuard<'_, FolderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
