//! What the driver of an open file has to do.

use super::wishes::PrefetchQueue;
use crate::cache::FileSnapshot;
use std::ops::Range;

/// What the driver has to do.
#[derive(Debug, Default)]
pub(super) struct DriverWork {
    /// Claimed and waited for, or claimed along with such.
    pub(super) urgent: Vec<Range<u64>>,
    /// Now waited for, in case that it has not been sent.
    pub(super) hastened: Vec<Range<u64>>,
    /// Not wanted any more, in case that it has not been sent.
    pub(super) withdrawn: Vec<Range<u64>>,
    /// The version has to be confirmed.
    pub(super) probe: bool,
    pub(super) wishes: PrefetchQueue,
    /// There may be something to take from the wishes.
    pub(super) wished: bool,
    /// The driver has enough to send, and will look for wishes by itself when that is sent.
    pub(super) busy: bool,
}

impl DriverWork {
    /// Whether there is room for enough of the wishes: little by little would make many small requests.
    pub(super) fn has_room(&self, standing: &FileSnapshot) -> bool {
        let room = standing.ahead_budget_bytes.saturating_sub(standing.ahead_bytes);
        room >= self.wishes.bytes().min(standing.ahead_budget_bytes / 8).max(1)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.probe
            || self.wished
            || !self.urgent.is_empty()
            || !self.hastened.is_empty()
            || !self.withdrawn.is_empty()
    }
    /// Another version is read from now on: what was asked of the last one is of no use.
    pub(super) fn forget_requests(&mut self) {
        self.urgent.clear();
        self.hastened.clear();
        self.withdrawn.clear();
        (self.probe, self.busy) = (false, false);
    }
}
