//! What a program will read of a tree, from what it has read: TTreeCache for programs that only do positional reads.
//!
//! A program that reads a ROOT file through the byte interface, such as ROOT itself over a mount or uproot with a file
//! object of ours, asks for one basket after the other and waits for each. The places of the baskets say nothing to a
//! cache that knows only offsets: those of one branch lie scattered among those of a hundred others. But the layout of
//! the file's trees tells which branch a basket belongs to and where the next one is. So the trees are opened in the
//! background together with the file, and the reads are looked at in terms of branches and entries:
//!
//! - *Learning.* Every branch that is read within the first [`TreeCacheConfig::learn_entries`] entries is marked, and its
//!   next few baskets are fetched. What was read before the layout was known counts. A read that has to wait for a branch
//!   that was never read brings along the baskets of its neighbours that hold the same entry, as long as all such trials
//!   that came to nothing stay below a sixteenth of what the marked branches hold: k branches then do not cost k round
//!   trips.
//! - *Steady branches.* After that, the coming baskets of the marked branches are named in the order of entries across
//!   branches, as many bytes as the budget holds, and more whenever a quarter of it has been read. The program waits once
//!   and, at its own pace, never again.
//! - *Habits.* A branch whose baskets are passed over ceases to be steady, one that is read basket by basket becomes so,
//!   whether it was there from the beginning or not (`column`). What is read now and then, such as the hundred branches
//!   that only triggered events need, is not fetched ahead; but branches that were read together once are fetched
//!   together the next time one of them is read: one round trip in a cluster, not a hundred.
//! - *Jumps.* A read elsewhere makes plans anew from there; what was named and not read is taken back. After a jump that
//!   left something behind the plans are small, and grow with every quarter that is read in order. A program that jumps
//!   from event to event loses its steady branches soon and pays one round trip per event, all branches together.
//! - *Learned sets.* What was learned is kept under the schema of the tree, not the name of the file: the next file of
//!   the dataset, the next process and the next job begin with it. Several programs may read the same dataset; the
//!   branches that are read first tell which set it is.
//!
//! Decoding in parallel, TTreeCache's parallel unzip, has no place here: the byte interface delivers baskets as they are
//! stored. Queries and arrays decode on all processors (`scan`).
//!
//! Reads that belong to no basket, such as those of keys, and reads of blocks, which cover many baskets or begin and end
//! in the middle of some, are left to the advisor that knows only offsets.
//!
//! Source of the historical behaviour: R. Brun, L. Franco, F. Rademakers, "Efficient access to remote data in high energy
//! physics", CHEP 2007; ROOT's `TTreeCache`.

mod column;
mod learned;
pub(crate) mod learned_sets;
mod learning;
#[cfg(test)]
mod tests;
mod tracker;
mod window;

use hither_core::prefetch::{Access, Advice, CacheStatus, PrefetchContext, Prefetcher};
use hither_core::range;
use hither_formats::root::BasketMap;
use hither_store::LearnedSet;
use learned::LearnedColumns;
pub(crate) use learned::schema_hash;
pub(crate) use learning::LazyTreeOpener;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracker::{ReadBudget, TreeTracker};

/// How trees are read ahead of programs that read a file through the byte interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeCacheConfig {
    /// Whether they are; by default they are.
    pub enabled: bool,
    /// Entries after which the branches that were read are taken for those that will be read; default 100.
    pub learn_entries: u64,
    /// Bytes of a file that are fetched ahead and not read yet, at most; default 32 MiB. What the client's cache has room
    /// for bounds it as well.
    pub budget_bytes: u64,
    /// Whether what was learned is kept in the client's store, if it has one, and used again; by default it is.
    pub remember: bool,
}

impl Default for TreeCacheConfig {
    fn default() -> Self {
        Self { enabled: true, learn_entries: 100, budget_bytes: 32 << 20, remember: true }
    }
}

/// Reads that are remembered until the layout is known.
const MAX_AWAITING: usize = 4096;
/// Baskets that one read may cover. Reads of more are those of a program that reads blocks.
const MAX_AT_ONCE: usize = 64;

/// An [`Prefetcher`] that knows trees.
#[derive(Debug)]
pub struct ColumnarPrefetcher {
    trees: ColumnarPrefetcherHandle,
    /// Advises on what is no basket.
    other: Option<Box<dyn Prefetcher>>,
}

/// The other end of a [`ColumnarPrefetcher`]: tells it what the file's trees are, and asks what it has learned.
#[derive(Debug, Clone)]
pub struct ColumnarPrefetcherHandle(Arc<Mutex<ColumnarState>>);

#[derive(Debug)]
struct ColumnarState {
    config: TreeCacheConfig,
    layout: Layout,
    /// The last that was heard of.
    conditions: Option<PrefetchContext>,
}

#[derive(Debug)]
enum Layout {
    /// Not known yet; reads so far.
    Awaited(Vec<(Range<u64>, CacheStatus)>),
    /// A course for each tree.
    Known { map: Arc<BasketMap>, courses: Vec<TreeTracker> },
    /// There is none.
    None,
}

impl ColumnarPrefetcher {
    /// An advisor for a file whose trees are not known yet; `other` advises until they are, and on what is no basket.
    #[must_use]
    pub fn new(config: TreeCacheConfig, other: Option<Box<dyn Prefetcher>>) -> Self {
        let layout = Layout::Awaited(Vec::new());
        let state = ColumnarState { config, layout, conditions: None };
        Self { trees: ColumnarPrefetcherHandle(Arc::new(Mutex::new(state))), other }
    }

    /// The other end of it.
    #[must_use]
    pub fn courses(&self) -> ColumnarPrefetcherHandle {
        self.trees.clone()
    }
}

impl Prefetcher for ColumnarPrefetcher {
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice {
        match self.trees.lock().accessed(access, conditions) {
            Some(advice) => advice,
            None => {
                let other = self.other.as_mut();
                other.map(|other| other.observe(access, conditions)).unwrap_or_default()
            }
        }
    }
}

impl ColumnarPrefetcherHandle {
    fn lock(&self) -> MutexGuard<'_, ColumnarState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The trees are known, and what other runs have learned of each of them, the newest first. What was read until now
    /// is looked at again; the answer is what to fetch now.
    #[must_use]
    pub fn set_layout(&self, map: Arc<BasketMap>, learned: &[Vec<LearnedSet>]) -> Advice {
        let mut state = self.lock();
        let learn_entries = state.config.learn_entries;
        let course = |tree: usize| {
            let sets = learned.get(tree).map(Vec::as_slice).unwrap_or_default();
            let sets = sets.iter().filter_map(|set| LearnedColumns::of(set, &map, tree)).collect();
            TreeTracker::new(Arc::clone(&map), tree, learn_entries, sets)
        };
        let courses = (0..map.trees().len()).map(course).collect();
        let known = Layout::Known { map: Arc::clone(&map), courses };
        let Layout::Awaited(reads) = std::mem::replace(&mut state.layout, known) else {
            return Advice::default();
        };
        state.catch_up(reads)
    }

    /// There are no trees, or they cannot be read.
    pub fn no_layout(&self) {
        self.lock().layout = Layout::None;
    }

    /// What was said of the trees was wrong; they are still to be told.
    pub fn drop_layout(&self) {
        self.lock().layout = Layout::Awaited(Vec::new());
    }

    /// Whether the trees are still to be told.
    #[must_use]
    pub fn awaits_layout(&self) -> bool {
        matches!(self.lock().layout, Layout::Awaited(_))
    }

    /// No entries but these will be read of the tree at this position.
    pub fn limit(&self, tree: usize, entries: Range<u64>) {
        if let Layout::Known { courses, .. } = &mut self.lock().layout
            && let Some(course) = courses.get_mut(tree)
        {
            course.limit(entries);
        }
    }

    /// What has been learned, by position of the tree.
    #[must_use]
    pub fn learned_sets(&self) -> Vec<(usize, LearnedSet)> {
        let state = self.lock();
        let Layout::Known { map, courses } = &state.layout else { return Vec::new() };
        let lessons = courses.iter().enumerate();
        lessons
            .filter_map(|(tree, course)| Some((tree, course.lesson()?.named(map, tree)?)))
            .collect()
    }
}

impl ColumnarState {
    /// None for what is left to others.
    fn accessed(&mut self, access: &Access, conditions: &PrefetchContext) -> Option<Advice> {
        match &mut self.layout {
            Layout::None => None,
            Layout::Awaited(reads) => {
                if reads.len() < MAX_AWAITING {
                    reads.push((access.range.clone(), access.found));
                }
                self.conditions = Some(*conditions);
                None
            }
            Layout::Known { map, courses } => {
                let budget = share(self.config.budget_bytes, courses);
                let moment = ReadBudget::new(access.found, conditions, budget);
                let mut advice = Advice::default();
                touch(map, courses, &access.range, &moment, &mut advice).then_some(advice)
            }
        }
    }

    /// Looks at what was read before the trees were known. The last read may still be waiting.
    fn catch_up(&mut self, reads: Vec<(Range<u64>, CacheStatus)>) -> Advice {
        let mut advice = Advice::default();
        let (Some(conditions), Layout::Known { map, courses }) =
            (self.conditions, &mut self.layout)
        else {
            return advice;
        };
        let last = reads.len().saturating_sub(1);
        for (number, (range, found)) in reads.into_iter().enumerate() {
            let found = if number == last { found } else { CacheStatus::Hit };
            let moment =
                ReadBudget::new(found, &conditions, share(self.config.budget_bytes, courses));
            touch(map, courses, &range, &moment, &mut advice);
        }
        let Advice { same_request: along, will_need: soon, .. } = advice;
        advice = Advice { will_need: [along, soon].concat(), ..Advice::default() };
        advice
    }
}

/// The part of `budget` that each tree that is being read has.
fn share(budget: u64, courses: &[TreeTracker]) -> u64 {
    let read = courses.iter().filter(|course| !course.active.is_empty()).count();
    budget / (read as u64).max(1)
}

/// Shows the baskets in `range` to their trees; false if that is not how they are read.
fn touch(
    map: &BasketMap,
    courses: &mut [TreeTracker],
    range: &Range<u64>,
    moment: &ReadBudget,
    advice: &mut Advice,
) -> bool {
    let Some(first) = map.overlapping(range).next() else { return false };
    if range.end <= first.range.end {
        if let Some(course) = courses.get_mut(first.tree) {
            course.touch(&first, moment, advice);
            course.name(moment, advice);
        }
        return true;
    }
    let found: Vec<_> = map.overlapping(range).take(MAX_AT_ONCE + 1).collect();
    // Who reads baskets begins or ends where one does; blocks do so by chance only.
    let meets = found
        .last()
        .is_some_and(|last| range.start == first.range.start || range.end == last.range.end);
    if found.len() > MAX_AT_ONCE || !meets {
        return false;
    }
    for basket in &found {
        let both = basket.range.start.max(range.start)..basket.range.end.min(range.end);
        // What sticks out at the ends of a read is not what was meant.
        if range::len(&both) * 2 >= range::len(&basket.range)
            && let Some(course) = courses.get_mut(basket.tree)
        {
            course.touch(basket, moment, advice);
        }
    }
    let trees: BTreeSet<usize> = found.iter().map(|basket| basket.tree).collect();
    for tree in trees {
        if let Some(course) = courses.get_mut(tree) {
            course.name(moment, advice);
        }
    }
    true
}
