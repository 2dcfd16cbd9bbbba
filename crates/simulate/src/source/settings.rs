//! Settings of a source.

use super::{Fault, SimulatedSource, activity};
use hither_core::{Clock, Limits};
use std::sync::Arc;
use std::time::Duration;

impl SimulatedSource {
    /// Sets a clock that is more precise than tokio's. Connections then share the link in turns of
    /// some KiB.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self.state().line.take_turns();
        self
    }

    /// Sets the time from the arrival of a request at the server to the first byte of its response.
    #[must_use]
    pub fn with_server_time(mut self, time: Duration) -> Self {
        self.server_time = time;
        self
    }

    /// Lets windows shrink while a connection is idle, as Linux does by default
    /// (`net.ipv4.tcp_slow_start_after_idle`), and keeps them below the bandwidth-delay product of
    /// [`Link::each`](hither_netem::link::Link::each).
    #[must_use]
    pub fn with_idle_restart(self) -> Self {
        self.state().line.restarts = true;
        self
    }

    /// Records the activity that [`SimulatedSource::causes`] needs.
    #[must_use]
    pub fn with_activity(self) -> Self {
        self.state().activity = Some(activity::Activity::default());
        self
    }

    /// Sets a name; the default is made from the size.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the limits of each request. The request cost of the path replaces that of these limits
    /// if it is higher ([`Limits::priced`]).
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum number of connections, at least one.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets the no-progress timeout: a stalled response fails after this time. By default it never
    /// fails.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Also sends the bytes between two ranges, if there are at most `gap_bytes`, as some servers
    /// do.
    #[must_use]
    pub fn with_merging(mut self, gap_bytes: u64) -> Self {
        self.merging = gap_bytes;
        self
    }

    /// Omits the size of the file from all responses.
    #[must_use]
    pub fn without_size(mut self) -> Self {
        self.states_size = false;
        self
    }

    /// Sets a fault for the `nth` request, counted from 0 in the order in which connections are
    /// assigned.
    #[must_use]
    pub fn with_fault(self, nth: usize, fault: Fault) -> Self {
        self.state().faults.insert(nth, fault);
        self
    }
}
