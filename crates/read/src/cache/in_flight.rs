//! Ranges of a file in flight, and the reads that wait for them.

use super::entry::{CacheEntry, EntryContext, RangeState};
use super::waiter::{Collected, WaitOutcome, Waiter};
use hither_core::{Error, range};
use std::ops::Range;

/// Bytes that were requested. Their arrival wakes the reads that wait for them.
#[derive(Debug, Clone)]
pub(super) struct InFlightRange {
    pub(super) end: u64,
    /// The open file that requested it.
    pub(super) owner: u64,
    /// Each of them needs all of the range.
    pub(super) waiters: Vec<u64>,
}

impl CacheEntry {
    /// Marks absent bytes as in flight, without a read that waits for them.
    pub(super) fn claim_ahead(
        &mut self,
        absent: Range<u64>,
        owner: u64,
        context: &mut EntryContext<'_>,
    ) {
        self.counters.ahead_bytes += range::len(&absent);
        context.counters.ahead_bytes += range::len(&absent);
        self.insert_in_flight(
            absent.start,
            InFlightRange { end: absent.end, owner, waiters: Vec::new() },
            context,
        );
    }

    /// Begins the wait of a read of `ranges` (sorted, disjoint). Returns its number, the parts to
    /// request, and the parts in flight that no read has waited for before.
    pub(super) fn claim(
        &mut self,
        ranges: &[Range<u64>],
        owner: u64,
        needs: u64,
        context: &mut EntryContext<'_>,
    ) -> (u64, Vec<Range<u64>>, Vec<Range<u64>>) {
        let id = self.next_waiter;
        self.next_waiter += 1;
        let mut collected = Collected::new(ranges);
        let mut missing = 0;
        let mut fresh = Vec::new();
        let mut prioritized = Vec::new();
        for (it, what) in ranges.iter().flat_map(|range| self.states(range)).collect::<Vec<_>>() {
            match what {
                RangeState::Present => self.collect(&it, &mut collected, context),
                RangeState::InFlight => {
                    missing += range::len(&it);
                    self.split_in_flight(it.start, context);
                    self.split_in_flight(it.end, context);
                    for (start, mut fetch) in self.remove_all_in_flight(&it, context) {
                        if fetch.waiters.is_empty() {
                            prioritized.push(start..fetch.end);
                        }
                        fetch.waiters.push(id);
                        self.insert_in_flight(start, fetch, context);
                    }
                }
                RangeState::Absent => {
                    missing += range::len(&it);
                    fresh.push(it.clone());
                    self.insert_in_flight(
                        it.start,
                        InFlightRange { end: it.end, owner, waiters: vec![id] },
                        context,
                    );
                }
            }
        }
        let waiter = Waiter { collected, missing, needs, outcome: None, waker: None };
        self.waiters.insert(id, waiter);
        self.settle(id, context);
        (id, fresh, prioritized)
    }

    fn collect(
        &mut self,
        range: &Range<u64>,
        into: &mut Collected,
        context: &mut EntryContext<'_>,
    ) {
        let mut piece = vec![0; usize::try_from(range::len(range)).unwrap_or(0)];
        self.copy(range, &mut piece, context);
        into.put(range.start, &piece);
    }

    fn insert_in_flight(
        &mut self,
        start: u64,
        fetch: InFlightRange,
        context: &mut EntryContext<'_>,
    ) {
        if fetch.waiters.is_empty() {
            self.prefetching_bytes += fetch.end - start;
            context.policy.prefetching_bytes += fetch.end - start;
        }
        self.in_flight.insert(start, fetch);
    }

    fn remove_in_flight(
        &mut self,
        start: u64,
        context: &mut EntryContext<'_>,
    ) -> Option<InFlightRange> {
        let fetch = self.in_flight.remove(&start)?;
        if fetch.waiters.is_empty() {
            self.prefetching_bytes -= fetch.end - start;
            context.policy.prefetching_bytes -= fetch.end - start;
        }
        Some(fetch)
    }

    /// Splits the fetch at `at`, if that lies within one.
    fn split_in_flight(&mut self, at: u64, context: &mut EntryContext<'_>) {
        let found = self.in_flight.range(..at).next_back();
        let Some((&start, fetch)) = found.filter(|(_, fetch)| fetch.end > at) else { return };
        let left = InFlightRange { end: at, ..fetch.clone() };
        let right = fetch.clone();
        self.remove_in_flight(start, context);
        self.insert_in_flight(start, left, context);
        self.insert_in_flight(at, right, context);
    }

    /// Removes all fetches within `range`, at whose ends fetches are split.
    fn remove_all_in_flight(
        &mut self,
        range: &Range<u64>,
        context: &mut EntryContext<'_>,
    ) -> Vec<(u64, InFlightRange)> {
        let starts: Vec<_> = self.in_flight.range(range.clone()).map(|(start, _)| *start).collect();
        let take = |start| Some((start, self.remove_in_flight(start, context)?));
        starts.into_iter().filter_map(take).collect()
    }

    /// The same for a range that may end anywhere.
    pub(super) fn cut_in_flight(
        &mut self,
        range: &Range<u64>,
        context: &mut EntryContext<'_>,
    ) -> Vec<(u64, InFlightRange)> {
        if range.is_empty() {
            return Vec::new();
        }
        self.split_in_flight(range.start, context);
        self.split_in_flight(range.end, context);
        self.remove_all_in_flight(range, context)
    }

    /// Wakes a waiter that is complete.
    pub(super) fn settle(&mut self, id: u64, context: &mut EntryContext<'_>) {
        let confirmed = self.confirmed;
        if let Some(waiter) = self.waiters.get_mut(&id)
            && waiter.missing == 0
            && waiter.needs <= confirmed
            && waiter.outcome.is_none()
        {
            waiter.outcome = Some(WaitOutcome::Ready);
            context.wakers.extend(waiter.waker.take());
        }
    }

    /// Ends waits with an outcome.
    pub(super) fn end(
        &mut self,
        ids: &[u64],
        outcome: impl Fn() -> WaitOutcome,
        context: &mut EntryContext<'_>,
    ) {
        for id in ids {
            let Some(waiter) = self.waiters.get_mut(id).filter(|it| it.outcome.is_none()) else {
                continue;
            };
            waiter.outcome = Some(outcome());
            context.wakers.extend(waiter.waker.take());
            self.stop_waiting(*id, context);
        }
    }

    /// Removes a waiter from all fetches.
    fn stop_waiting(&mut self, id: u64, context: &mut EntryContext<'_>) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let ranges: Vec<_> = waiter.collected.ranges().cloned().collect();
        let starts: Vec<u64> = ranges
            .into_iter()
            .flat_map(|range| self.in_flight.range(range))
            .filter(|(_, fetch)| fetch.waiters.contains(&id))
            .map(|(start, _)| *start)
            .collect();
        for start in starts {
            if let Some(mut fetch) = self.remove_in_flight(start, context) {
                fetch.waiters.retain(|it| *it != id);
                self.insert_in_flight(start, fetch, context);
            }
        }
    }

    /// Fails the parts of `ranges` that `owner` has in flight.
    pub(super) fn fail(
        &mut self,
        owner: u64,
        ranges: &[Range<u64>],
        outcome: impl Fn() -> WaitOutcome,
        context: &mut EntryContext<'_>,
    ) {
        let mut failed = Vec::new();
        for range in ranges {
            for (start, fetch) in self.cut_in_flight(range, context) {
                if fetch.owner == owner {
                    failed.extend(fetch.waiters);
                } else {
                    self.insert_in_flight(start, fetch, context);
                }
            }
        }
        failed.sort_unstable();
        failed.dedup();
        self.end(&failed, outcome, context);
    }

    pub(super) fn lacks_confirmation(&self, opened: u64) -> bool {
        let lacks = |it: &Waiter| it.outcome.is_none() && it.needs == opened;
        self.confirmed < opened && self.waiters.values().any(lacks)
    }

    /// Fails the reads that wait for a confirmation that failed.
    pub(super) fn fail_unconfirmed(
        &mut self,
        opened: u64,
        error: &Error,
        context: &mut EntryContext<'_>,
    ) {
        let confirmed = self.confirmed;
        let waiting = self.waiters.iter().filter(|(_, it)| it.needs == opened);
        let ids: Vec<_> =
            waiting.filter(|(_, it)| it.needs > confirmed).map(|(id, _)| *id).collect();
        self.end(&ids, || WaitOutcome::Failed(error.clone()), context);
    }

    /// Makes the parts of `ranges` absent again that `owner` requested and no read waits for;
    /// returns them.
    pub(super) fn release(
        &mut self,
        owner: u64,
        ranges: &[Range<u64>],
        context: &mut EntryContext<'_>,
    ) -> Vec<Range<u64>> {
        let mut released = Vec::new();
        for range in ranges {
            for (start, fetch) in self.cut_in_flight(range, context) {
                if fetch.owner == owner && fetch.waiters.is_empty() {
                    released.push(start..fetch.end);
                } else {
                    self.insert_in_flight(start, fetch, context);
                }
            }
        }
        range::merged(&released, 0)
    }

    /// The ranges that `owner` has in flight.
    pub(super) fn in_flight_of(&self, owner: u64) -> Vec<Range<u64>> {
        let mine = self.in_flight.iter().filter(|(_, fetch)| fetch.owner == owner);
        mine.map(|(start, fetch)| *start..fetch.end).collect()
    }

    /// Ends the waits for bytes beyond `size`, which do not exist.
    pub(super) fn clip(&mut self, size: u64, context: &mut EntryContext<'_>) {
        for (start, fetch) in self.cut_in_flight(&(size..u64::MAX), context) {
            for id in fetch.waiters {
                if let Some(waiter) = self.waiters.get_mut(&id) {
                    waiter.missing -= fetch.end - start;
                    self.settle(id, context);
                }
            }
        }
    }

    pub(super) fn waiter(&mut self, id: u64) -> Option<&mut Waiter> {
        self.waiters.get_mut(&id)
    }

    pub(super) fn remove_waiter(
        &mut self,
        id: u64,
        context: &mut EntryContext<'_>,
    ) -> Option<Waiter> {
        self.stop_waiting(id, context);
        self.waiters.remove(&id)
    }
}
