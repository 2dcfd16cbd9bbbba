//! What somebody waits for, in a reader that also fetches ahead.
//!
//! Urgent requests have a queue of their own, which is looked at first. They are sent whether or not what is fetched ahead
//! has taken the lanes: a program that waits must not wait for what nobody has asked for yet. Among themselves they keep
//! to the lanes that were planned for them, so that what the first answers teach is known to those that follow, and to the
//! budget, except that one is always admitted when none is under way.

use super::Reader;
use crate::range;
use std::ops::Range;

impl Reader<'_> {
    /// Asks for `ranges` before everything that was pushed so far and is not urgent.
    pub fn push_urgent(&mut self, ranges: &[Range<u64>], max_lanes: usize) {
        let requests = self.planned(ranges, max_lanes);
        self.urgent.extend(requests);
    }

    /// Somebody waits for `ranges`: what of them has not been sent becomes urgent.
    pub fn hasten(&mut self, ranges: &[Range<u64>]) {
        let waiting = self.withdraw(ranges);
        if !waiting.is_empty() {
            self.push_urgent(&waiting, usize::MAX);
        }
    }

    /// Takes back what of `ranges` has not been sent and is not urgent; returns it, sorted and disjoint.
    pub fn withdraw(&mut self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let queue = std::mem::take(&mut self.queue);
        let (queue, withdrawn) = self.parted(queue, &range::merged(ranges, 0));
        self.queue = queue;
        range::merged(&withdrawn, 0)
    }

    /// What has not been sent and is not urgent: requests.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// What is sent from now on carries `validator`.
    pub fn set_validator(&mut self, validator: &str) {
        self.validator = Some(validator.to_owned());
        for request in self.queue.iter_mut().chain(&mut self.urgent) {
            request.validator = Some(validator.to_owned());
        }
    }

    /// Whether every request under way carries a validator, so that all that arrives is of one version.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.requests.values().all(|request| request.has_validator())
    }

    pub(super) fn launch_urgent(&mut self) {
        while self.has_room(self.urgent_ids.len()) {
            let Some(request) = self.urgent.front() else { return };
            let bytes = range::total_bytes(&request.ranges).saturating_add(request.tail);
            let fits = self.unreleased_bytes.saturating_add(bytes) <= self.config.budget_bytes;
            if !fits && !self.urgent_ids.is_empty() {
                return;
            }
            let Some(request) = self.urgent.pop_front() else { return };
            let id = self.send(request, bytes);
            self.urgent_ids.insert(id);
        }
    }
}
