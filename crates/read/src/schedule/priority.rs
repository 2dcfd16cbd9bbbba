//! Demand reads before prefetches, in a reader that does both.
//!
//! Requests that a program waits for have their own queue, which is served first. They are sent
//! even if prefetches use all connections: a program must not wait for bytes that it has not
//! requested yet. Among themselves they keep to the connections that were planned for them, so that
//! later requests use what the first responses show, and to the budget; but one is always admitted
//! when none is in flight.
//!
//! Several reads may wait at a time. Alone, a read is spread over many connections, each of which
//! transfers a window in one round trip. When 32 threads do that at a time, small requests use up
//! the connections, and each of them waits for a round trip: 1 MiB in 64 requests of 16 KB reached
//! 200 Mbit/s on a path of 400 Mbit/s and 40 ms. So a read gets a share of the connections
//! ([`fair_share`]). And twice as many requests may be in flight as connections were planned: a
//! connection that has completed one is idle for a round trip until the next response arrives,
//! which on that path was a sixth of the time, and meanwhile the others use the bandwidth.

use super::Reader;
use super::in_flight::InFlightRequest;
use hither_core::range;
use hither_core::source::Request;
use hither_load::connections::fair_share;
use std::collections::VecDeque;
use std::ops::Range;

impl Reader<'_> {
    /// Requests `ranges` before all queued ranges that are not urgent.
    pub fn push_urgent(&mut self, ranges: &[Range<u64>], max_connections: usize) {
        let others = self.urgent_bytes();
        self.crowded = others > range::total_bytes(ranges);
        let share = fair_share(range::total_bytes(ranges), others, self.connections);
        let requests = self.planned(ranges, max_connections.min(share));
        self.urgent.extend(requests);
    }

    /// Bytes of demand reads that have not arrived.
    fn urgent_bytes(&self) -> u64 {
        let queued = self.urgent.iter().map(|it| range::total_bytes(&it.ranges));
        let in_flight = self.urgent_ids.iter().filter_map(|id| self.requests.get(id));
        queued.chain(in_flight.map(InFlightRequest::left_bytes)).fold(0, u64::saturating_add)
    }

    /// Makes the parts of `ranges` urgent that have not been sent, because a read waits for them.
    pub fn prioritize(&mut self, ranges: &[Range<u64>]) {
        if self.running.len() + 1 >= self.source.max_requests() {
            self.promote(ranges);
        }
        let waiting = self.cancel(ranges);
        if !waiting.is_empty() {
            self.push_urgent(&waiting, usize::MAX);
        }
    }

    /// Makes whole requests urgent that hold one of `ranges` behind few other bytes. Where no other
    /// request can be sent concurrently, a request for the range alone costs the rest of its
    /// request another round trip, and a program that reads its announced ranges one by one would
    /// pay a round trip for each.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn promote(&mut self, ranges: &[Range<u64>]) {
        let path = self.source.link().bandwidth_delay_bytes().unwrap_or_default();
        let is_soon = |request: &Request| {
            let is_wanted = |it: &Range<u64>| {
                ranges.iter().any(|wanted| wanted.start < it.end && it.start < wanted.end)
            };
            let position = request.ranges.iter().position(is_wanted);
            let before = position.and_then(|position| request.ranges.get(..position));
            before.is_some_and(|before| range::total_bytes(before) as f64 <= path)
        };
        let queue = std::mem::take(&mut self.queue);
        let (soon, later): (VecDeque<_>, VecDeque<_>) = queue.into_iter().partition(is_soon);
        self.queue = later;
        self.urgent.extend(soon);
    }

    /// Cancels the parts of `ranges` that have not been sent and are not urgent; returns them,
    /// sorted and disjoint.
    pub fn cancel(&mut self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let queue = std::mem::take(&mut self.queue);
        let (queue, withdrawn) = self.without(queue, &range::merged(ranges, 0));
        self.queue = queue;
        self.trial.withdrawn(range::total_bytes(&withdrawn));
        range::merged(&withdrawn, 0)
    }

    /// Number of requests that have not been sent and are not urgent.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Sends `validator` with all further requests.
    pub fn set_validator(&mut self, validator: &str) {
        self.validator = Some(validator.to_owned());
        for request in self.queue.iter_mut().chain(&mut self.urgent) {
            request.validator = Some(validator.to_owned());
        }
    }

    /// Binds all requests to the size that is known of the file. A response that states another
    /// one is an error of the kind `Changed`, even if its validator is the same: many servers date
    /// files to the second.
    pub fn expect_size(&self, size: u64) {
        // A size does not conflict with a version that no response has named yet.
        drop(self.version.bind(&self.source.name(), Some(size), None));
    }

    /// Returns true if every request in flight carries a validator, so that all parts are of one
    /// version.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.requests.values().all(|request| request.has_validator())
    }

    /// Returns true if one of several waiting reads may send another request.
    fn is_beside(&self, in_flight: usize) -> bool {
        self.crowded && in_flight < self.source.max_connections().min(2 * self.connections)
    }

    pub(super) fn launch_urgent(&mut self) {
        while self.has_room(self.urgent_ids.len()) || self.is_beside(self.urgent_ids.len()) {
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
