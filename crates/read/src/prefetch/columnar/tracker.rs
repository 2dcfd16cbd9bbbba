//! A program's position in one tree, and the columns that it reads.

use super::column::{ColumnTracker, ReadRate};
use super::learned::LearnedColumns;
use crate::prefetch::{Advice, PrefetchContext};
use hither_core::layout::{BasketRef, ColumnarLayout};
use hither_core::range;
use hither_trace::CacheStatus;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of each column that are prefetched while the set of columns is still being learned.
const LEARNING_BYTES: u64 = 64 << 10;
/// Maximum size of a single basket that is prefetched while learning although it is larger.
const LEARNING_BASKET_BYTES: u64 = 1 << 20;
/// Prefetch window after prefetched baskets were skipped.
const CAUTIOUS_BYTES: u64 = 256 << 10;

/// A read, and the bytes that may be prefetched on its occasion.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadBudget {
    /// The program has to wait for a request.
    pub(super) missed: bool,
    /// Maximum bytes prefetched.
    pub(super) budget: u64,
    /// Bytes that arrive within a round trip, if known.
    pub(super) round_trip_bytes: Option<u64>,
    /// Size of the file.
    pub(super) size: u64,
}

impl ReadBudget {
    pub(super) fn new(found: CacheStatus, context: &PrefetchContext, budget: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let round_trip_bytes = context.link.bandwidth_delay_bytes().map(|bytes| bytes as u64);
        Self {
            missed: found == CacheStatus::Miss,
            budget: budget.min(context.ahead_budget_bytes),
            round_trip_bytes,
            size: context.size.unwrap_or(u64::MAX),
        }
    }
}

/// A program's progress through a tree: the columns it reads, its position, and the baskets
/// prefetched for it.
#[derive(Debug)]
pub(super) struct TreeTracker<L> {
    pub(super) layout: Arc<L>,
    pub(super) tree: usize,
    /// Position of the tree's first column in the layout.
    pub(super) first: usize,
    pub(super) columns: Vec<ColumnTracker>,
    /// Columns that are prefetched.
    pub(super) active: Vec<u32>,
    /// Entries that may be read.
    pub(super) entries: Range<u64>,
    /// Entry at which the program began.
    start: Option<u64>,
    pub(super) learning: bool,
    learn_entries: u64,
    /// Prefetch window while learning.
    learning_bytes: u64,
    /// The entries at the program's position, as narrow as its baskets show.
    pub(super) now: Range<u64>,
    /// The highest first entry of a basket that was read in this pass.
    pub(super) frontier: u64,
    /// The frontier at the last two extensions of the window, the older one first.
    pub(super) marks: [u64; 2],
    /// Entry up to which all steady columns have been prefetched.
    pub(super) prefetched_end: u64,
    /// Bytes prefetched and not read yet.
    pub(super) outstanding: u64,
    /// Maximum outstanding bytes, adapted to the accuracy of predictions.
    pub(super) window: u64,
    /// Nothing is left to prefetch until a column or the position changes.
    pub(super) exhausted: bool,
    /// Number of the current burst, and its entries: reads, close together, of columns that are
    /// read now and then.
    pub(super) burst: (u32, Range<u64>),
    /// Bytes fetched on trial and not read so far.
    pub(super) tried_bytes: u64,
    /// Sets that other runs learned, newest first.
    learned: Vec<LearnedColumns>,
    /// Position in `learned` of the set that this run follows.
    chosen: Option<usize>,
}

impl<L: ColumnarLayout> TreeTracker<L> {
    pub(super) fn new(
        layout: Arc<L>,
        tree: usize,
        learn_entries: u64,
        learned: Vec<LearnedColumns>,
    ) -> Self {
        let columns = layout.columns(tree);
        let entries = 0..layout.entries(tree);
        Self {
            first: columns.start,
            columns: vec![ColumnTracker::UNKNOWN; columns.len()],
            active: Vec::new(),
            entries,
            start: None,
            learning: true,
            learn_entries,
            learning_bytes: 0,
            now: 0..0,
            frontier: 0,
            marks: [0; 2],
            prefetched_end: 0,
            outstanding: 0,
            window: u64::MAX,
            exhausted: false,
            burst: (1, 0..0),
            tried_bytes: 0,
            learned,
            chosen: None,
            tree,
            layout,
        }
    }

    /// Records the read of a basket. [`TreeTracker::extend_window`] prefetches what follows.
    pub(super) fn observe(&mut self, basket: &BasketRef, read: &ReadBudget, advice: &mut Advice) {
        let Ok(index) = u32::try_from(basket.index) else { return };
        let id = basket.column.wrapping_sub(self.first);
        let Some(column) = self.columns.get(id) else { return };
        let again = column.was_read && column.read == index + 1;
        if read.missed {
            // A read of a part of a basket is soon followed by one of the rest.
            advice.same_request.push(basket.range.clone());
        }
        if again {
            return;
        }
        let late = column.was_read && (column.read..column.next).contains(&index);
        let back = column.active && index < column.next && !late;
        let steady = column.is_steady();
        if back && !read.missed {
            return;
        }
        if back {
            self.jump(basket.entries.start, advice);
        }
        self.narrow_position(&basket.entries);
        if !self.columns.get(id).is_some_and(|column| column.was_read) {
            self.first_read(id, index, basket, read, advice);
        } else if late {
            self.read_late(id, index);
        } else {
            self.read_on(id, index, basket, read, advice);
        }
        let begun = *self.start.get_or_insert(basket.entries.start);
        if self.learning && basket.entries.start >= begun.saturating_add(self.learn_entries) {
            self.learning = false;
            self.exhausted = false;
        }
        self.frontier = self.frontier.max(basket.entries.start);
        self.observe_burst(id, &basket.entries, read, advice);
        if self.columns.get(id).is_some_and(ColumnTracker::is_steady) != steady {
            self.exhausted = false;
        }
    }

    /// Limits what will be read to `entries`.
    pub(super) fn limit(&mut self, entries: Range<u64>) {
        let end = self.layout.entries(self.tree);
        self.entries = entries.start.min(end)..entries.end.min(end);
        self.exhausted = false;
    }

    /// Maximum bytes that may be outstanding now.
    pub(super) fn window_bytes(&self, read: &ReadBudget) -> u64 {
        let window = if self.learning { self.learning_bytes } else { self.window };
        window.min(read.budget)
    }

    /// Records the first read of a column.
    fn first_read(
        &mut self,
        id: usize,
        index: u32,
        basket: &BasketRef,
        read: &ReadBudget,
        advice: &mut Advice,
    ) {
        let expected = self.columns.get(id).is_some_and(|column| column.active);
        if !expected {
            // A column that is read where the program began is probably read for every entry.
            let early = self.start.is_none_or(|start| {
                basket.entries.start <= start.saturating_add(self.learn_entries)
            });
            self.activate(id, index, if early { ReadRate::SURE } else { ReadRate::NEW });
        }
        let mut predicted = expected;
        if let Some(column) = self.columns.get_mut(id) {
            column.was_read = true;
            predicted |= column.tried.take() == Some(index);
        }
        if predicted {
            self.tried_bytes = self.tried_bytes.saturating_sub(range::len(&basket.range));
        }
        self.skip_to(id, index, advice);
        self.advance(id, index + 1);
        if let Some(column) = self.columns.get_mut(id) {
            column.read = index + 1;
            column.loose = false;
        }
        let known = self.choose_learned(id, advice);
        if read.missed && !known && !expected {
            self.try_neighbours(id, read, advice);
        }
    }

    /// Records a read further on in a column, in order or past skipped baskets.
    fn read_on(
        &mut self,
        id: usize,
        index: u32,
        basket: &BasketRef,
        read: &ReadBudget,
        advice: &mut Advice,
    ) {
        let Some(column) = self.columns.get(id) else { return };
        let next = column.next;
        let loose = column.loose;
        let steady = column.is_steady();
        let beyond = basket.entries.start >= self.prefetched_end;
        if index > next && !loose && steady && beyond && read.missed {
            self.jump(basket.entries.start, advice);
        } else if index > next && !loose {
            self.columns[id].rate.record_skipped(index - next);
            if steady {
                self.shrink_window();
            }
        }
        self.skip_to(id, index, advice);
        self.advance(id, index + 1);
        let column = &mut self.columns[id];
        column.rate.record_read();
        column.read = index + 1;
        column.loose = false;
    }

    /// Records the read of a basket that seemed skipped: the program goes through its columns one
    /// after the other, and this column was behind.
    fn read_late(&mut self, id: usize, index: u32) {
        let prefetched = self.columns[id].prefetched;
        self.advance(id, prefetched);
        let column = &mut self.columns[id];
        column.rate.record_read();
        (column.next, column.prefetched, column.read) = (index + 1, index + 1, index + 1);
        self.exhausted = false;
    }

    /// Moves the position to `entry`, which does not follow from the reads so far.
    fn jump(&mut self, entry: u64, advice: &mut Advice) {
        let mut left_behind = false;
        for at in 0..self.active.len() {
            let id = self.active[at] as usize;
            let prefetched = self.columns[id].prefetched;
            if self.columns[id].next < prefetched {
                left_behind = true;
                self.skip_to(id, prefetched, advice);
                self.columns[id].rate.record_skipped(1);
            }
            self.seek_column(id, entry);
        }
        if left_behind {
            self.shrink_window();
        }
        self.learning = false;
        self.exhausted = false;
        self.prefetched_end = entry;
        self.frontier = entry;
        self.marks = [entry; 2];
        self.now = entry..entry;
    }

    /// Shrinks the window after a wrong prediction.
    fn shrink_window(&mut self) {
        self.window = self.learning_bytes.max(CAUTIOUS_BYTES);
    }

    /// Moves a column to its basket that holds `entry`.
    fn seek_column(&mut self, id: usize, entry: u64) {
        let found = self.layout.baskets_of(self.first + id, &(entry..entry.saturating_add(1)));
        let next = u32::try_from(found.start).unwrap_or(u32::MAX);
        let column = &mut self.columns[id];
        (column.next, column.prefetched, column.read, column.loose) = (next, next, next, true);
    }

    /// Adds a column to those that are prefetched, from basket `next` on.
    fn activate(&mut self, id: usize, next: u32, rate: ReadRate) {
        let Ok(number) = u32::try_from(id) else { return };
        let largest = self.range(id, next.saturating_add(1)).map_or(0, |range| range::len(&range));
        let bytes = LEARNING_BYTES.max(largest.min(LEARNING_BASKET_BYTES));
        self.learning_bytes = self.learning_bytes.saturating_add(bytes);
        let column = &mut self.columns[id];
        column.active = true;
        column.rate = rate;
        (column.next, column.prefetched) = (next, next);
        self.active.push(number);
        self.exhausted = false;
    }

    /// Moves a column on to basket `next`; earlier prefetched baskets are no longer outstanding.
    fn advance(&mut self, id: usize, next: u32) {
        let from = self.columns[id].next;
        let prefetched = self.columns[id].prefetched;
        let bytes = |index| self.range(id, index).map_or(0, |range| range::len(&range));
        let reached: u64 = (from..next.min(prefetched)).map(bytes).sum();
        self.outstanding = self.outstanding.saturating_sub(reached);
        let column = &mut self.columns[id];
        column.next = next.max(from);
        column.prefetched = prefetched.max(column.next);
    }

    /// Moves a column on to basket `next` and cancels the prefetches of earlier baskets.
    pub(super) fn skip_to(&mut self, id: usize, next: u32, advice: &mut Advice) {
        let prefetched = self.columns[id].next..next.min(self.columns[id].prefetched);
        advice.dont_need.extend(prefetched.filter_map(|index| self.range(id, index)));
        self.advance(id, next);
    }

    pub(super) fn range(&self, id: usize, index: u32) -> Option<Range<u64>> {
        self.layout.basket_range(self.first + id, index as usize)
    }

    /// Narrows down the position to `entries`.
    fn narrow_position(&mut self, entries: &Range<u64>) {
        let start = self.now.start.max(entries.start);
        let end = self.now.end.min(entries.end);
        self.now = if start < end { start..end } else { entries.clone() };
    }

    /// Looks for the learned set that this run follows, now that it has read column `id`; true if
    /// there is one.
    fn choose_learned(&mut self, id: usize, advice: &mut Advice) -> bool {
        if self.chosen.and_then(|at| self.learned.get(at)).is_some_and(|set| set.contains(id)) {
            return true;
        }
        let was_read = |id: &&u32| self.columns[**id as usize].was_read;
        let fits = |set: &LearnedColumns| {
            self.active.iter().filter(was_read).all(|id| set.contains(*id as usize))
        };
        let Some(at) = self.learned.iter().position(fits) else { return false };
        self.chosen = Some(at);
        let Some(set) = self.learned.get(at).cloned() else { return false };
        // Columns of the set chosen before that were never read are dropped.
        for id in std::mem::take(&mut self.active) {
            let column = &self.columns[id as usize];
            if column.was_read || set.contains(id as usize) {
                self.active.push(id);
            } else {
                let prefetched = column.prefetched;
                self.skip_to(id as usize, prefetched, advice);
                self.columns[id as usize] = ColumnTracker::UNKNOWN;
            }
        }
        let members = set.steady.iter().map(|id| (*id, ReadRate::SURE));
        let members = members.chain(set.now_and_then.iter().map(|id| (*id, ReadRate::NEW)));
        let entry = self.now.start;
        for (id, rate) in members {
            let id = id as usize;
            if self.columns.get(id).is_some_and(|column| !column.active) {
                self.activate(id, 0, rate);
                self.seek_column(id, entry);
                self.columns[id].burst = u32::MAX;
            }
        }
        self.learning = false;
        true
    }

    /// The set that this run has learned, if it has learned one.
    pub(super) fn learned(&self) -> Option<LearnedColumns> {
        let read: Vec<u32> =
            self.active.iter().copied().filter(|id| self.columns[*id as usize].was_read).collect();
        let done = |id: &u32| {
            let id = *id as usize;
            self.columns[id].next as usize >= self.layout.baskets(self.first + id)
        };
        // Where each column has a single basket, learning ends with the tree.
        if read.is_empty() || (self.learning && !read.iter().all(done)) {
            return None;
        }
        let (mut steady, mut now_and_then): (Vec<u32>, Vec<u32>) =
            read.into_iter().partition(|id| self.columns[*id as usize].rate.is_steady());
        steady.sort_unstable();
        now_and_then.sort_unstable();
        Some(LearnedColumns { steady, now_and_then })
    }
}
