//! What is in flight of a file, and who waits for it.

use super::entry::{CacheEntry, EntryContext, RangeState};
use super::waiter::{Collected, WaitOutcome, Waiter};
use crate::{Error, range};
use std::ops::Range;

/// Bytes that were asked for. Whoever wants them is told when they come.
#[derive(Debug, Clone)]
pub(super) struct InFlightRange {
    pub(super) end: u64,
    /// The open file that asked.
    pub(super) owner: u64,
    /// Each of them wants all of it.
    pub(super) waiters: Vec<u64>,
}

impl CacheEntry {
    /// Marks absent bytes as in flight, with nobody waiting for them.
    pub(super) fn claim_ahead(
        &mut self,
        absent: Range<u64>,
        owner: u64,
        house: &mut EntryContext<'_>,
    ) {
        self.tally.ahead_bytes += range::len(&absent);
        house.tally.ahead_bytes += range::len(&absent);
        self.add_flight(
            absent.start,
            InFlightRange { end: absent.end, owner, waiters: Vec::new() },
            house,
        );
    }

    /// A read of `ranges` (sorted, disjoint) begins to wait: its number, what it has to ask for, and what of it is on its
    /// way without anybody having waited for it.
    pub(super) fn claim(
        &mut self,
        ranges: &[Range<u64>],
        owner: u64,
        needs: u64,
        house: &mut EntryContext<'_>,
    ) -> (u64, Vec<Range<u64>>, Vec<Range<u64>>) {
        let id = self.next_waiter;
        self.next_waiter += 1;
        let mut collected = Collected::new(ranges);
        let (mut missing, mut fresh, mut hastened) = (0, Vec::new(), Vec::new());
        for (it, what) in ranges.iter().flat_map(|range| self.stretches(range)).collect::<Vec<_>>()
        {
            match what {
                RangeState::Present => self.collect(&it, &mut collected, house),
                RangeState::InFlight => {
                    missing += range::len(&it);
                    self.split_flight(it.start, house);
                    self.split_flight(it.end, house);
                    for (start, mut flight) in self.take_flights(&it, house) {
                        if flight.waiters.is_empty() {
                            hastened.push(start..flight.end);
                        }
                        flight.waiters.push(id);
                        self.add_flight(start, flight, house);
                    }
                }
                RangeState::Absent => {
                    missing += range::len(&it);
                    fresh.push(it.clone());
                    self.add_flight(
                        it.start,
                        InFlightRange { end: it.end, owner, waiters: vec![id] },
                        house,
                    );
                }
            }
        }
        let waiter = Waiter { collected, missing, needs, outcome: None, waker: None };
        self.waiters.insert(id, waiter);
        self.settle(id, house);
        (id, fresh, hastened)
    }

    fn collect(&mut self, range: &Range<u64>, into: &mut Collected, house: &mut EntryContext<'_>) {
        let mut piece = vec![0; usize::try_from(range::len(range)).unwrap_or(0)];
        self.copy(range, &mut piece, house);
        into.put(range.start, &piece);
    }

    fn add_flight(&mut self, start: u64, flight: InFlightRange, house: &mut EntryContext<'_>) {
        if flight.waiters.is_empty() {
            self.flying_ahead += flight.end - start;
            house.policy.flying_ahead += flight.end - start;
        }
        self.flights.insert(start, flight);
    }

    fn take_flight(&mut self, start: u64, house: &mut EntryContext<'_>) -> Option<InFlightRange> {
        let flight = self.flights.remove(&start)?;
        if flight.waiters.is_empty() {
            self.flying_ahead -= flight.end - start;
            house.policy.flying_ahead -= flight.end - start;
        }
        Some(flight)
    }

    /// Makes `at` a border between flights, if it lies within one.
    fn split_flight(&mut self, at: u64, house: &mut EntryContext<'_>) {
        let found = self.flights.range(..at).next_back();
        let Some((&start, flight)) = found.filter(|(_, flight)| flight.end > at) else { return };
        let (left, right) = (InFlightRange { end: at, ..flight.clone() }, flight.clone());
        self.take_flight(start, house);
        self.add_flight(start, left, house);
        self.add_flight(at, right, house);
    }

    /// Removes all flights within `range`, at whose ends there are borders.
    fn take_flights(
        &mut self,
        range: &Range<u64>,
        house: &mut EntryContext<'_>,
    ) -> Vec<(u64, InFlightRange)> {
        let starts: Vec<_> = self.flights.range(range.clone()).map(|(start, _)| *start).collect();
        let take = |start| Some((start, self.take_flight(start, house)?));
        starts.into_iter().filter_map(take).collect()
    }

    /// The same for a range that may end anywhere.
    pub(super) fn cut_flights(
        &mut self,
        range: &Range<u64>,
        house: &mut EntryContext<'_>,
    ) -> Vec<(u64, InFlightRange)> {
        if range.is_empty() {
            return Vec::new();
        }
        self.split_flight(range.start, house);
        self.split_flight(range.end, house);
        self.take_flights(range, house)
    }

    /// Wakes a waiter that has all it waits for.
    pub(super) fn settle(&mut self, id: u64, house: &mut EntryContext<'_>) {
        let confirmed = self.confirmed;
        if let Some(waiter) = self.waiters.get_mut(&id)
            && waiter.missing == 0
            && waiter.needs <= confirmed
            && waiter.outcome.is_none()
        {
            waiter.outcome = Some(WaitOutcome::Ready);
            house.wakers.extend(waiter.waker.take());
        }
    }

    /// Ends the waiting of some.
    pub(super) fn end(
        &mut self,
        ids: &[u64],
        outcome: impl Fn() -> WaitOutcome,
        house: &mut EntryContext<'_>,
    ) {
        for id in ids {
            let Some(waiter) = self.waiters.get_mut(id).filter(|it| it.outcome.is_none()) else {
                continue;
            };
            waiter.outcome = Some(outcome());
            house.wakers.extend(waiter.waker.take());
            self.leave_flights(*id, house);
        }
    }

    /// A waiter does not wait for any flight any more.
    fn leave_flights(&mut self, id: u64, house: &mut EntryContext<'_>) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let ranges: Vec<_> = waiter.collected.ranges().cloned().collect();
        let starts: Vec<u64> = ranges
            .into_iter()
            .flat_map(|range| self.flights.range(range))
            .filter(|(_, flight)| flight.waiters.contains(&id))
            .map(|(start, _)| *start)
            .collect();
        for start in starts {
            if let Some(mut flight) = self.take_flight(start, house) {
                flight.waiters.retain(|it| *it != id);
                self.add_flight(start, flight, house);
            }
        }
    }

    /// What was asked for by `owner` within `ranges` will not come.
    pub(super) fn fail(
        &mut self,
        owner: u64,
        ranges: &[Range<u64>],
        outcome: impl Fn() -> WaitOutcome,
        house: &mut EntryContext<'_>,
    ) {
        let mut struck = Vec::new();
        for range in ranges {
            for (start, flight) in self.cut_flights(range, house) {
                match flight.owner == owner {
                    true => struck.extend(flight.waiters),
                    false => self.add_flight(start, flight, house),
                }
            }
        }
        struck.sort_unstable();
        struck.dedup();
        self.end(&struck, outcome, house);
    }

    pub(super) fn lacks_confirmation(&self, opened: u64) -> bool {
        let lacks = |it: &Waiter| it.outcome.is_none() && it.needs == opened;
        self.confirmed < opened && self.waiters.values().any(lacks)
    }

    /// The version could not be confirmed.
    pub(super) fn fail_unconfirmed(
        &mut self,
        opened: u64,
        error: &Error,
        house: &mut EntryContext<'_>,
    ) {
        let confirmed = self.confirmed;
        let waiting = self.waiters.iter().filter(|(_, it)| it.needs == opened);
        let ids: Vec<_> =
            waiting.filter(|(_, it)| it.needs > confirmed).map(|(id, _)| *id).collect();
        self.end(&ids, || WaitOutcome::Failed(error.clone()), house);
    }

    /// Of `ranges`, what `owner` asked for and nobody waits for is absent again; returns it.
    pub(super) fn release(
        &mut self,
        owner: u64,
        ranges: &[Range<u64>],
        house: &mut EntryContext<'_>,
    ) -> Vec<Range<u64>> {
        let mut released = Vec::new();
        for range in ranges {
            for (start, flight) in self.cut_flights(range, house) {
                match flight.owner == owner && flight.waiters.is_empty() {
                    true => released.push(start..flight.end),
                    false => self.add_flight(start, flight, house),
                }
            }
        }
        range::merged(&released, 0)
    }

    /// What `owner` has asked for and not got.
    pub(super) fn flights_of(&self, owner: u64) -> Vec<Range<u64>> {
        let mine = self.flights.iter().filter(|(_, flight)| flight.owner == owner);
        mine.map(|(start, flight)| *start..flight.end).collect()
    }

    /// Nothing lies beyond `size`, so nobody waits for it.
    pub(super) fn clip(&mut self, size: u64, house: &mut EntryContext<'_>) {
        for (start, flight) in self.cut_flights(&(size..u64::MAX), house) {
            for id in flight.waiters {
                if let Some(waiter) = self.waiters.get_mut(&id) {
                    waiter.missing -= flight.end - start;
                    self.settle(id, house);
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
        house: &mut EntryContext<'_>,
    ) -> Option<Waiter> {
        self.leave_flights(id, house);
        self.waiters.remove(&id)
    }
}
