//! Work queue of the driver of an open file.

use crate::cache::FileSnapshot;
use crate::cache::file::prefetch_queue::PrefetchQueue;
use std::ops::Range;

/// Work of the driver.
#[derive(Debug, Default)]
pub(crate) struct DriverWork {
    /// Claimed ranges that a read waits for, or that join its request.
    pub(crate) urgent: Vec<Range<u64>>,
    /// Prefetched ranges that a read waits for now, if they are not requested yet.
    pub(crate) prioritized: Vec<Range<u64>>,
    /// Ranges no longer needed, if they are not requested yet.
    pub(crate) cancelled: Vec<Range<u64>>,
    /// True if the version has to be validated.
    pub(crate) probe: bool,
    pub(crate) queue: PrefetchQueue,
    /// True if the queue may have items to take.
    pub(crate) prefetches_due: bool,
    /// Bytes of the next prefetches, for which connections can be opened; 0 if unknown.
    pub(crate) next_bytes: u64,
    /// True while the driver has enough to send; it takes from the queue by itself afterwards.
    pub(crate) busy: bool,
}

impl DriverWork {
    /// Returns true if there is memory for enough prefetches: a little at a time would make many
    /// small requests.
    pub(crate) fn has_room(&self, snapshot: &FileSnapshot) -> bool {
        let room = snapshot.ahead_budget_bytes.saturating_sub(snapshot.ahead_bytes);
        room >= self.queue.bytes().min(snapshot.ahead_budget_bytes / 8).max(1)
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.probe
            || self.prefetches_due
            || !self.urgent.is_empty()
            || !self.prioritized.is_empty()
            || !self.cancelled.is_empty()
    }

    /// Drops the requests for the previous version of the file.
    pub(crate) fn forget_requests(&mut self) {
        self.urgent.clear();
        self.prioritized.clear();
        self.cancelled.clear();
        self.probe = false;
        self.busy = false;
    }
}
