//! Work queue of the driver of an open file.

use crate::cache::FileSnapshot;
use crate::cache::file::prefetch_queue::PrefetchQueue;
use std::ops::Range;

/// Work of the driver.
#[derive(Debug, Default)]
pub(crate) struct DriverWork {
    /// Claimed and waited for, or claimed along with such.
    pub(crate) urgent: Vec<Range<u64>>,
    /// Now waited for, in case that it has not been sent.
    pub(crate) prioritized: Vec<Range<u64>>,
    /// Not wanted any more, in case that it has not been sent.
    pub(crate) cancelled: Vec<Range<u64>>,
    /// The version has to be confirmed.
    pub(crate) probe: bool,
    pub(crate) wishes: PrefetchQueue,
    /// There may be something to take from the wishes.
    pub(crate) wished: bool,
    /// The driver has enough to send, and will look for wishes by itself when that is sent.
    pub(crate) busy: bool,
}

impl DriverWork {
    /// Returns true if there is room for enough prefetches: a little at a time would make many
    /// small requests.
    pub(crate) fn has_room(&self, snapshot: &FileSnapshot) -> bool {
        let room = snapshot.ahead_budget_bytes.saturating_sub(snapshot.ahead_bytes);
        room >= self.wishes.bytes().min(snapshot.ahead_budget_bytes / 8).max(1)
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.probe
            || self.wished
            || !self.urgent.is_empty()
            || !self.prioritized.is_empty()
            || !self.cancelled.is_empty()
    }
    /// Another version is read from now on: what was asked of the last one is of no use.
    pub(crate) fn forget_requests(&mut self) {
        self.urgent.clear();
        self.prioritized.clear();
        self.cancelled.clear();
        (self.probe, self.busy) = (false, false);
    }
}
