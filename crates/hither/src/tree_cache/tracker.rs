//! How a program goes through one tree.

use super::column::{ColumnTracker, ReadRate};
use super::learned::LearnedColumns;
use hither_core::prefetch::{Advice, CacheStatus, PrefetchContext};
use hither_core::range;
use hither_formats::root::{BasketMap, BasketRef};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of one column that are fetched ahead while it is still being learned what is read.
const LEARNING_BYTES: u64 = 64 << 10;
/// Where a single basket is larger than that, the next one is fetched nevertheless up to this size.
const LEARNING_BASKET_BYTES: u64 = 1 << 20;
/// Bytes ahead after something was left unread behind.
const CAUTIOUS_BYTES: u64 = 256 << 10;

/// A read, and what may be done about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadBudget {
    /// Whether the program has to wait for a request.
    pub(super) missed: bool,
    /// Bytes that may be ahead.
    pub(super) budget: u64,
    /// Bytes that arrive within a round trip, if that is known.
    pub(super) flight_bytes: Option<u64>,
    /// Size of the file.
    pub(super) size: u64,
}

impl ReadBudget {
    pub(super) fn new(found: CacheStatus, conditions: &PrefetchContext, budget: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let flight_bytes = conditions.link.bandwidth_delay_bytes().map(|bytes| bytes as u64);
        Self {
            missed: found == CacheStatus::Miss,
            budget: budget.min(conditions.ahead_budget_bytes),
            flight_bytes,
            size: conditions.size.unwrap_or(u64::MAX),
        }
    }
}

/// The way of a program through a tree: what it reads, where it is, and what has been named ahead of it.
#[derive(Debug)]
pub(super) struct TreeTracker {
    pub(super) map: Arc<BasketMap>,
    /// Position of the tree's first column in the map.
    pub(super) first: usize,
    pub(super) columns: Vec<ColumnTracker>,
    /// Columns that take part.
    pub(super) active: Vec<u32>,
    /// Entries that will be read at most.
    pub(super) entries: Range<u64>,
    /// Where it began, once it did.
    start: Option<u64>,
    pub(super) learning: bool,
    learn_entries: u64,
    /// Bytes ahead while learning.
    learning_bytes: u64,
    /// Where the program is, as narrow as the baskets tell.
    pub(super) now: Range<u64>,
    /// The highest entry at which a basket began that was read in this pass.
    pub(super) frontier: u64,
    /// What the frontier was when something was named last, and the time before.
    pub(super) marks: [u64; 2],
    /// All steady columns have been named up to here.
    pub(super) named_end: u64,
    /// Bytes named and not read.
    pub(super) outstanding: u64,
    /// Bytes that may be outstanding, as far as the program's ways go.
    pub(super) window: u64,
    /// Nothing more can be named before something changes.
    pub(super) exhausted: bool,
    /// Number of the current burst, and its entries.
    pub(super) burst: (u32, Range<u64>),
    /// Bytes fetched on suspicion that proved wrong so far.
    pub(super) tried_bytes: u64,
    /// Sets that other runs learned, the newest first, and which of them seems to be that of this run.
    learned: Vec<LearnedColumns>,
    chosen: Option<usize>,
}

impl TreeTracker {
    pub(super) fn new(
        map: Arc<BasketMap>,
        tree: usize,
        learn_entries: u64,
        learned: Vec<LearnedColumns>,
    ) -> Self {
        let layout = map.trees().get(tree);
        let columns = layout.map_or(0..0, |layout| layout.columns());
        let entries = 0..layout.map_or(0, |layout| layout.entries());
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
            named_end: 0,
            outstanding: 0,
            window: u64::MAX,
            exhausted: false,
            burst: (1, 0..0),
            tried_bytes: 0,
            learned,
            chosen: None,
            map,
        }
    }

    /// Looks at a basket that is read. What follows from that is said by [`TreeTracker::name`].
    pub(super) fn touch(&mut self, basket: &BasketRef, moment: &ReadBudget, advice: &mut Advice) {
        let Ok(index) = u32::try_from(basket.index) else { return };
        let id = basket.column.wrapping_sub(self.first);
        let Some(column) = self.columns.get(id) else { return };
        let again = column.touched && column.read == index + 1;
        if moment.missed {
            // A read of a part of a basket is soon followed by one of the rest.
            advice.same_request.push(basket.range.clone());
        }
        if again {
            return;
        }
        let late = column.touched && (column.read..column.next).contains(&index);
        let back = column.active && index < column.next && !late;
        let steady = column.is_steady();
        if back && !moment.missed {
            return;
        }
        if back {
            self.jump(basket.entries.start, advice);
        }
        self.see(&basket.entries);
        if !self.columns.get(id).is_some_and(|column| column.touched) {
            self.first_touch(id, index, basket, moment, advice);
        } else if late {
            self.take_up(id, index);
        } else {
            self.go_on(id, index, basket, moment, advice);
        }
        let begun = *self.start.get_or_insert(basket.entries.start);
        if self.learning && basket.entries.start >= begun.saturating_add(self.learn_entries) {
            self.learning = false;
            self.exhausted = false;
        }
        self.frontier = self.frontier.max(basket.entries.start);
        self.in_burst(id, &basket.entries, moment, advice);
        if self.columns.get(id).is_some_and(ColumnTracker::is_steady) != steady {
            self.exhausted = false;
        }
    }

    /// Limits what will be read to `entries`.
    pub(super) fn limit(&mut self, entries: Range<u64>) {
        let end = self.map.trees().iter().find(|tree| tree.columns().start == self.first);
        let end = end.map_or(0, |tree| tree.entries());
        self.entries = entries.start.min(end)..entries.end.min(end);
        self.exhausted = false;
    }

    /// The bytes that may be outstanding now.
    pub(super) fn window_bytes(&self, moment: &ReadBudget) -> u64 {
        let window = if self.learning { self.learning_bytes } else { self.window };
        window.min(moment.budget)
    }

    /// A column that was not read before.
    fn first_touch(
        &mut self,
        id: usize,
        index: u32,
        basket: &BasketRef,
        moment: &ReadBudget,
        advice: &mut Advice,
    ) {
        let expected = self.columns.get(id).is_some_and(|column| column.active);
        if !expected {
            // What is read where the program began is read for every entry, as far as one can tell.
            let early = self.start.is_none_or(|start| {
                basket.entries.start <= start.saturating_add(self.learn_entries)
            });
            self.activate(id, index, if early { ReadRate::SURE } else { ReadRate::NEW });
        }
        let mut foreseen = expected;
        if let Some(column) = self.columns.get_mut(id) {
            column.touched = true;
            foreseen |= column.tried.take() == Some(index);
        }
        if foreseen {
            self.tried_bytes = self.tried_bytes.saturating_sub(range::len(&basket.range));
        }
        self.pass_over(id, index, advice);
        self.advance(id, index + 1);
        if let Some(column) = self.columns.get_mut(id) {
            column.read = index + 1;
            column.loose = false;
        }
        let known = self.choose(id, advice);
        if moment.missed && !known && !expected {
            self.try_others(id, moment, advice);
        }
    }

    /// A column that is read in order, or has passed over some of its baskets.
    fn go_on(
        &mut self,
        id: usize,
        index: u32,
        basket: &BasketRef,
        moment: &ReadBudget,
        advice: &mut Advice,
    ) {
        let Some(column) = self.columns.get(id) else { return };
        let (next, loose, steady) = (column.next, column.loose, column.is_steady());
        let beyond = basket.entries.start >= self.named_end;
        if index > next && !loose && steady && beyond && moment.missed {
            self.jump(basket.entries.start, advice);
        } else if index > next && !loose {
            self.columns[id].habit.passed(index - next);
            if steady {
                self.be_cautious();
            }
        }
        self.pass_over(id, index, advice);
        self.advance(id, index + 1);
        let column = &mut self.columns[id];
        column.habit.read();
        column.read = index + 1;
        column.loose = false;
    }

    /// A basket is read that seemed passed over: the program goes through its columns one after the other, and this one
    /// was behind.
    fn take_up(&mut self, id: usize, index: u32) {
        let named = self.columns[id].named;
        self.advance(id, named);
        let column = &mut self.columns[id];
        column.habit.read();
        (column.next, column.named, column.read) = (index + 1, index + 1, index + 1);
        self.exhausted = false;
    }

    /// The program is elsewhere now.
    fn jump(&mut self, entry: u64, advice: &mut Advice) {
        let mut left_behind = false;
        for at in 0..self.active.len() {
            let id = self.active[at] as usize;
            let named = self.columns[id].named;
            if self.columns[id].next < named {
                left_behind = true;
                self.pass_over(id, named, advice);
                self.columns[id].habit.passed(1);
            }
            self.place(id, entry);
        }
        if left_behind {
            self.be_cautious();
        }
        self.learning = false;
        self.exhausted = false;
        self.named_end = entry;
        self.frontier = entry;
        self.marks = [entry; 2];
        self.now = entry..entry;
    }

    /// What was expected did not come: plans are small again, until they prove right.
    fn be_cautious(&mut self) {
        self.window = self.learning_bytes.max(CAUTIOUS_BYTES);
    }

    /// Puts a column where it holds `entry`.
    fn place(&mut self, id: usize, entry: u64) {
        let found = self.map.baskets_of(self.first + id, &(entry..entry.saturating_add(1)));
        let next = u32::try_from(found.start).unwrap_or(u32::MAX);
        let column = &mut self.columns[id];
        (column.next, column.named, column.read, column.loose) = (next, next, next, true);
    }

    /// Makes a column take part, from basket `next` on.
    fn activate(&mut self, id: usize, next: u32, habit: ReadRate) {
        let Ok(number) = u32::try_from(id) else { return };
        let Some(layout) = self.map.columns().get(self.first + id) else { return };
        let largest = layout.baskets().range(next as usize + 1).map_or(0, |r| r.end - r.start);
        let bytes = LEARNING_BYTES.max(largest.min(LEARNING_BASKET_BYTES));
        self.learning_bytes = self.learning_bytes.saturating_add(bytes);
        let column = &mut self.columns[id];
        column.active = true;
        column.habit = habit;
        (column.next, column.named) = (next, next);
        self.active.push(number);
        self.exhausted = false;
    }

    /// Moves a column on to basket `next`; what was named before that is not outstanding any more.
    fn advance(&mut self, id: usize, next: u32) {
        let (from, named) = (self.columns[id].next, self.columns[id].named);
        let bytes = |index| self.range(id, index).map_or(0, |range| range::len(&range));
        let reached: u64 = (from..next.min(named)).map(bytes).sum();
        self.outstanding = self.outstanding.saturating_sub(reached);
        let column = &mut self.columns[id];
        column.next = next.max(from);
        column.named = named.max(column.next);
    }

    /// Moves a column on to basket `next`; what was named before that is not wanted any more.
    pub(super) fn pass_over(&mut self, id: usize, next: u32, advice: &mut Advice) {
        let named = self.columns[id].next..next.min(self.columns[id].named);
        advice.dont_need.extend(named.filter_map(|index| self.range(id, index)));
        self.advance(id, next);
    }

    pub(super) fn range(&self, id: usize, index: u32) -> Option<Range<u64>> {
        self.map.columns().get(self.first + id)?.baskets().range(index as usize)
    }

    /// Narrows down where the program is.
    fn see(&mut self, entries: &Range<u64>) {
        let (start, end) = (self.now.start.max(entries.start), self.now.end.min(entries.end));
        self.now = if start < end { start..end } else { entries.clone() };
    }

    /// Looks for the learned set that this run follows, now that it has read column `id`; tells whether there is one.
    fn choose(&mut self, id: usize, advice: &mut Advice) -> bool {
        if self.chosen.and_then(|at| self.learned.get(at)).is_some_and(|set| set.holds(id)) {
            return true;
        }
        let touched = |id: &&u32| self.columns[**id as usize].touched;
        let fits = |set: &LearnedColumns| {
            self.active.iter().filter(touched).all(|id| set.holds(*id as usize))
        };
        let Some(at) = self.learned.iter().position(fits) else { return false };
        self.chosen = Some(at);
        let Some(set) = self.learned.get(at).cloned() else { return false };
        // What an earlier guess has brought in and nobody has read goes again.
        for id in std::mem::take(&mut self.active) {
            let column = &self.columns[id as usize];
            match column.touched || set.holds(id as usize) {
                true => self.active.push(id),
                false => {
                    let named = column.named;
                    self.pass_over(id as usize, named, advice);
                    self.columns[id as usize] = ColumnTracker::UNKNOWN;
                }
            }
        }
        let members = set.steady.iter().map(|id| (*id, ReadRate::SURE));
        let members = members.chain(set.now_and_then.iter().map(|id| (*id, ReadRate::NEW)));
        let entry = self.now.start;
        for (id, habit) in members {
            let id = id as usize;
            if self.columns.get(id).is_some_and(|column| !column.active) {
                self.activate(id, 0, habit);
                self.place(id, entry);
                self.columns[id].burst = u32::MAX;
            }
        }
        self.learning = false;
        true
    }

    /// What has been learned, if anything has: columns that are read throughout, and those now and then.
    pub(super) fn lesson(&self) -> Option<LearnedColumns> {
        let touched: Vec<u32> =
            self.active.iter().copied().filter(|id| self.columns[*id as usize].touched).collect();
        let done = |id: &u32| {
            let layout = self.map.columns().get(self.first + *id as usize);
            let baskets = layout.map_or(0, |layout| layout.baskets().len());
            self.columns[*id as usize].next as usize >= baskets
        };
        // Of a tree of a basket a column, learning sees no end.
        if touched.is_empty() || (self.learning && !touched.iter().all(done)) {
            return None;
        }
        let (mut steady, mut now_and_then): (Vec<u32>, Vec<u32>) =
            touched.into_iter().partition(|id| self.columns[*id as usize].habit.is_steady());
        steady.sort_unstable();
        now_and_then.sort_unstable();
        Some(LearnedColumns { steady, now_and_then })
    }
}
