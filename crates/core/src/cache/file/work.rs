//! What the driver of an open file has to do.

use crate::cache::FileSnapshot;
use crate::cache::file::prefetch_queue::PrefetchQueue;
use std::ops::Range;

/// What the driver has to do.
#[derive(Debug, Default)]
pub(crate) struct DriverWork {
    /// Claimed and waited for, or claimed along with such.
    pub(crate) urgent: Vec<Range<u64>>,
    /// Now waited for, in case that it has not been sent.
    pub(crate) hastened: Vec<Range<u64>>,
    /// Not wanted any more, in case that it has not been sent.
    pub(crate) withdrawn: Vec<Range<u64>>,
    /// The version has to be confirmed.
    pub(crate) probe: bool,
    pub(crate) wishes: PrefetchQueue,
    /// There may be something to take from the wishes.
    pub(crate) wished: bool,
    /// The driver has enough to send, and will look for wishes by itself when that is sent.
    pub(crate) busy: bool,
}

impl DriverWork {
    /// Whether there is room for enough of the wishes: little by little would make many small requests.
    pub(crate) fn has_room(&self, standing: &FileSnapshot) -> bool {
        let room = standing.ahead_budget_bytes.saturating_sub(standing.ahead_bytes);
        room >= self.wishes.bytes().min(standing.ahead_budget_bytes / 8).max(1)
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.probe
            || self.wished
            || !self.urgent.is_empty()
            || !self.hastened.is_empty()
            || !self.withdrawn.is_empty()
    }
    /// Another version is read from now on: what was asked of the last one is of no use.
    pub(crate) fn forget_requests(&mut self) {
        self.urgent.clear();
        self.hastened.clear();
        self.withdrawn.clear();
        (self.probe, self.busy) = (false, false);
    }
}
