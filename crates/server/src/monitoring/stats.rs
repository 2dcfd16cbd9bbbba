//! What a server counts of itself while it runs: for Prometheus ([`Metrics`]) and for its status page ([`SlidingWindow`]).
//!
//! There are meters only where somebody can read them, at the address of `metrics` in the settings. What is counted while
//! requests run (bytes, connections, requests under way) are single additions; what a request has been is noted once, at
//! its end.

use crate::monitoring::metrics::Metrics;
use crate::monitoring::request_stats::{MethodIndex, RequestStats};
use crate::monitoring::sliding_window::SlidingWindow;
use hither_core::error::Result;
use std::sync::Arc;

/// See the module above.
#[derive(Debug)]
pub(crate) struct ServerStats {
    pub(crate) metrics: Metrics,
    pub(crate) recent: SlidingWindow,
}

impl ServerStats {
    /// # Errors
    /// A name is taken twice: a fault of [`Metrics`].
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { metrics: Metrics::new()?, recent: SlidingWindow::default() })
    }

    /// A request has begun.
    pub(crate) fn begin(&self, method: MethodIndex) {
        self.metrics.begin(method);
    }

    /// Bytes of a body were handed to a connection.
    pub(crate) fn sent(&self, bytes: usize) {
        self.metrics.sent.inc_by(bytes as u64);
    }

    /// Bytes of a body have come.
    pub(crate) fn received(&self, bytes: usize) {
        self.metrics.received.inc_by(bytes as u64);
    }

    /// A request is over.
    pub(crate) fn end(&self, figures: &RequestStats) {
        self.metrics.end(figures);
        self.recent.end(figures);
    }

    /// A connection was taken; it counts as open as long as what comes back lives.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        self.metrics.accepted.inc();
        self.metrics.connections.inc();
        Connected(Arc::clone(self))
    }
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Connected(Arc<ServerStats>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}
