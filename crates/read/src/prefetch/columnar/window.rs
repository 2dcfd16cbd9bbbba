//! The prefetch window of a tree: baskets of steady columns in the order of use, columns that are
//! read together now and then, and trials of columns that might be read.

use super::column::ColumnTracker;
use super::tracker::{ReadBudget, TreeTracker};
use crate::prefetch::Advice;
use hither_core::layout::ColumnarLayout;
use hither_core::range;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Maximum bytes fetched in one request with a read that has to wait; the rest is requested
/// separately.
const SAME_REQUEST_BYTES: u64 = 256 << 10;
/// Fraction of the bytes of active columns that may be spent on trials.
const TRIAL_SHARE: u64 = 16;
/// Bytes that may be spent on trials in any case.
const TRIAL_BYTES: u64 = 64 << 10;
/// Maximum number of columns considered for a trial.
const MAX_TRIED: usize = 4096;
/// Maximum bytes of columns that are read together now and then, for one cluster.
const BURST_BYTES: u64 = 8 << 20;

impl<L: ColumnarLayout> TreeTracker<L> {
    /// Prefetches the next baskets of steady columns, in the order of entries, as far as the window
    /// has room; once a quarter of it is free, so that three quarters are cached or in flight.
    pub(super) fn extend_window(&mut self, read: &ReadBudget, advice: &mut Advice) {
        let window = self.window_bytes(read);
        let full = self.outstanding.saturating_mul(4) > window.saturating_mul(3);
        if read.missed && self.outstanding > 0 {
            // Either a prefetch was dropped or not sent yet, or there was no room for it.
            self.repeat_prefetched(advice);
        }
        if self.exhausted || window == 0 || (full && !read.missed) {
            return;
        }
        let before = if full { self.now.start } else { self.marks[0] };
        self.retire(before, advice);
        self.marks = [self.marks[1], self.frontier];
        let mut same_request = 0;
        if read.missed {
            let taken = range::total_bytes(&advice.same_request);
            same_request = SAME_REQUEST_BYTES.saturating_sub(taken);
        }
        let mut room = window.saturating_sub(self.outstanding);
        let mut heads = self.heads(|column| column.prefetched);
        self.prefetched_end = self.entries.end;
        self.exhausted = true;
        while let Some(Reverse((entry, index, id))) = heads.pop() {
            let id = id as usize;
            let Some(range) = self.range(id, index) else { continue };
            let bytes = range::len(&range);
            if bytes > room {
                self.prefetched_end = entry;
                self.exhausted = false;
                break;
            }
            room -= bytes;
            self.outstanding += bytes;
            self.columns[id].prefetched = index + 1;
            heads.extend(self.head(id, index + 1));
            if range.end <= read.size {
                let ranges = if bytes <= same_request {
                    &mut advice.same_request
                } else {
                    &mut advice.will_need
                };
                same_request = same_request.saturating_sub(bytes);
                ranges.push(range);
            }
        }
        if !self.learning {
            self.window = self.window.saturating_mul(2);
        }
    }

    /// Adds the next baskets that were prefetched already to a request that has to be sent anyway.
    fn repeat_prefetched(&mut self, advice: &mut Advice) {
        let mut heads = self.heads(|column| column.next);
        let mut room = SAME_REQUEST_BYTES;
        while let Some(Reverse((_, index, id))) = heads.pop() {
            if index >= self.columns[id as usize].prefetched {
                continue;
            }
            let Some(range) = self.range(id as usize, index) else { continue };
            let Some(left) = room.checked_sub(range::len(&range)) else { return };
            room = left;
            advice.same_request.push(range);
            heads.extend(self.head(id as usize, index + 1));
        }
    }

    /// The basket of each steady column that `which` selects, by entry.
    fn heads(&self, which: impl Fn(&ColumnTracker) -> u32) -> BinaryHeap<Reverse<(u64, u32, u32)>> {
        let steady = self.active.iter().map(|id| (*id as usize, &self.columns[*id as usize]));
        let steady = steady.filter(|(_, column)| column.is_steady());
        steady.filter_map(|(id, column)| self.head(id, which(column))).collect()
    }

    /// Basket `index` of a column as (entry, index, column), if it may be read; the next one that
    /// is stored in the file if that one is not.
    fn head(&self, id: usize, mut index: u32) -> Option<Reverse<(u64, u32, u32)>> {
        let column = self.first + id;
        let baskets = self.layout.baskets(column);
        let absent = |index: u32| self.range(id, index).is_none_or(|range| range.is_empty());
        while (index as usize) < baskets && absent(index) {
            index += 1;
        }
        let entries = self.layout.basket_entries(column, index as usize);
        let wanted = entries.start < self.entries.end && entries.end > self.entries.start;
        let id = u32::try_from(id).ok()?;
        wanted.then_some(Reverse((entries.start, index, id)))
    }

    /// Cancels prefetched baskets that end at or before entry `before`.
    fn retire(&mut self, before: u64, advice: &mut Advice) {
        for at in 0..self.active.len() {
            let id = self.active[at] as usize;
            let column = &self.columns[id];
            let end = |index: u32| self.layout.basket_entries(self.first + id, index as usize).end;
            let skipped =
                (column.next..column.prefetched).take_while(|index| end(*index) <= before);
            let skipped = u32::try_from(skipped.count()).unwrap_or(u32::MAX);
            if skipped > 0 {
                let next = column.next + skipped;
                self.columns[id].rate.record_skipped(skipped);
                self.skip_to(id, next, advice);
            }
        }
    }

    /// Assigns a read to the current burst: columns that are read now and then, but together. If
    /// the read has to wait, the columns of the burst in which its column was read last are fetched
    /// with it.
    pub(super) fn observe_burst(
        &mut self,
        id: usize,
        entries: &Range<u64>,
        read: &ReadBudget,
        advice: &mut Advice,
    ) {
        if self.columns[id].is_steady() {
            return;
        }
        let (number, within) = &self.burst;
        if within.end <= entries.start || entries.end <= within.start {
            let within = self.cluster().unwrap_or_else(|| entries.clone());
            self.burst = (if *number >= u32::MAX - 1 { 1 } else { number + 1 }, within);
        }
        let last = std::mem::replace(&mut self.columns[id].burst, self.burst.0);
        if !read.missed || last == 0 {
            return;
        }
        // From here to the end of the cluster, if that is known.
        let wanted = match self.cluster() {
            Some(cluster) => self.now.start..cluster.end,
            None => self.now.clone(),
        };
        let mut room = BURST_BYTES.min(read.budget);
        for &other in &self.active {
            let column = &self.columns[other as usize];
            if other as usize == id || column.is_steady() || column.burst != last {
                continue;
            }
            for index in self.layout.baskets_of(self.first + other as usize, &wanted) {
                let unread = u32::try_from(index).ok().filter(|index| *index >= column.read);
                let Some(range) = unread.and_then(|index| self.range(other as usize, index)) else {
                    continue;
                };
                let Some(left) = room.checked_sub(range::len(&range)) else { return };
                room = left;
                advice.same_request.push(range);
            }
        }
    }

    /// Fetches, on trial, the baskets that hold the current entry of unread columns around `id`: a
    /// program that reads a column for the first time often continues with its neighbours.
    pub(super) fn try_neighbours(&mut self, id: usize, read: &ReadBudget, advice: &mut Advice) {
        let total: u64 = self
            .active
            .iter()
            .map(|id| self.layout.column_bytes(self.first + *id as usize).min(read.size))
            .fold(0, u64::saturating_add);
        let allowed = (total / TRIAL_SHARE).max(TRIAL_BYTES).saturating_sub(self.tried_bytes);
        let in_round_trip = read.round_trip_bytes.unwrap_or(u64::MAX).max(TRIAL_BYTES);
        let mut room = allowed.min(in_round_trip).min(read.budget);
        let at = self.now.start..self.now.start.saturating_add(1);
        let neighbours = (1..=self.columns.len().min(MAX_TRIED))
            .flat_map(|distance| [id.checked_add(distance), id.checked_sub(distance)]);
        for other in neighbours.flatten() {
            let Some(column) = self.columns.get(other) else { continue };
            if column.active || column.tried.is_some() {
                continue;
            }
            let index = u32::try_from(self.layout.baskets_of(self.first + other, &at).start).ok();
            let Some((index, range)) =
                index.and_then(|index| Some((index, self.range(other, index)?)))
            else {
                continue;
            };
            let Some(left) = room.checked_sub(range::len(&range)) else { continue };
            room = left;
            self.tried_bytes = self.tried_bytes.saturating_add(range::len(&range));
            self.columns[other].tried = Some(index);
            if range.end <= read.size {
                advice.same_request.push(range);
            }
        }
    }

    /// The entries of the cluster at the program's position.
    fn cluster(&self) -> Option<Range<u64>> {
        self.layout.cluster(self.tree, self.now.start)
    }
}
