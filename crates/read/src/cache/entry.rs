//! One version of one file: present bytes, bytes in flight, waiting reads.

use super::eviction_policy::{Class, EvictionPolicy, Token};
use super::extent::{CELL_BYTES, Extent};
use super::in_flight::InFlightRange;
use super::waiter::{WaitOutcome, Waiter};
use super::{CacheKey, Version};
use hither_core::{Error, ErrorKind, range, validators_differ};
use hither_trace::CacheStatus;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::task::Waker;

/// Approximate cost of an extent besides its bytes.
pub(super) const EXTENT_COST_BYTES: u64 = 192;

/// One version of one file.
#[derive(Debug)]
pub(super) struct CacheEntry {
    id: u64,
    pub(super) key: CacheKey,
    pub(super) version: Option<Version>,
    /// The number of openings when a server last confirmed the version.
    pub(super) confirmed: u64,
    /// Reason for the invalidation.
    pub(super) changed: Option<Error>,
    /// By their first byte. Invariant: disjoint from each other and from ranges in flight.
    pub(super) extents: BTreeMap<u64, Extent>,
    /// By their first byte. Invariant: disjoint.
    pub(super) in_flight: BTreeMap<u64, InFlightRange>,
    pub(super) waiters: HashMap<u64, Waiter>,
    pub(super) next_waiter: u64,
    /// Open files that read it.
    pub(super) handles: usize,
    pub(super) counters: ByteCounters,
    /// In flight, and no read waits for them.
    pub(super) prefetching_bytes: u64,
    /// Present, prefetched, and in extents that no read has used.
    ahead_bytes: u64,
}

/// Fate of the bytes of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByteCounters {
    /// They were requested before any read waited for them.
    pub(crate) ahead_bytes: u64,
    /// They arrived.
    pub(crate) fetched_bytes: u64,
    /// They were read, counted once for each time that they arrived.
    pub(crate) used_bytes: u64,
    /// They were dropped unread.
    pub(crate) wasted_bytes: u64,
}

/// State that all entries share.
pub(super) struct EntryContext<'a> {
    pub(super) policy: &'a mut EvictionPolicy,
    /// To be woken when the lock has been released.
    pub(super) wakers: &'a mut Vec<Waker>,
    pub(super) counters: &'a mut ByteCounters,
}

/// State of a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeState {
    Present,
    InFlight,
    Absent,
}

impl CacheEntry {
    pub(super) fn new(id: u64, key: CacheKey) -> Self {
        Self {
            id,
            key,
            version: None,
            confirmed: 0,
            changed: None,
            extents: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            waiters: HashMap::new(),
            next_waiter: 0,
            handles: 0,
            counters: ByteCounters::default(),
            prefetching_bytes: 0,
            ahead_bytes: 0,
        }
    }

    pub(super) fn size(&self) -> Option<u64> {
        self.version.as_ref().and_then(|version| version.size)
    }

    /// Prefetched or being prefetched, and not read yet.
    pub(super) fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes + self.prefetching_bytes
    }

    pub(super) fn waiter_count(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight.iter().map(|(start, fetch)| fetch.end - start).sum()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.extents.is_empty() && self.in_flight.is_empty() && self.waiters.is_empty()
    }

    /// Returns true if all of `range` is present.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            match self.extents.range(..=at).next_back() {
                Some((start, extent)) if start + extent.len() > at => at = start + extent.len(),
                _ => return false,
            }
        }
        true
    }

    /// Copies `range`, all of which is present, and records the read.
    pub(super) fn copy(
        &mut self,
        range: &Range<u64>,
        target: &mut [u8],
        context: &mut EntryContext<'_>,
    ) {
        let mut at = range.start;
        let mut left = target;
        while at < range.end {
            let found = self.extents.range_mut(..=at).next_back();
            let Some((&start, extent)) = found.filter(|(start, it)| **start + it.len() > at) else {
                return;
            };
            let to = range.end.min(start + extent.len());
            let within = at - start..to - start;
            let (Ok(from), Ok(len)) = (usize::try_from(within.start), usize::try_from(to - at))
            else {
                return;
            };
            let Some((head, tail)) = left.split_at_mut_checked(len) else { return };
            if let Some(source) = extent.bytes.get(from..from + len) {
                head.copy_from_slice(source);
            }
            left = tail;
            let fresh = extent.touch(&within);
            let was_ahead = extent.class == Class::Ahead;
            if was_ahead {
                self.class_read(start, context);
            }
            self.used(fresh, context);
            at = to;
        }
    }

    fn used(&mut self, bytes: u64, context: &mut EntryContext<'_>) {
        self.counters.used_bytes += bytes;
        context.counters.used_bytes += bytes;
    }

    /// Records that bytes of it are read which the caller copies by itself.
    fn touch(&mut self, range: &Range<u64>, context: &mut EntryContext<'_>) {
        let mut at = range.start;
        while at < range.end {
            let found = self.extents.range_mut(..=at).next_back();
            let Some((&start, extent)) = found.filter(|(start, it)| **start + it.len() > at) else {
                return;
            };
            let to = range.end.min(start + extent.len());
            let (fresh, was_ahead) =
                (extent.touch(&(at - start..to - start)), extent.class == Class::Ahead);
            if was_ahead {
                self.class_read(start, context);
            }
            self.used(fresh, context);
            at = to;
        }
    }

    /// Moves an extent that is read for the first time to its next queue.
    fn class_read(&mut self, start: u64, context: &mut EntryContext<'_>) {
        let class = context.policy.class_of_read(self.id, start);
        self.move_to(start, class, context);
    }

    pub(super) fn move_to(&mut self, start: u64, class: Class, context: &mut EntryContext<'_>) {
        let Some(extent) = self.extents.get_mut(&start) else { return };
        let cost = extent.len() + EXTENT_COST_BYTES;
        context.policy.leave(extent.class, cost);
        if extent.class == Class::Ahead {
            self.ahead_bytes -= extent.len();
        }
        extent.class = class;
        extent.stamp = context.policy.enter(class, self.id, start, cost);
    }

    /// Returns true if the extent of a token is still at the token's offset.
    pub(super) fn is_at(&self, token: &Token) -> bool {
        self.extents.get(&token.start).is_some_and(|extent| extent.stamp == token.stamp)
    }

    pub(super) fn drop_extent(&mut self, start: u64, context: &mut EntryContext<'_>) {
        let Some(extent) = self.extents.remove(&start) else { return };
        context.policy.leave(extent.class, extent.len() + EXTENT_COST_BYTES);
        if extent.class == Class::Ahead {
            self.ahead_bytes -= extent.len();
        }
        self.counters.wasted_bytes += extent.unread_bytes();
        context.counters.wasted_bytes += extent.unread_bytes();
    }

    /// The parts of `range` that are present, in flight and absent, in the order of the file.
    pub(super) fn states(&self, range: &Range<u64>) -> Vec<(Range<u64>, RangeState)> {
        let mut known = Vec::new();
        let before = self.extents.range(..=range.start).next_back();
        let within =
            self.extents.range(range.start.saturating_add(1)..range.end.max(range.start + 1));
        known.extend(
            before
                .into_iter()
                .chain(within)
                .map(|(at, it)| (*at..at + it.len(), RangeState::Present)),
        );
        let before = self.in_flight.range(..=range.start).next_back();
        let within =
            self.in_flight.range(range.start.saturating_add(1)..range.end.max(range.start + 1));
        known.extend(
            before.into_iter().chain(within).map(|(at, it)| (*at..it.end, RangeState::InFlight)),
        );
        known.sort_unstable_by_key(|(it, _)| it.start);
        let mut states = Vec::with_capacity(known.len() + 1);
        let mut at = range.start;
        for (it, what) in known {
            let start = it.start.max(at);
            let end = it.end.min(range.end);
            if start >= end {
                continue;
            }
            if start > at {
                states.push((at..start, RangeState::Absent));
            }
            states.push((start..end, what));
            at = end;
        }
        if at < range.end {
            states.push((at..range.end, RangeState::Absent));
        }
        states
    }

    /// The cache status of a read of `range`, and the number of absent bytes.
    pub(super) fn find(&self, range: &Range<u64>) -> (CacheStatus, u64) {
        let mut in_flight = false;
        let mut absent = 0;
        for (it, what) in self.states(range) {
            match what {
                RangeState::Present => {}
                RangeState::InFlight => in_flight = true,
                RangeState::Absent => absent += range::len(&it),
            }
        }
        let found = match (absent, in_flight) {
            (0, false) => CacheStatus::Hit,
            (0, true) => CacheStatus::InFlight,
            _ => CacheStatus::Miss,
        };
        (found, absent)
    }

    /// The parts of `range` that are neither present nor in flight.
    pub(super) fn absent(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let states = self.states(range).into_iter();
        states.filter(|(_, what)| *what == RangeState::Absent).map(|(it, _)| it).collect()
    }

    /// Takes bytes that arrived: delivers them to waiting reads, and keeps them.
    pub(super) fn insert(&mut self, offset: u64, bytes: &[u8], context: &mut EntryContext<'_>) {
        self.counters.fetched_bytes += bytes.len() as u64;
        context.counters.fetched_bytes += bytes.len() as u64;
        let all = offset..offset.saturating_add(bytes.len() as u64);
        let landed = self.cut_in_flight(&all, context);
        for (range, what) in self.states(&all) {
            if what != RangeState::Present
                && let Some(piece) = slice(bytes, offset, &range)
            {
                self.place(range.start, piece, context);
            }
        }
        for (start, fetch) in landed {
            let range = start..fetch.end;
            let Some(piece) = slice(bytes, offset, &range) else { continue };
            if !fetch.waiters.is_empty() {
                self.touch(&range, context);
            }
            for id in fetch.waiters {
                if let Some(waiter) = self.waiters.get_mut(&id) {
                    waiter.collected.put(start, piece);
                    waiter.missing -= range::len(&range);
                    self.settle(id, context);
                }
            }
        }
    }

    /// Puts absent bytes into extents, each within a cell.
    fn place(&mut self, start: u64, bytes: &[u8], context: &mut EntryContext<'_>) {
        let mut at = start;
        let mut left = bytes;
        while !left.is_empty() {
            let cell_end = (at / CELL_BYTES + 1).saturating_mul(CELL_BYTES);
            let room = usize::try_from(cell_end - at).unwrap_or(usize::MAX).min(left.len());
            let (piece, rest) = left.split_at(room);
            let end = at + piece.len() as u64;
            // With the bytes that will follow soon, so that memory is allocated once.
            let follows = self.in_flight.get(&end).map_or(end, |fetch| fetch.end).min(cell_end);
            let expected = usize::try_from(follows - at).unwrap_or(piece.len()).max(piece.len());
            self.place_in_cell(at, piece, expected, context);
            (at, left) = (end, rest);
        }
    }

    fn place_in_cell(
        &mut self,
        at: u64,
        piece: &[u8],
        expected: usize,
        context: &mut EntryContext<'_>,
    ) {
        let len = piece.len() as u64;
        let left = self.extents.range_mut(..at).next_back();
        if let Some((start, extent)) = left
            && start + extent.len() == at
            && start / CELL_BYTES == at / CELL_BYTES
        {
            if extent.bytes.capacity() - extent.bytes.len() < piece.len() {
                extent.bytes.reserve_exact(expected);
            }
            extent.bytes.extend_from_slice(piece);
            context.policy.grow(extent.class, len);
            if extent.class == Class::Ahead {
                self.ahead_bytes += len;
            }
            return;
        }
        let mut extent = Extent::new(expected);
        extent.bytes.extend_from_slice(piece);
        // Bytes that arrive after the file was closed are not protected as prefetched.
        extent.class = if self.handles > 0 { Class::Ahead } else { Class::Small };
        extent.stamp = context.policy.enter(extent.class, self.id, at, len + EXTENT_COST_BYTES);
        if extent.class == Class::Ahead {
            self.ahead_bytes += len;
        }
        self.extents.insert(at, extent);
    }

    /// Records the version that the server stated.
    pub(super) fn learn(
        &mut self,
        reported: &Version,
        context: &mut EntryContext<'_>,
    ) -> Result<(), Error> {
        let changed = |what: String| Err(Error::new(ErrorKind::Changed, what));
        let known = self.version.get_or_insert(Version { size: None, validator: None });
        match (&known.validator, &reported.validator) {
            (Some(was), Some(is)) if validators_differ(was, is) => {
                return changed(format!("the file has changed (it was {was}, now it is {is})"));
            }
            (None, Some(is)) => known.validator = Some(is.clone()),
            _ => {}
        }
        match (known.size, reported.size) {
            (Some(was), Some(is)) if was != is => {
                changed(format!("the file has changed (it had {was} bytes, now it has {is})"))
            }
            (None, Some(is)) => {
                known.size = Some(is);
                self.clip(is, context);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Records that a server confirmed the version, at the `stamp`th opening or later.
    pub(super) fn confirm(&mut self, stamp: u64, context: &mut EntryContext<'_>) {
        if stamp > self.confirmed {
            self.confirmed = stamp;
            let ids: Vec<_> = self.waiters.keys().copied().collect();
            ids.into_iter().for_each(|id| self.settle(id, context));
        }
    }

    /// Invalidates the entry: the file has changed.
    pub(super) fn change(&mut self, error: &Error, context: &mut EntryContext<'_>) {
        self.changed = Some(error.clone());
        let starts: Vec<_> = self.extents.keys().copied().collect();
        starts.into_iter().for_each(|start| self.drop_extent(start, context));
        self.cut_in_flight(&(0..u64::MAX), context);
        // Also reads that are complete and were not served yet: the end of the response that
        // brought their bytes may have shown the change.
        let complete = |it: &&mut Waiter| matches!(it.outcome, Some(WaitOutcome::Ready));
        self.waiters.values_mut().filter(complete).for_each(|waiter| waiter.outcome = None);
        let ids: Vec<_> = self.waiters.keys().copied().collect();
        self.end(&ids, || WaitOutcome::Changed(error.clone()), context);
    }

    /// Removes the protection of prefetched bytes within `range`.
    pub(super) fn demote(&mut self, range: &Range<u64>, context: &mut EntryContext<'_>) {
        let starts: Vec<_> = self
            .extents
            .range(range.clone())
            .filter(|(_, extent)| extent.class == Class::Ahead)
            .map(|(start, _)| *start)
            .collect();
        starts.into_iter().for_each(|start| self.move_to(start, Class::Small, context));
    }
}

/// The part of `bytes`, which lie at `offset`, that lies at `range`.
fn slice<'a>(bytes: &'a [u8], offset: u64, range: &Range<u64>) -> Option<&'a [u8]> {
    let from = usize::try_from(range.start.checked_sub(offset)?).ok()?;
    bytes.get(from..from + usize::try_from(range::len(range)).ok()?)
}
