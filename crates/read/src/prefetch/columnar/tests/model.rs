//! A file, programs that read it, and a cache with a clock that counts in round trips.

use super::super::{ColumnarConfig, ColumnarPrefetcher, LearnedSet};
use super::synthetic::{SyntheticColumn, SyntheticLayout};
use crate::prefetch::{Access, Advice, PrefetchContext, Prefetcher};
use hither_core::layout::ColumnarLayout;
use hither_core::{Limits, LinkEstimate};
use hither_trace::CacheStatus;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The client's defaults.
pub(super) const CONFIG: ColumnarConfig =
    ColumnarConfig { learn_entries: 100, budget_bytes: 32 << 20 };

/// The baskets of a file of one tree, or of two that are alike.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) entries: u64,
    cluster: u64,
    /// Per column: entries in a basket, and bytes.
    columns: Vec<(u64, u32)>,
    trees: usize,
    /// Which of the trees is meant.
    tree: usize,
    layout: Arc<SyntheticLayout>,
}

/// A read of one basket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    range: Range<u64>,
    /// First entry of the basket.
    pub(super) entry: u64,
    pub(super) step: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) reads: Vec<Read>,
}

impl Shape {
    /// Baskets of 8,000 bytes, packed to some 1,500, of columns of 1 to 17 numbers.
    pub(super) fn unclustered(columns: usize, entries: u64) -> Self {
        let column = |id: usize| {
            let numbers = if matches!(id, 70..78) { 17 } else { [1, 4, 8, 10, 2, 12, 8][id % 7] };
            (8_000 / (4 * numbers), 1_000 + u32::try_from(id * 37 % 1_000).unwrap())
        };
        let columns = (0..columns).map(column).collect();
        Self { entries, cluster: 0, columns, trees: 1, tree: 0, layout: Arc::default() }.written()
    }

    /// A basket per column and cluster.
    pub(super) fn clustered(columns: usize, entries: u64, cluster: u64) -> Self {
        let column = |id: usize| (cluster, 2_000 + u32::try_from(id * 137 % 6_000).unwrap());
        let columns = (0..columns).map(column).collect();
        Self { entries, cluster, columns, trees: 1, tree: 0, layout: Arc::default() }.written()
    }

    /// Two trees of this shape in one file.
    pub(super) fn twice(&self) -> Self {
        Self { trees: 2, ..self.clone() }.written()
    }

    pub(super) fn second(&self) -> Self {
        Self { tree: 1, ..self.clone() }
    }

    pub(super) fn layout(&self) -> Arc<SyntheticLayout> {
        Arc::clone(&self.layout)
    }

    /// Lays out the baskets as a writer does: each where it is full.
    fn written(mut self) -> Self {
        let mut all = Vec::new();
        for tree in 0..self.trees {
            for (column, (each, _)) in self.columns.iter().enumerate() {
                let number = self.entries.div_ceil(*each);
                let end = |n: u64| ((n + 1) * each).min(self.entries);
                all.extend((0..number).map(|n| (end(n), tree, column)));
            }
        }
        all.sort_unstable();
        let empty = || vec![Vec::<(u64, u32)>::new(); self.columns.len()];
        let mut places: Vec<_> = (0..self.trees).map(|_| empty()).collect();
        let mut at = 1_000;
        for (_, tree, column) in all {
            let bytes = self.columns[column].1;
            places[tree][column].push((at, bytes));
            at += u64::from(bytes);
        }
        let mut layout = SyntheticLayout::default();
        for tree in places {
            let columns = tree.iter().zip(&self.columns).enumerate();
            let columns = columns.map(|(id, (places, (each, _)))| {
                let starts = (0..=places.len() as u64).map(|n| (n * each).min(self.entries));
                SyntheticColumn::new(id, places, starts.collect())
            });
            layout.add(self.entries, self.cluster, columns);
        }
        self.layout = Arc::new(layout);
        self
    }
}

impl Program {
    /// Reads baskets of `(column, entry)`, each once in a row.
    fn new(shape: &Shape, wants: impl IntoIterator<Item = (usize, u64, usize)>) -> Self {
        let layout = &shape.layout;
        let first = layout.columns(shape.tree).start;
        let mut held = HashMap::new();
        let mut reads = Vec::new();
        for (column, entry, step) in wants {
            let index = layout.baskets_of(first + column, &(entry..entry + 1)).start;
            if held.insert(column, index) != Some(index) {
                let range = layout.basket_range(first + column, index).unwrap();
                let entry = layout.basket_entries(first + column, index).start;
                reads.push(Read { range, entry, step });
            }
        }
        Self { reads }
    }

    /// Event after event, of each some columns.
    pub(super) fn of_events(shape: &Shape, columns: &[usize], events: &[u64]) -> Self {
        let of = |event: &u64| columns.iter().map(move |id| (*id, *event, 0)).collect::<Vec<_>>();
        Self::new(shape, events.iter().flat_map(of))
    }

    pub(super) fn in_basket_order(shape: &Shape, columns: &[usize]) -> Self {
        let mut events: Vec<u64> = Vec::new();
        for id in columns {
            let each = shape.columns[*id].0;
            events.extend((0..shape.entries.div_ceil(each)).map(|n| n * each));
        }
        events.sort_unstable();
        events.dedup();
        Self::of_events(shape, columns, &events)
    }

    /// Steps of entries, in each step column after column.
    pub(super) fn in_steps(shape: &Shape, columns: &[usize], steps: usize) -> Self {
        let step_entries = shape.entries.div_ceil(steps as u64);
        let mut wants = Vec::new();
        for step in 0..steps {
            let from = step as u64 * step_entries;
            for id in columns {
                let each = shape.columns[*id].0;
                let to = (from + step_entries).min(shape.entries);
                let first = from / each * each;
                let starts = (0..).map(|n| first + n * each).take_while(|entry| *entry < to);
                wants.extend(starts.map(|entry| (*id, entry.max(from), step)));
            }
        }
        Self::new(shape, wants)
    }

    /// Reads `always` for every event, `extra` for `per_thousand` of a thousand.
    pub(super) fn triggered(
        shape: &Shape,
        always: &[usize],
        extra: &[usize],
        per_thousand: u64,
    ) -> Self {
        let mut random = 1_u64;
        let mut wants = Vec::new();
        for event in 0..shape.entries {
            wants.extend(always.iter().map(|id| (*id, event, 0)));
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if (random >> 33) % 1_000 < per_thousand {
                wants.extend(extra.iter().map(|id| (*id, event, 0)));
            }
        }
        Self::new(shape, wants)
    }

    pub(super) fn at_random(shape: &Shape, columns: &[usize], events: usize) -> Self {
        let mut random = 7_u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % shape.entries
        };
        let events: Vec<u64> = (0..events).map(|_| next()).collect();
        Self::of_events(shape, columns, &events)
    }

    pub(super) fn interleaved(one: &Self, other: &Self) -> Self {
        let mut a = one.reads.iter();
        let mut b = other.reads.iter();
        let mut reads = Vec::new();
        loop {
            let next: Vec<Read> = a.by_ref().take(3).chain(b.by_ref().take(2)).cloned().collect();
            if next.is_empty() {
                return Self { reads };
            }
            reads.extend(next);
        }
    }
}

/// Result of running a program.
#[derive(Default)]
pub(super) struct RunResult {
    /// Round trips waited for, in whole.
    pub(super) waited: f64,
    /// Reads that waited, and how long.
    pub(super) waits: Vec<(usize, f64)>,
    pub(super) fetched: u64,
    /// Bytes of the baskets that were read, once each.
    pub(super) needed: u64,
    pub(super) max_ahead: u64,
    /// First entry of the last basket that was fetched.
    pub(super) last_entry: u64,
    pub(super) learned_sets: Vec<(usize, LearnedSet)>,
}

impl fmt::Debug for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first: Vec<_> = self.waits.iter().take(20).collect();
        write!(f, "waited {} in {}, first {first:?}; ", self.waited, self.waits.len())?;
        write!(f, "fetched {}, needed {}, ", self.fetched, self.needed)?;
        write!(f, "ahead {}, up to entry {}", self.max_ahead, self.last_entry)
    }
}

impl RunResult {
    pub(super) fn waste(&self) -> f64 {
        (self.fetched - self.needed) as f64 / self.fetched as f64
    }
}

/// A way to run programs.
pub(super) struct Run<'a> {
    shape: &'a Shape,
    layout_after: f64,
    learned: &'a [LearnedSet],
    forgetting: bool,
    budget: u64,
    entries: Option<Range<u64>>,
}

/// Pieces of the file that are cached or in flight.
#[derive(Default)]
struct Held {
    /// By offset: bytes, when they are there, and whether they have been read.
    pieces: HashMap<u64, (u64, f64, bool)>,
    fetched: u64,
    ahead: u64,
}

impl Held {
    fn fetch(&mut self, range: &Range<u64>, there: f64) {
        let bytes = range.end - range.start;
        self.pieces.entry(range.start).or_insert_with(|| {
            self.fetched += bytes;
            self.ahead += bytes;
            (bytes, there, false)
        });
    }

    fn take(&mut self, advice: &Advice, now: f64, budget: u64) {
        for range in &advice.same_request {
            self.fetch(range, now + 1.0);
        }
        for range in &advice.will_need {
            if self.ahead + (range.end - range.start) <= budget {
                self.fetch(range, now + 1.0);
            }
        }
    }
}

pub(super) fn context(size: u64, ahead_budget_bytes: u64) -> PrefetchContext {
    PrefetchContext {
        size: Some(size),
        link: LinkEstimate::default(),
        limits: Limits::unlimited(),
        ahead_bytes: 0,
        ahead_budget_bytes,
        wasted_bytes: 0,
        fetched_bytes: 0,
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(shape: &'a Shape) -> Self {
        let forgetting = false;
        let budget = 32 << 20;
        let entries = None;
        Self { shape, layout_after: 0.0, learned: &[], forgetting, budget, entries }
    }

    pub(super) fn layout_after(self, layout_after: f64) -> Self {
        Self { layout_after, ..self }
    }

    pub(super) fn learned(self, learned: &'a [LearnedSet]) -> Self {
        Self { learned, ..self }
    }

    /// Drops every piece once it was read.
    pub(super) fn forgetting(self) -> Self {
        Self { forgetting: true, ..self }
    }

    pub(super) fn budget(self, budget: u64) -> Self {
        Self { budget, ..self }
    }

    pub(super) fn entries(self, entries: Range<u64>) -> Self {
        Self { entries: Some(entries), ..self }
    }

    pub(super) fn of(self, program: &Program) -> RunResult {
        let mut cache = ColumnarPrefetcher::new(CONFIG, None);
        let handle = cache.handle();
        let mut layout = Some(self.shape.layout());
        let learned = vec![self.learned.to_vec(); self.shape.trees];
        let mut held = Held::default();
        let mut now = 0.0;
        let mut result = RunResult::default();
        let mut needed = HashMap::new();
        for (number, read) in program.reads.iter().enumerate() {
            if now >= self.layout_after
                && let Some(layout) = layout.take()
            {
                held.take(
                    &handle.set_layout(layout, &learned),
                    now.min(self.layout_after.max(now - 1.0)),
                    self.budget,
                );
                if let Some(entries) = &self.entries {
                    handle.limit(0, entries.clone());
                }
            }
            let found = match held.pieces.get(&read.range.start) {
                None => CacheStatus::Miss,
                Some((_, there, _)) if *there > now => CacheStatus::InFlight,
                Some(_) => CacheStatus::Hit,
            };
            let mut context = context(u64::MAX, self.budget);
            context.ahead_bytes = held.ahead;
            let access =
                Access { range: read.range.clone(), at: Duration::ZERO, found, planned: false };
            let advice = cache.observe(&access, &context);
            held.fetch(&read.range, now + 1.0);
            held.take(&advice, now, self.budget);
            result.max_ahead = result.max_ahead.max(held.ahead);
            let (bytes, there, seen) = held.pieces[&read.range.start];
            needed.insert(read.range.start, bytes);
            if there > now {
                result.waits.push((number, there - now));
                result.waited += there - now;
                now = there;
            }
            if !seen {
                held.ahead -= bytes;
            }
            if self.forgetting {
                held.pieces.remove(&read.range.start);
            } else {
                held.pieces.insert(read.range.start, (bytes, there, true));
            }
        }
        let layout = &self.shape.layout;
        result.last_entry = held
            .pieces
            .keys()
            .filter_map(|start| {
                Some(layout.overlapping(&(*start..*start + 1)).next()?.entries.start)
            })
            .max()
            .unwrap_or(0);
        result.fetched = held.fetched;
        result.needed = needed.values().sum();
        result.learned_sets = handle.learned_sets();
        result
    }
}
