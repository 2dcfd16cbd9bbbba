//! Number of requests in flight at a time.
//!
//! The number of connections follows from the bandwidth-delay product, since each connection has
//! its own window. If one connection carries many requests (HTTP/2), another request needs no
//! window, and the server sends responses one after the other as fast as the windows of its few
//! connections allow. Then no request should wait for the response to another: all queued requests
//! are sent, up to the source's maximum. The maximum is queried each time, because it can change
//! during a read.

use super::Reader;

impl Reader<'_> {
    /// Returns true if one more request may be sent in addition to `in_flight` others.
    pub(super) fn has_room(&self, in_flight: usize) -> bool {
        in_flight < self.connections || in_flight < self.shared_requests()
    }

    /// Returns true if one more prefetch may be sent. Its connections were planned in addition to
    /// those of demand reads: otherwise prefetches planned for one round trip would take two
    /// whenever the program reads meanwhile.
    pub(super) fn has_room_for_prefetch(&self) -> bool {
        let in_flight = self.running.len();
        let prefetches = in_flight.saturating_sub(self.urgent_ids.len());
        self.has_room(in_flight)
            || (in_flight < self.source.max_requests() && self.has_room(prefetches))
    }

    /// Maximum requests in flight if connections carry several; 0 if they do not.
    fn shared_requests(&self) -> usize {
        if self.queue.is_empty() && self.urgent.is_empty() {
            return 0;
        }
        let requests = self.source.max_requests();
        if requests > self.source.max_connections() { requests } else { 0 }
    }

    /// Number of requests that fail together if the server does: one for each connection, or all
    /// that share connections.
    pub(super) fn connections_in_use(&self) -> u32 {
        let shared = if self.widest > self.source.max_connections() { self.widest } else { 0 };
        u32::try_from(self.connections.max(shared)).unwrap_or(u32::MAX)
    }
}
