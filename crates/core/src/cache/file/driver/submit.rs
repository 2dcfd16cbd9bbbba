//! Hands the reader what is wanted.

use crate::cache::file::CachedFileState;
use crate::cache::file::driver::{FIRST_BYTE, Session};
use crate::sync::{MutexGuard, lock};
use crate::tune::link::{INITIAL_REQUEST_BYTES, INITIAL_WINDOW_BYTES};
use crate::{Limits, plan, range};
use std::ops::{ControlFlow, Range};

/// Up to this, one connection is as good as several: a few initial windows.
const SMALL_BYTES: u64 = 64 << 10;

/// Connections for a read: no more than give each an initial window, which comes in one round trip on a connection of any age, or than
/// there have to be requests. A job shares what it has to do among more, because more will follow; here nobody knows.
fn for_read(ranges: &[Range<u64>], limits: &Limits) -> usize {
    windows(ranges).max(plan::fewest_requests(ranges, limits))
}

/// Initial windows that hold `ranges`.
fn windows(ranges: &[Range<u64>]) -> usize {
    let windows = range::total_bytes(ranges).div_ceil(INITIAL_WINDOW_BYTES);
    usize::try_from(windows).unwrap_or(usize::MAX)
}

impl Session<'_> {
    /// Hands the reader what is wanted.
    pub(crate) fn feed(&mut self) -> ControlFlow<()> {
        let file = self.file;
        let mut state = lock(&file.state);
        if state.closed || state.entry != self.claims.entry {
            return ControlFlow::Break(());
        }
        let withdrawn = std::mem::take(&mut state.work.withdrawn);
        if !withdrawn.is_empty() {
            self.withdraw(&withdrawn);
        }
        let hastened = std::mem::take(&mut state.work.hastened);
        if !hastened.is_empty() {
            self.reader.prioritize(&hastened);
        }
        let urgent = std::mem::take(&mut state.work.urgent);
        if !urgent.is_empty() {
            self.push_urgent(&urgent);
        }
        if std::mem::take(&mut state.work.probe) && !self.probing {
            self.probe();
        }
        self.feed_wishes(&mut state);
        ControlFlow::Continue(())
    }

    fn feed_wishes(&mut self, state: &mut MutexGuard<'_, CachedFileState>) {
        let wished = std::mem::take(&mut state.work.wished);
        state.work.busy = self.reader.queued() > 0;
        if state.work.wishes.is_empty() || state.work.busy {
            return;
        }
        if !self.versioned && (self.under_way || !wished) {
            return;
        }
        if !state.work.has_room(&self.cache().standing(self.claims.entry)) {
            return;
        }
        let most = if self.versioned { u64::MAX } else { INITIAL_REQUEST_BYTES };
        let (cache, entry, owner) = (self.cache(), self.claims.entry, self.claims.owner);
        let mut left = most;
        let taken = state.work.wishes.take(|ranges| {
            let (claimed, later) = cache.claim_ahead(entry, owner, ranges, left);
            left = left.saturating_sub(range::total_bytes(&claimed));
            (claimed, later)
        });
        if !taken.is_empty() {
            let ranges = self.over_gaps(&taken);
            self.sends();
            let connections = for_read(&ranges, &self.file.source.limits());
            // More than a window for each: in the order of use.
            match windows(&ranges) > self.file.source.max_connections() {
                true => self.reader.push_striped(&ranges, connections),
                false => self.reader.push(&ranges, connections),
            }
            state.work.busy = self.reader.queued() > 0;
        }
    }

    fn push_urgent(&mut self, claimed: &[Range<u64>]) {
        let mut ranges = self.over_gaps(claimed);
        let stranger = !self.versioned && !self.under_way && self.file.source.link().rtt.is_none();
        if stranger && range::total_bytes(&ranges) > SMALL_BYTES {
            (ranges, self.rest) = range::divided(&ranges, INITIAL_REQUEST_BYTES);
        }
        self.sends();
        self.reader.push_urgent(&ranges, for_read(&ranges, &self.file.source.limits()));
    }

    /// Reads over the gaps that cost less than another range, as far as nothing of them is there.
    fn over_gaps(&self, claimed: &[Range<u64>]) -> Vec<Range<u64>> {
        let ranges = range::merged(claimed, 0);
        let gaps = plan::gaps_worth_reading(&ranges, &self.file.source.limits());
        if gaps.is_empty() {
            return ranges;
        }
        let gaps = self.cache().claim_gaps(self.claims.entry, self.claims.owner, &gaps);
        range::merged(&[ranges, gaps].concat(), 0)
    }

    pub(crate) fn probe(&mut self) {
        self.probing = true;
        self.sends();
        self.reader.push_urgent(std::slice::from_ref(&FIRST_BYTE), 1);
    }

    /// Something is about to be sent.
    fn sends(&mut self) {
        if !self.under_way {
            self.under_way = true;
            self.openings = self.cache().openings();
        }
    }

    /// Holds back what has not been sent, unless somebody waits for it.
    fn withdraw(&mut self, unwanted: &[Range<u64>]) {
        let held = self.reader.cancel(unwanted);
        let released = self.cache().release(self.claims.entry, self.claims.owner, &held);
        let wanted = range::difference(&held, &released);
        if !wanted.is_empty() {
            self.reader.push_urgent(&wanted, usize::MAX);
        }
    }
}
