//! Number of requests in flight at a time.
//!
//! Connections are planned by what the path holds, since each opens a window of its own. Where one
//! connection carries many requests (HTTP/2), a request more costs no window, and the server
//! answers one after the other as fast as the windows of its few connections let it. What counts
//! then is that requests never wait for answers to others: all that are in line are sent, as far as
//! the source takes them. It is asked each time, because what a server can do may turn out in the
//! middle of a job, and what it is willing to do as well.

use super::Reader;

impl Reader<'_> {
    /// Returns true if there is room for one more request beside `under_way` of them.
    pub(super) fn has_room(&self, under_way: usize) -> bool {
        under_way < self.connections || under_way < self.shared_requests()
    }

    /// Requests that may be on their way where connections carry several; 0 where they do not.
    fn shared_requests(&self) -> usize {
        if self.queue.is_empty() && self.urgent.is_empty() {
            return 0;
        }
        let requests = self.source.max_requests();
        if requests > self.source.max_connections() { requests } else { 0 }
    }

    /// Connections, or what shared them: what befalls a server befalls as many requests at once.
    pub(super) fn connections_in_use(&self) -> u32 {
        let shared = if self.widest > self.source.max_connections() { self.widest } else { 0 };
        u32::try_from(self.connections.max(shared)).unwrap_or(u32::MAX)
    }
}
