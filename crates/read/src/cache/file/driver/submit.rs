//! Submission of needed ranges to the reader.

use crate::cache::file::driver::{FIRST_BYTE, Session};
use crate::cache::file::{CachedFileState, MAX_SMALL_FILE_BYTES};
use crate::prefetch::MAX_WHOLE_BYTES;
use crate::sync::{MutexGuard, lock};
use hither_core::source::link::INITIAL_REQUEST_BYTES;
use hither_core::{Limits, LinkEstimate, plan, range};
use hither_load::connections;
use std::ops::{ControlFlow, Range};

/// Up to this size, one connection is as fast as several: a few initial windows.
const SMALL_BYTES: u64 = 64 << 10;

/// Connections for a read of `ranges` of a file of `size` bytes. A single range that may pass the
/// end of the file is not cut: its later pieces may lie beyond.
fn connections_for(
    ranges: &[Range<u64>],
    limits: &Limits,
    link: &LinkEstimate,
    size: Option<u64>,
) -> usize {
    let requests = plan::fewest_requests(ranges, limits);
    let bytes = range::total_bytes(ranges);
    match (size, ranges) {
        (Some(..=MAX_SMALL_FILE_BYTES), _) | (None, [_]) => requests,
        (Some(_), [_]) => connections::for_range(bytes, requests, link),
        _ => connections::for_read(bytes, requests),
    }
}

impl Session<'_> {
    /// Pushes the needed ranges to the reader.
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
        let next_bytes = std::mem::take(&mut state.work.next_bytes);
        if next_bytes > 0 {
            let source = &self.file.source;
            source.preconnect(connections::for_next_range(next_bytes, &source.link()));
        }
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
            let mut max_connections = self.connections_for(&ranges);
            if let ([_], Some(..=MAX_WHOLE_BYTES)) = (&*ranges, self.size()) {
                // It may be the rest of the file.
                let in_flight = self.reader.in_flight();
                max_connections = connections::beside(in_flight, max_connections);
            }
            let windows = connections::initial_windows(range::total_bytes(&ranges));
            if windows > self.file.source.max_connections() {
                // More than a window for each connection: request them in the order of use.
                self.reader.push_striped(&ranges, max_connections);
            } else {
                self.reader.push(&ranges, max_connections);
            }
            state.work.busy = self.reader.queued() > 0;
        }
    }

    fn push_urgent(&mut self, claimed: &[Range<u64>]) {
        let mut ranges = self.over_gaps(claimed);
        if self.size().is_none() && !self.fetching {
            let is_large = range::total_bytes(&ranges) > SMALL_BYTES;
            let bytes = match ranges.len() {
                _ if is_large && self.file.source.link().rtt.is_none() => INITIAL_REQUEST_BYTES,
                1 => MAX_SMALL_FILE_BYTES.min(self.file.source.max_first_bytes()),
                _ => u64::MAX,
            };
            (ranges, self.rest) = range::divided(&ranges, bytes);
        }
        self.sends();
        self.reader.push_urgent(&ranges, self.connections_for(&ranges));
    }

    /// Requests the rest of the first read, as far as the file goes.
    pub(crate) fn push_rest(&mut self) {
        let mut rest = std::mem::take(&mut self.rest);
        let size = self.reader.size();
        if let Some(size) = size {
            rest.iter_mut().for_each(|range| range.end = range.end.min(size));
            rest.retain(|range| range.start < range.end);
        }
        if rest.is_empty() {
            return;
        }
        self.reader.push_urgent(&rest, self.connections_for(&rest));
    }

    /// The size of the file, if it is known.
    fn size(&self) -> Option<u64> {
        self.cache().snapshot(self.claims.entry).size.or_else(|| self.reader.size())
    }

    fn connections_for(&self, ranges: &[Range<u64>]) -> usize {
        let source = &self.file.source;
        connections_for(ranges, &source.limits(), &source.link(), self.size())
    }

    /// Reads over the gaps that cost less than another range, if they are absent as a whole.
    fn over_gaps(&self, claimed: &[Range<u64>]) -> Vec<Range<u64>> {
        let ranges = range::merged(claimed, 0);
        let gaps = plan::gaps_worth_reading(&ranges, &self.file.source.limits());
        if gaps.is_empty() || self.file.config.exact {
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

    /// Records that a request is about to be sent.
    fn sends(&mut self) {
        if !self.fetching {
            self.fetching = true;
            self.openings = self.cache().openings();
        }
    }

    /// Cancels prefetches that have not been sent, unless a read waits for them.
    fn cancel_prefetches(&mut self, unwanted: &[Range<u64>]) {
        let held = self.reader.cancel(unwanted);
        let released = self.cache().release(self.claims.entry, self.claims.owner, &held);
        let wanted = range::difference(&held, &released);
        if !wanted.is_empty() {
            self.reader.push_urgent(&wanted, usize::MAX);
        }
    }
}
