//! Claims on absent bytes: a claim puts bytes in flight, and its failure makes them absent again.

use super::Cache;
use super::waiter::WaitOutcome;
use hither_core::Error;
use std::ops::Range;

/// A read that has started to wait.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) waiter: u64,
    /// To be requested by the claimant.
    pub(crate) fresh: Vec<Range<u64>>,
    /// In flight, and no read had waited for it before.
    pub(crate) prioritized: Vec<Range<u64>>,
    /// The version has to be confirmed, and no request of the owner in flight does so.
    pub(crate) unconfirmed: bool,
}

impl Cache {
    /// Begins the wait of a read of `ranges`, sorted and disjoint, as far as they lie in the file
    /// if its size is known; it is served once all bytes are present and the version is confirmed.
    /// Absent bytes are claimed for `owner`, which has to request them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Changed`](hither_core::ErrorKind::Changed) if the entry has been invalidated.
    pub(crate) fn claim(
        &self,
        id: u64,
        owner: u64,
        opened: u64,
        ranges: &[Range<u64>],
    ) -> Result<Claimed, Error> {
        let claimed = self.entry(id, |entry, context| {
            if let Some(error) = &entry.changed {
                return Err(error.clone());
            }
            let size = entry.size().unwrap_or(u64::MAX);
            let ranges = ranges.iter().map(|range| range.start.min(size)..range.end.min(size));
            let ranges: Vec<_> = ranges.filter(|range| range.start < range.end).collect();
            let (waiter, fresh, prioritized) = entry.claim(&ranges, owner, opened, context);
            // Responses to the requests in flight confirm it.
            let unconfirmed = entry.confirmed < opened && entry.in_flight_of(owner).is_empty();
            Ok(Claimed { waiter, fresh, prioritized, unconfirmed })
        });
        claimed.unwrap_or_else(|| {
            Err(Error::new(hither_core::ErrorKind::Cancelled, "the file is closed"))
        })
    }

    /// Claims for `owner` the absent parts of `ranges`, in their order, as long as there is room
    /// for prefetches, and at most `most` bytes. No read waits for them. Returns the parts that
    /// were claimed, and those for which there was no room.
    pub(crate) fn claim_ahead(
        &self,
        id: u64,
        owner: u64,
        ranges: &[Range<u64>],
        most: u64,
    ) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let claimed = self.entry(id, |entry, context| {
            let mut claimed = Vec::new();
            let mut later = Vec::new();
            if entry.changed.is_some() {
                return (claimed, later);
            }
            let used = context.policy.ahead_bytes() + context.policy.prefetching_bytes;
            let mut room = self.config.ahead_bytes.saturating_sub(used).min(most);
            for (nth, range) in ranges.iter().enumerate() {
                if room == 0 {
                    later.extend(ranges.iter().skip(nth).cloned());
                    break;
                }
                let end = entry.size().map_or(range.end, |size| range.end.min(size));
                for absent in entry.absent(&(range.start.min(end)..end)) {
                    let to = absent.end.min(absent.start.saturating_add(room));
                    room -= to - absent.start;
                    if to > absent.start {
                        entry.claim_ahead(absent.start..to, owner, context);
                        claimed.push(absent.start..to);
                    }
                    later.extend((to < absent.end).then_some(to..absent.end));
                }
            }
            (claimed, later)
        });
        claimed.unwrap_or_default()
    }

    /// Claims those of `gaps` that are absent as a whole.
    pub(crate) fn claim_gaps(&self, id: u64, owner: u64, gaps: &[Range<u64>]) -> Vec<Range<u64>> {
        let claimed = self.entry(id, |entry, context| {
            let whole = |gap: &&Range<u64>| entry.absent(gap).as_slice() == [(*gap).clone()];
            let gaps: Vec<_> = gaps.iter().filter(whole).cloned().collect();
            gaps.iter().for_each(|gap| entry.claim_ahead(gap.clone(), owner, context));
            gaps
        });
        claimed.unwrap_or_default()
    }

    /// Fails the parts of `ranges` that `owner` has in flight.
    pub(crate) fn fail(&self, id: u64, owner: u64, ranges: &[Range<u64>], error: &Error) {
        self.entry(id, |entry, context| {
            entry.fail(owner, ranges, || WaitOutcome::Failed(error.clone()), context);
        });
    }

    /// Returns true if a read waits for confirmation for the opening numbered `opened`, and
    /// possibly for bytes that other files fetch, too.
    pub(crate) fn lacks_confirmation(&self, id: u64, opened: u64) -> bool {
        self.entry(id, |entry, _| entry.lacks_confirmation(opened)).unwrap_or(false)
    }

    /// Fails the reads that wait for confirmation for the opening numbered `opened`, which failed.
    pub(crate) fn fail_unconfirmed(&self, id: u64, opened: u64, error: &Error) {
        self.entry(id, |entry, context| entry.fail_unconfirmed(opened, error, context));
    }

    /// Ends all fetches of `owner`; reads that wait for them have to request the bytes again.
    /// Returns true if there were any.
    pub(crate) fn abandon(&self, id: u64, owner: u64) -> bool {
        let abandoned = self.entry(id, |entry, context| {
            let fetches = entry.in_flight_of(owner);
            entry.fail(owner, &fetches, || WaitOutcome::Again, context);
            !fetches.is_empty()
        });
        abandoned.unwrap_or(false)
    }

    /// Releases the parts of `ranges` that `owner` has claimed and no read waits for; returns them.
    pub(crate) fn release(&self, id: u64, owner: u64, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        self.entry(id, |entry, context| entry.release(owner, ranges, context)).unwrap_or_default()
    }

    /// The ranges that `owner` has in flight.
    pub(crate) fn in_flight(&self, id: u64, owner: u64) -> Vec<Range<u64>> {
        self.entry(id, |entry, _| entry.in_flight_of(owner)).unwrap_or_default()
    }
}
