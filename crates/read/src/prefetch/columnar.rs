//! Prediction of the baskets that a program will read, from those that it has read: TTreeCache for
//! programs that only do positional reads.
//!
//! A program that reads a ROOT file byte by byte, such as ROOT itself over a mount or uproot with a
//! file object, requests one basket after the other and waits for each. Offsets alone predict
//! nothing: the baskets of one branch lie scattered among those of a hundred others. The layout of
//! the file's trees shows which branch a basket belongs to and where its next one is. So the caller
//! loads the layout during the program's first reads and sets it
//! ([`ColumnarPrefetcherHandle::set_layout`]); from then on reads are interpreted as branches and
//! entries.
//!
//! - *Learning.* Every branch that is read within the first [`ColumnarConfig::learn_entries`]
//!   entries is marked, and its next few baskets are fetched. Reads from before the layout was
//!   known count. A read that has to wait for a branch that was never read also fetches the baskets
//!   of neighbouring branches that hold the same entry, as long as the bytes of unsuccessful trials
//!   stay below a sixteenth of the bytes of the marked branches: k branches then do not cost k
//!   round trips.
//! - *Steady branches.* After that, the next baskets of the marked branches are fetched in the
//!   order of entries across branches, as many bytes as the budget holds, and more whenever a
//!   quarter of it has been read. The program waits once and, at its own speed, never again.
//! - *Read rates.* A branch whose baskets are skipped ceases to be steady; one that is read basket
//!   by basket becomes steady, even if it was not read at the beginning (`column`). A branch that
//!   is read now and then, such as the hundred that only triggered events need, is not prefetched;
//!   but branches that were read together once are fetched together the next time one of them is
//!   read: one round trip in a cluster, not a hundred.
//! - *Jumps.* A read elsewhere starts a new window there; prefetches that were not read are
//!   cancelled. After a jump that cancelled something the window is small, and doubles with every
//!   quarter that is read in order. A program that jumps from event to event soon loses its steady
//!   branches and pays one round trip per event, for all branches together.
//! - *Learned sets.* The branches that a program read are stored under the schema of the tree, not
//!   the name of the file: the next file of the dataset, the next process and the next job begin
//!   with them. Several programs may read the same dataset; the branches that are read first show
//!   which set applies.
//!
//! Nothing is decoded here, so there is no counterpart of TTreeCache's parallel unzip: the caller
//! of the byte interface receives baskets as they are stored.
//!
//! Reads that touch no basket, such as those of keys, and reads of blocks, which cover many baskets
//! or begin and end in the middle of some, go to the prefetcher that uses only offsets.
//!
//! Nothing waits here. The reader's thread and the task that loads the layout share one mutex, held
//! for the few microseconds of an observation. Reads kept until the layout is known are bounded by
//! `MAX_PENDING_READS`; beyond that, memory is a few dozen bytes per column.
//!
//! Source of the historical behaviour: R. Brun, L. Franco, F. Rademakers, "Efficient access to
//! remote data in high energy physics", CHEP 2007; ROOT's `TTreeCache`.

mod column;
mod learned;
#[cfg(test)]
mod tests;
mod tracker;
mod window;

use super::{Access, Advice, PrefetchContext, Prefetcher};
use crate::sync::{Mutex, MutexGuard, lock};
use hither_core::layout::{ColumnarLayout, LearnedSet};
use hither_core::range;
use hither_trace::CacheStatus;
use learned::LearnedColumns;
use std::ops::Range;
use std::sync::Arc;
use tracker::{ReadBudget, TreeTracker};

/// Reads that are kept until the layout is known.
const MAX_PENDING_READS: usize = 4096;
/// Maximum baskets of one read. A program that reads more in one call reads blocks.
const MAX_BASKETS_OF_A_READ: usize = 64;

/// Limits of a [`ColumnarPrefetcher`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnarConfig {
    /// Entries after which the branches read so far are assumed to be those that will be read.
    pub learn_entries: u64,
    /// Maximum bytes of a file that are prefetched and not read yet.
    pub budget_bytes: u64,
}

/// A [`Prefetcher`] that knows the trees of the file.
#[derive(Debug)]
pub struct ColumnarPrefetcher<L> {
    handle: ColumnarPrefetcherHandle<L>,
    /// Prefetcher of reads that touch no basket, and of all reads until the layout is known.
    other: Option<Box<dyn Prefetcher>>,
}

/// Shared access to a [`ColumnarPrefetcher`] that serves reads: sets its layout, reads the sets
/// that it has learned.
#[derive(Debug)]
pub struct ColumnarPrefetcherHandle<L>(Arc<Mutex<ColumnarState<L>>>);

impl<L> Clone for ColumnarPrefetcherHandle<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct ColumnarState<L> {
    config: ColumnarConfig,
    layout: LayoutState<L>,
    /// Context of the last read.
    context: Option<PrefetchContext>,
}

#[derive(Debug)]
enum LayoutState<L> {
    /// Not known yet; the reads so far.
    Pending(Vec<(Range<u64>, CacheStatus)>),
    /// Known, with a tracker for each tree.
    Known { layout: Arc<L>, trackers: Vec<TreeTracker<L>> },
    /// The file has none.
    Absent,
}

impl<L: ColumnarLayout> ColumnarPrefetcher<L> {
    /// A prefetcher for a file whose layout is not known yet.
    #[must_use]
    pub fn new(config: ColumnarConfig, other: Option<Box<dyn Prefetcher>>) -> Self {
        let layout = LayoutState::Pending(Vec::new());
        let state = ColumnarState { config, layout, context: None };
        Self { handle: ColumnarPrefetcherHandle(Arc::new(Mutex::new(state))), other }
    }

    /// A handle that outlives the move of the prefetcher into an open file.
    #[must_use]
    pub fn handle(&self) -> ColumnarPrefetcherHandle<L> {
        self.handle.clone()
    }
}

impl<L: ColumnarLayout> Prefetcher for ColumnarPrefetcher<L> {
    fn observe(&mut self, access: &Access, context: &PrefetchContext) -> Advice {
        match self.handle.lock().observe(access, context) {
            Some(advice) => advice,
            None => {
                let other = self.other.as_mut();
                other.map(|other| other.observe(access, context)).unwrap_or_default()
            }
        }
    }
}

impl<L: ColumnarLayout> ColumnarPrefetcherHandle<L> {
    fn lock(&self) -> MutexGuard<'_, ColumnarState<L>> {
        lock(&self.0)
    }

    /// Sets the layout and, for each tree, the sets that other runs have learned, newest first.
    /// Interprets the reads so far; returns the ranges to fetch now.
    #[must_use]
    pub fn set_layout(&self, layout: Arc<L>, learned: &[Vec<LearnedSet>]) -> Advice {
        let mut state = self.lock();
        let learn_entries = state.config.learn_entries;
        let tracker = |tree: usize| {
            let sets = learned.get(tree).map(Vec::as_slice).unwrap_or_default();
            let sets = sets.iter();
            let sets = sets.filter_map(|set| LearnedColumns::from_names(set, &*layout, tree));
            TreeTracker::new(Arc::clone(&layout), tree, learn_entries, sets.collect())
        };
        let trackers = (0..layout.trees()).map(tracker).collect();
        let known = LayoutState::Known { layout, trackers };
        let LayoutState::Pending(reads) = std::mem::replace(&mut state.layout, known) else {
            return Advice::default();
        };
        state.replay(reads)
    }

    /// Records that the file has no trees, or none that can be read.
    pub fn set_no_layout(&self) {
        self.lock().layout = LayoutState::Absent;
    }

    /// Drops a layout that proved wrong; another one is to be set.
    pub fn drop_layout(&self) {
        self.lock().layout = LayoutState::Pending(Vec::new());
    }

    /// Returns true until a layout, or its absence, has been set.
    #[must_use]
    pub fn awaits_layout(&self) -> bool {
        matches!(self.lock().layout, LayoutState::Pending(_))
    }

    /// Limits what will be read of a tree to `entries`.
    pub fn limit(&self, tree: usize, entries: Range<u64>) {
        if let LayoutState::Known { trackers, .. } = &mut self.lock().layout
            && let Some(tracker) = trackers.get_mut(tree)
        {
            tracker.limit(entries);
        }
    }

    /// The sets that were learned, by position of their tree.
    #[must_use]
    pub fn learned_sets(&self) -> Vec<(usize, LearnedSet)> {
        let state = self.lock();
        let LayoutState::Known { layout, trackers } = &state.layout else { return Vec::new() };
        let trackers = trackers.iter().enumerate();
        trackers
            .filter_map(|(tree, tracker)| {
                Some((tree, tracker.learned()?.to_names(&**layout, tree)))
            })
            .collect()
    }
}

impl<L: ColumnarLayout> ColumnarState<L> {
    /// Advice on a read; none if the other prefetcher handles it.
    fn observe(&mut self, access: &Access, context: &PrefetchContext) -> Option<Advice> {
        match &mut self.layout {
            LayoutState::Absent => None,
            LayoutState::Pending(reads) => {
                if reads.len() < MAX_PENDING_READS {
                    reads.push((access.range.clone(), access.found));
                }
                self.context = Some(*context);
                None
            }
            LayoutState::Known { layout, trackers } => {
                let budget = budget_per_tree(self.config.budget_bytes, trackers);
                let read = ReadBudget::new(access.found, context, budget);
                let mut advice = Advice::default();
                observe_range(&**layout, trackers, &access.range, &read, &mut advice)
                    .then_some(advice)
            }
        }
    }

    /// Interprets the reads from before the layout was known. The last one may still be waiting.
    fn replay(&mut self, reads: Vec<(Range<u64>, CacheStatus)>) -> Advice {
        let mut advice = Advice::default();
        let (Some(context), LayoutState::Known { layout, trackers }) =
            (self.context, &mut self.layout)
        else {
            return advice;
        };
        let last = reads.len().saturating_sub(1);
        for (number, (range, found)) in reads.into_iter().enumerate() {
            let found = if number == last { found } else { CacheStatus::Hit };
            let budget = budget_per_tree(self.config.budget_bytes, trackers);
            let read = ReadBudget::new(found, &context, budget);
            observe_range(&**layout, trackers, &range, &read, &mut advice);
        }
        let Advice { same_request, will_need, .. } = advice;
        Advice { will_need: [same_request, will_need].concat(), ..Advice::default() }
    }
}

/// The share of `budget` of each tree that is being read.
fn budget_per_tree<L>(budget: u64, trackers: &[TreeTracker<L>]) -> u64 {
    let active = trackers.iter().filter(|tracker| !tracker.active.is_empty()).count();
    budget / (active as u64).max(1)
}

/// Shows the baskets in `range` to the trackers of their trees; false if the read is not one of
/// baskets.
fn observe_range<L: ColumnarLayout>(
    layout: &L,
    trackers: &mut [TreeTracker<L>],
    range: &Range<u64>,
    read: &ReadBudget,
    advice: &mut Advice,
) -> bool {
    let Some(first) = layout.overlapping(range).next() else { return false };
    if range.end <= first.range.end {
        if let Some(tracker) = trackers.get_mut(first.tree) {
            tracker.observe(&first, read, advice);
            tracker.extend_window(read, advice);
        }
        return true;
    }
    let mut baskets = 0;
    let mut end = first.range.end;
    for basket in layout.overlapping(range).take(MAX_BASKETS_OF_A_READ + 1) {
        baskets += 1;
        end = basket.range.end;
    }
    // A program that reads baskets begins or ends where one does; blocks do so by chance only.
    let meets = range.start == first.range.start || range.end == end;
    if baskets > MAX_BASKETS_OF_A_READ || !meets {
        return false;
    }
    for basket in layout.overlapping(range) {
        let both = basket.range.start.max(range.start)..basket.range.end.min(range.end);
        // A basket of which less than half is read was not the target of the read.
        if range::len(&both) * 2 >= range::len(&basket.range)
            && let Some(tracker) = trackers.get_mut(basket.tree)
        {
            tracker.observe(&basket, read, advice);
        }
    }
    for (tree, tracker) in trackers.iter_mut().enumerate() {
        if layout.overlapping(range).any(|basket| basket.tree == tree) {
            tracker.extend_window(read, advice);
        }
    }
    true
}
