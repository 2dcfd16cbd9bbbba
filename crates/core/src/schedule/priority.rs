//! What somebody waits for, in a reader that also fetches ahead.
//!
//! Urgent requests have a queue of their own, which is looked at first. They are sent whether or not what is fetched ahead
//! has taken the connections: a program that waits must not wait for what nobody has asked for yet. Among themselves they keep
//! to the connections that were planned for them, so that what the first answers teach is known to those that follow, and to the
//! budget, except that one is always admitted when none is under way.
//!
//! Several may wait at a time, each for a read of its own. Alone, a read is dealt out to many connections, of which each brings a
//! window in one round trip. When 32 threads do that at a time, the connections are taken by small requests, and each of them
//! waits for a round trip: 1 MiB in 64 requests of 16 KB came to 200 Mbit/s on a path of 400 and 40 ms. So a read gets no
//! larger share of the connections than it has of the bytes that are waited for; but what fits into a few first windows may have
//! a connection for each, because it comes in one round trip then. And there may be twice as many requests on their way as connections
//! were planned: a connection that has brought one is idle for a round trip until the next one is there, which on that path was
//! a sixth of the time, and meanwhile the others have it.

use super::Reader;
use crate::range;
use crate::tune::link::INITIAL_WINDOW_BYTES;
use crate::tune::straggler::InFlightRequest;
use std::ops::Range;

/// Connections that a small read may have, whatever else is waited for.
const SMALL_READ_CONNECTIONS: u64 = 4;

impl Reader<'_> {
    /// Asks for `ranges` before everything that was pushed so far and is not urgent.
    pub fn push_urgent(&mut self, ranges: &[Range<u64>], max_connections: usize) {
        let others = self.urgent_bytes();
        self.crowded = others > range::total_bytes(ranges);
        let share = fair_share(range::total_bytes(ranges), others, self.connections);
        let requests = self.planned(ranges, max_connections.min(share));
        self.urgent.extend(requests);
    }

    /// What is waited for and has not come, in bytes.
    fn urgent_bytes(&self) -> u64 {
        let queued = self.urgent.iter().map(|it| range::total_bytes(&it.ranges));
        let under_way = self.urgent_ids.iter().filter_map(|id| self.requests.get(id));
        queued.chain(under_way.map(InFlightRequest::left_bytes)).fold(0, u64::saturating_add)
    }

    /// Somebody waits for `ranges`: what of them has not been sent becomes urgent.
    pub fn prioritize(&mut self, ranges: &[Range<u64>]) {
        let waiting = self.cancel(ranges);
        if !waiting.is_empty() {
            self.push_urgent(&waiting, usize::MAX);
        }
    }

    /// Takes back what of `ranges` has not been sent and is not urgent; returns it, sorted and disjoint.
    pub fn cancel(&mut self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
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

    /// Whether there is room for a request for one of several who wait.
    fn is_beside(&self, under_way: usize) -> bool {
        self.crowded && under_way < self.source.max_connections().min(2 * self.connections)
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

/// How many of `connections` are for a read of so many bytes where so many others are waited for. One that is more than all the
/// others may have any number: it is the job, and what was asked for before was to get to know the server.
fn fair_share(bytes: u64, others: u64, connections: usize) -> usize {
    if others <= bytes {
        return usize::MAX;
    }
    let windows = bytes.div_ceil(INITIAL_WINDOW_BYTES);
    let least = if windows <= SMALL_READ_CONNECTIONS { windows } else { 1 };
    let all = u128::from(bytes) + u128::from(others);
    let share = (u128::from(bytes) * connections as u128).div_ceil(all).max(least.into());
    usize::try_from(share).unwrap_or(connections).max(1)
}

#[cfg(test)]
mod tests {
    use super::fair_share;

    #[test]
    fn connections_are_shared_by_what_is_waited_for() {
        assert_eq!(fair_share(1 << 20, 0, 64), usize::MAX);
        assert_eq!(fair_share(1 << 20, 7 << 20, 64), 8);
        assert_eq!(fair_share(1 << 20, 31 << 20, 14), 1);
        assert_eq!(fair_share(40_000, 1 << 30, 64), 3);
        assert_eq!(fair_share(0, 1, 64), 1);
        assert_eq!(fair_share(20 << 20, 12 << 10, 1), usize::MAX);
        assert_eq!(fair_share(u64::MAX - 1, u64::MAX, 64), 32);
    }
}
