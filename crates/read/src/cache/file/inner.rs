//! Operations of an open file under its lock: show reads to the prefetcher, claim ranges, queue
//! advice, and wake the driver.

use crate::cache::file::{CachedFileInner, CachedFileState, driver};
use crate::cache::{Claimed, FileSnapshot, Lookup};
use crate::sync::MutexGuard;
use crate::{Access, Advice};
use hither_core::error::{ErrorKind, Result};
use hither_core::range;
use hither_trace::{CacheStatus, ReadTimes};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

impl CachedFileState {
    /// Shows a read to the prefetcher.
    pub(crate) fn accessed(
        &mut self,
        range: &Range<u64>,
        at: Duration,
        lookup: &Lookup,
        planned: bool,
        file: &CachedFileInner,
    ) -> Advice {
        let FileSnapshot { size, ahead_bytes, ahead_budget_bytes, counters } = lookup.snapshot;
        let conditions = &mut self.conditions;
        conditions.size = size;
        conditions.ahead_bytes = ahead_bytes;
        conditions.ahead_budget_bytes = ahead_budget_bytes;
        conditions.wasted_bytes = counters.wasted_bytes;
        conditions.fetched_bytes = counters.fetched_bytes;
        if lookup.found != CacheStatus::Hit {
            // These acquire their own locks; between misses they change little.
            conditions.link = file.source.link();
            conditions.limits = file.source.limits();
        }
        let access = Access { range: range.clone(), at, found: lookup.found, planned };
        self.prefetcher.observe(&access, &self.conditions)
    }
}

impl CachedFileInner {
    /// Returns true if the version in use has been confirmed since the opening.
    pub(crate) fn is_confirmed(&self, state: &CachedFileState) -> bool {
        self.cache.version(state.entry, state.opened).1
    }

    /// The part of a range that the file has, as far as its size is known.
    pub(crate) fn within(&self, state: &CachedFileState, wanted: Range<u64>) -> Range<u64> {
        let size = state.conditions.size.or_else(|| self.cache.snapshot(state.entry).size);
        wanted.start..size.map_or(wanted.end, |size| wanted.end.min(size))
    }

    /// Ends a read that has found all its bytes.
    pub(crate) fn served(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, CachedFileState>,
        range: &Range<u64>,
        at: Duration,
        lookup: &Lookup,
        advice: &Advice,
    ) {
        state.bound = true;
        self.apply_advice(&mut state, advice, at, &lookup.snapshot);
        drop(state);
        self.record(std::slice::from_ref(range), ReadTimes::at_once(at), lookup);
    }

    /// Claims what a read of `ranges` needs, as far as the file goes: the entry that it reads, and
    /// its number as a waiter there.
    pub(crate) fn claim(
        &self,
        state: &mut CachedFileState,
        ranges: &[Range<u64>],
    ) -> Result<(u64, u64)> {
        let claimed = match self.cache.claim(state.entry, state.opened, state.opened, ranges) {
            Err(error) if error.kind() == ErrorKind::Changed && !state.bound => {
                // Nothing of the old version was read, so the new one can be read.
                self.source.forget_version();
                self.open_anew(state);
                self.cache.claim(state.entry, state.opened, state.opened, ranges)
            }
            claimed => claimed,
        };
        let Claimed { waiter, fresh, prioritized, unconfirmed } = claimed?;
        let absent_bytes = range::total_bytes(&fresh);
        if absent_bytes > 0 {
            self.cache.age(absent_bytes);
        }
        state.work.urgent.extend(fresh);
        state.work.prioritized.extend(prioritized);
        state.work.probe |= unconfirmed;
        Ok((state.entry, waiter))
    }

    /// Continues with the entry of the present version of the file.
    pub(crate) fn open_anew(&self, state: &mut CachedFileState) {
        self.cache.close(state.entry);
        (state.entry, state.opened) = self.cache.open(&self.key);
        state.conditions.size = None;
        state.work.forget_requests();
    }

    /// Queues and cancels prefetches as the prefetcher advises; ranges that join the request of the
    /// read are claimed with it.
    pub(crate) fn apply_advice(
        self: &Arc<Self>,
        state: &mut CachedFileState,
        advice: &Advice,
        at: Duration,
        snapshot: &FileSnapshot,
    ) {
        let work = &mut state.work;
        work.next_bytes = work.next_bytes.max(advice.next_bytes);
        if !advice.dont_need.is_empty() {
            let unwanted = work.queue.remove_advice(&advice.dont_need);
            self.cancel_prefetches(state, unwanted);
        }
        let work = &mut state.work;
        let mut prefetches_due =
            !advice.will_need.is_empty() && work.queue.add_advice(&advice.will_need, at);
        if !work.queue.is_empty() && !work.busy {
            // The read may have freed memory.
            prefetches_due |= work.has_room(snapshot);
        }
        if prefetches_due && snapshot.size.is_some() {
            work.prefetches_due = true;
            self.drive(state);
        }
    }

    pub(crate) fn cancel_prefetches(
        self: &Arc<Self>,
        state: &mut CachedFileState,
        unwanted: Vec<Range<u64>>,
    ) {
        if !unwanted.is_empty() {
            self.cache.demote(state.entry, &unwanted);
            if state.driving {
                state.work.cancelled.extend(unwanted);
                self.drive(state);
            }
        }
    }

    /// Wakes the driver, or starts it.
    pub(crate) fn drive(self: &Arc<Self>, state: &mut CachedFileState) {
        if state.closed || !state.work.is_pending() {
            return;
        }
        if state.driving {
            self.driver.wake();
        } else {
            state.driving = true;
            (self.spawn)(Box::pin(driver::run(Arc::clone(self))));
        }
    }

    pub(crate) fn record(&self, ranges: &[Range<u64>], times: ReadTimes, lookup: &Lookup) {
        if let Some(recorder) = self.recorder.get() {
            recorder.record(ranges, times, lookup.found, lookup.absent_bytes);
        }
    }
}
