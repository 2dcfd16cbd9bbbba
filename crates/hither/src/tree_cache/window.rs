//! What is named ahead of a program: the baskets of steady columns in the order of use, the columns that are read
//! together now and then, and those that might be read.

use super::column::ColumnTracker;
use super::tracker::{ReadBudget, TreeTracker};
use hither_core::prefetch::Advice;
use hither_core::range;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// What is fetched in one request with a read that has to wait; the rest follows on its own.
const ALONG_BYTES: u64 = 256 << 10;
/// The part of what a program will read, as far as one can tell, that may be fetched to find out what else it reads.
const TRIAL_SHARE: u64 = 16;
/// So much may be in any case.
const TRIAL_BYTES: u64 = 64 << 10;
/// Columns that are looked at for a trial.
const MAX_TRIED: usize = 4096;
/// Bytes of columns that are read together now and then, for one cluster.
const COMPANY_BYTES: u64 = 8 << 20;

impl TreeTracker {
    /// Names what steady columns will read next, in the order of entries, as far as there is room; as soon as a quarter
    /// of the room is free, so that three quarters are there or on their way meanwhile.
    pub(super) fn name(&mut self, moment: &ReadBudget, advice: &mut Advice) {
        let window = self.window_bytes(moment);
        let full = self.outstanding.saturating_mul(4) > window.saturating_mul(3);
        if moment.missed && self.outstanding > 0 {
            // It was named, and has not come yet, or was dropped; or it was not, for want of room.
            self.name_again(advice);
        }
        if self.exhausted || window == 0 || (full && !moment.missed) {
            return;
        }
        let passed = if full { self.now.start } else { self.marks[0] };
        self.retire(passed, advice);
        self.marks = [self.marks[1], self.frontier];
        let mut along = match moment.missed {
            true => ALONG_BYTES.saturating_sub(range::total_bytes(&advice.same_request)),
            false => 0,
        };
        let mut room = window.saturating_sub(self.outstanding);
        let mut heads = self.heads(|column| column.named);
        self.named_end = self.entries.end;
        self.exhausted = true;
        while let Some(Reverse((entry, index, id))) = heads.pop() {
            let id = id as usize;
            let Some(range) = self.range(id, index) else { continue };
            let bytes = range::len(&range);
            if bytes > room {
                self.named_end = entry;
                self.exhausted = false;
                break;
            }
            room -= bytes;
            self.outstanding += bytes;
            self.columns[id].named = index + 1;
            heads.extend(self.head(id, index + 1));
            if range.end <= moment.size {
                let list =
                    if bytes <= along { &mut advice.same_request } else { &mut advice.will_need };
                along = along.saturating_sub(bytes);
                list.push(range);
            }
        }
        if !self.learning {
            self.window = self.window.saturating_mul(2);
        }
    }

    /// Names the next of what has been named already: it goes with a read that has to wait.
    fn name_again(&mut self, advice: &mut Advice) {
        let mut heads = self.heads(|column| column.next);
        let mut room = ALONG_BYTES;
        while let Some(Reverse((_, index, id))) = heads.pop() {
            if index >= self.columns[id as usize].named {
                continue;
            }
            let Some(range) = self.range(id as usize, index) else { continue };
            let Some(left) = room.checked_sub(range::len(&range)) else { return };
            room = left;
            advice.same_request.push(range);
            heads.extend(self.head(id as usize, index + 1));
        }
    }

    /// The basket of each steady column that `which` says, by entry.
    fn heads(&self, which: impl Fn(&ColumnTracker) -> u32) -> BinaryHeap<Reverse<(u64, u32, u32)>> {
        let steady = self.active.iter().map(|id| (*id as usize, &self.columns[*id as usize]));
        let steady = steady.filter(|(_, column)| column.is_steady());
        steady.filter_map(|(id, column)| self.head(id, which(column))).collect()
    }

    /// Basket `index` of a column as (entry, index, column), if it is among what will be read.
    fn head(&self, id: usize, mut index: u32) -> Option<Reverse<(u64, u32, u32)>> {
        let baskets = self.map.columns().get(self.first + id)?.baskets();
        // Embedded ones come with the tree.
        let absent =
            |index: u32| baskets.range(index as usize).is_none_or(|range| range.is_empty());
        while (index as usize) < baskets.len() && absent(index) {
            index += 1;
        }
        let entries = baskets.entries(index as usize);
        let wanted = entries.start < self.entries.end && entries.end > self.entries.start;
        let id = u32::try_from(id).ok()?;
        wanted.then_some(Reverse((entries.start, index, id)))
    }

    /// Gives up what was named and lies before entry `passed`.
    fn retire(&mut self, passed: u64, advice: &mut Advice) {
        for at in 0..self.active.len() {
            let id = self.active[at] as usize;
            let column = &self.columns[id];
            let Some(layout) = self.map.columns().get(self.first + id) else { continue };
            let before = |index: u32| layout.baskets().entries(index as usize).end <= passed;
            let over = (column.next..column.named).take_while(|index| before(*index)).count();
            let over = u32::try_from(over).unwrap_or(u32::MAX);
            if over > 0 {
                let next = column.next + over;
                self.columns[id].habit.passed(over);
                self.pass_over(id, next, advice);
            }
        }
    }

    /// Counts a read to the current burst: the columns that are read now and then, but together. If the read has to
    /// wait, what else was read in the burst in which its column was read last is fetched with it.
    pub(super) fn in_burst(
        &mut self,
        id: usize,
        entries: &Range<u64>,
        moment: &ReadBudget,
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
        if !moment.missed || last == 0 {
            return;
        }
        // Of a whole cluster if that is known; what was passed over in it is past.
        let wanted = match self.cluster() {
            Some(cluster) => self.now.start..cluster.end,
            None => self.now.clone(),
        };
        let mut room = COMPANY_BYTES.min(moment.budget);
        for &other in &self.active {
            let column = &self.columns[other as usize];
            if other as usize == id || column.is_steady() || column.burst != last {
                continue;
            }
            for index in self.map.baskets_of(self.first + other as usize, &wanted) {
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

    /// Fetches the baskets that hold the current entry of columns around `id`, which nobody has read: programs that read
    /// a column for the first time often go on with its neighbours.
    pub(super) fn try_others(&mut self, id: usize, moment: &ReadBudget, advice: &mut Advice) {
        let total: u64 = self
            .active
            .iter()
            .filter_map(|id| self.map.columns().get(self.first + *id as usize))
            .map(|layout| layout.baskets().compressed_bytes().min(moment.size))
            .fold(0, u64::saturating_add);
        let allowed = (total / TRIAL_SHARE).max(TRIAL_BYTES).saturating_sub(self.tried_bytes);
        let flight = moment.flight_bytes.unwrap_or(u64::MAX).max(TRIAL_BYTES);
        let mut room = allowed.min(flight).min(moment.budget);
        let at = self.now.start..self.now.start.saturating_add(1);
        let neighbours = (1..=self.columns.len().min(MAX_TRIED))
            .flat_map(|distance| [id.checked_add(distance), id.checked_sub(distance)]);
        for other in neighbours.flatten() {
            let Some(column) = self.columns.get(other) else { continue };
            if column.active || column.tried.is_some() {
                continue;
            }
            let index = u32::try_from(self.map.baskets_of(self.first + other, &at).start).ok();
            let Some((index, range)) =
                index.and_then(|index| Some((index, self.range(other, index)?)))
            else {
                continue;
            };
            let Some(left) = room.checked_sub(range::len(&range)) else { continue };
            room = left;
            self.tried_bytes = self.tried_bytes.saturating_add(range::len(&range));
            self.columns[other].tried = Some(index);
            if range.end <= moment.size {
                advice.same_request.push(range);
            }
        }
    }

    /// The entries of the cluster that the program is in.
    fn cluster(&self) -> Option<Range<u64>> {
        let tree = self.map.columns().get(self.first)?.tree();
        self.map.trees().get(tree)?.clusters().holding(self.now.start)
    }
}
