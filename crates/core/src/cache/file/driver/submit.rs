//! Hands the reader what is wanted.

use crate::cache::file::CachedFileState;
use crate::cache::file::driver::{FIRST_BYTE, Session};
use crate::sync::{MutexGuard, lock};
use crate::tune::connections;
use crate::tune::link::INITIAL_REQUEST_BYTES;
use crate::{Limits, plan, range};
use std::ops::{ControlFlow, Range};

/// Up to this, one connection is as good as several: a few initial windows.
const SMALL_BYTES: u64 = 64 << 10;

/// Connections for a read of `ranges`.
fn connections_for(ranges: &[Range<u64>], limits: &Limits) -> usize {
    connections::for_read(range::total_bytes(ranges), plan::fewest_requests(ranges, limits))
}

impl Session<'_> {
    /// Hands the reader what is wanted.
    pub(crate) fn submit(&mut self) -> ControlFlow<()> {
        let file = self.file;
        let mut state = lock(&file.state);
        if state.closed || state.entry != self.claims.entry {
            return ControlFlow::Break(());
        }
        let cancelled = std::mem::take(&mut state.work.cancelled);
        if !cancelled.is_empty() {
            self.cancel_prefetches(&cancelled);
        }
        let prioritized = std::mem::take(&mut state.work.prioritized);
        if !prioritized.is_empty() {
            self.reader.prioritize(&prioritized);
        }
        let urgent = std::mem::take(&mut state.work.urgent);
        if !urgent.is_empty() {
            self.push_urgent(&urgent);
        }
        if std::mem::take(&mut state.work.probe) && !self.probing {
            self.probe();
        }
        self.submit_prefetches(&mut state);
        ControlFlow::Continue(())
    }

    fn submit_prefetches(&mut self, state: &mut MutexGuard<'_, CachedFileState>) {
        let prefetches_due = std::mem::take(&mut state.work.prefetches_due);
        state.work.busy = self.reader.queued() > 0;
        if state.work.queue.is_empty() || state.work.busy {
            return;
        }
        if !self.versioned && (self.fetching || !prefetches_due) {
            return;
        }
        if !state.work.has_room(&self.cache().snapshot(self.claims.entry)) {
            return;
        }
        let most = if self.versioned { u64::MAX } else { INITIAL_REQUEST_BYTES };
        let cache = self.cache();
        let entry = self.claims.entry;
        let owner = self.claims.owner;
        let mut left = most;
        let taken = state.work.queue.take(|ranges| {
            let (claimed, later) = cache.claim_ahead(entry, owner, ranges, left);
            left = left.saturating_sub(range::total_bytes(&claimed));
            (claimed, later)
        });
        if !taken.is_empty() {
            let ranges = self.over_gaps(&taken);
            self.sends();
            let max_connections = connections_for(&ranges, &self.file.source.limits());
            let windows = connections::initial_windows(range::total_bytes(&ranges));
            if windows > self.file.source.max_connections() {
                // More than a window for each connection: in the order of use.
                self.reader.push_striped(&ranges, max_connections);
            } else {
                self.reader.push(&ranges, max_connections);
            }
            state.work.busy = self.reader.queued() > 0;
        }
    }

    fn push_urgent(&mut self, claimed: &[Range<u64>]) {
        let mut ranges = self.over_gaps(claimed);
        let unknown_server =
            !self.versioned && !self.fetching && self.file.source.link().rtt.is_none();
        if unknown_server && range::total_bytes(&ranges) > SMALL_BYTES {
            (ranges, self.rest) = range::divided(&ranges, INITIAL_REQUEST_BYTES);
        }
        self.sends();
        self.reader.push_urgent(&ranges, connections_for(&ranges, &self.file.source.limits()));
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
        if !self.fetching {
            self.fetching = true;
            self.openings = self.cache().openings();
        }
    }

    /// Holds back what has not been sent, unless somebody waits for it.
    fn cancel_prefetches(&mut self, unwanted: &[Range<u64>]) {
        let held = self.reader.cancel(unwanted);
        let released = self.cache().release(self.claims.entry, self.claims.owner, &held);
        let wanted = range::difference(&held, &released);
        if !wanted.is_empty() {
            self.reader.push_urgent(&wanted, usize::MAX);
        }
    }
}
