//! The stored record of a server, and how two of them merge.
//!
//! Several processes learn about one server at the same time. The last writer wins, except for
//! values that its own do not contradict: a lower round-trip time, a higher bandwidth, a property
//! that it never tested. So that those expire, a record older than its time to live is replaced
//! instead of merged: a notebook that changes networks eventually gets correct figures.

use hither_core::{Endpoint, RangeSupport};
use serde::{Deserialize, Serialize};

/// The stored value of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndpointRecord {
    /// The time when its oldest part was learned, in microseconds since 1970.
    pub(crate) since: u64,
    pub(crate) endpoint: Endpoint,
}

/// Merges `new` into `old`.
pub(crate) fn merged(old: &Endpoint, new: &Endpoint) -> Endpoint {
    let mut endpoint = new.clone();
    if new.ranges == RangeSupport::Unknown {
        endpoint.ranges = old.ranges;
        endpoint.range_count = old.range_count;
        endpoint.header_bytes = old.header_bytes;
        endpoint.answer_bytes = old.answer_bytes;
        endpoint.suffix = old.suffix;
    }
    let shortest = |old: u64, new: u64| match (old, new) {
        (0, known) | (known, 0) => known,
        (old, new) => old.min(new),
    };
    endpoint.rtt_micros = shortest(old.rtt_micros, new.rtt_micros);
    endpoint.first_byte_micros = shortest(old.first_byte_micros, new.first_byte_micros);
    endpoint.bandwidth = old.bandwidth.max(new.bandwidth);
    if new.max_connections == 0 {
        endpoint.max_connections = old.max_connections;
    }
    if new.streams == 0 {
        endpoint.streams = old.streams;
    }
    endpoint.query = new.query.or(old.query);
    endpoint.own_tags |= old.own_tags;
    endpoint.names = new.names.or(old.names);
    endpoint
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(
        ranges: RangeSupport,
        rtt_micros: u64,
        bandwidth: u64,
        max_connections: usize,
    ) -> Endpoint {
        let mut endpoint = Endpoint::default();
        endpoint.ranges = ranges;
        endpoint.rtt_micros = rtt_micros;
        endpoint.bandwidth = bandwidth;
        endpoint.max_connections = max_connections;
        endpoint
    }

    #[test]
    fn the_best_link_seen_is_kept() {
        let fast = endpoint(RangeSupport::Multi, 300, 9_000, 0);
        let slow = endpoint(RangeSupport::Multi, 800, 5_000, 0);
        let unmeasured = endpoint(RangeSupport::Multi, 0, 0, 0);
        assert_eq!(merged(&fast, &slow), fast);
        assert_eq!(merged(&slow, &fast), fast);
        assert_eq!(merged(&fast, &unmeasured), fast);
        assert_eq!(merged(&unmeasured, &fast), fast);
    }

    #[test]
    fn the_newest_limits_win_unless_they_are_unknown() {
        let mut raised = endpoint(RangeSupport::Multi, 0, 0, 0);
        raised.range_count.current = 500;
        raised.suffix = false;
        let mut lowered = endpoint(RangeSupport::Single, 0, 0, 8);
        lowered.range_count.current = 1;
        assert_eq!(merged(&raised, &lowered), lowered);
        let never_asked = endpoint(RangeSupport::Unknown, 0, 0, 0);
        assert_eq!(merged(&raised, &never_asked), raised);
        assert_eq!(merged(&lowered, &raised).max_connections, 8);
        let mut shared = raised.clone();
        shared.streams = 128;
        assert_eq!(
            (merged(&shared, &raised).streams, merged(&raised, &shared).streams),
            (128, 128)
        );
    }
}
