//! Statistics of a running server: for Prometheus ([`Metrics`]) and for its status page
//! ([`SlidingWindow`]).
//!
//! They exist only if `metrics` in the settings gives them an address. Bytes, connections and
//! active requests are counted immediately, by single additions; results at the end of a request.

use crate::monitoring::metrics::Metrics;
use crate::monitoring::request_stats::{MethodIndex, RequestStats};
use crate::monitoring::sliding_window::SlidingWindow;
use hither_core::error::Result;
use std::sync::Arc;

/// The statistics of a server.
#[derive(Debug)]
pub(crate) struct ServerStats {
    pub(crate) metrics: Metrics,
    pub(crate) recent: SlidingWindow,
}

impl ServerStats {
    /// # Errors
    /// Two metrics have the same name, which would be a bug of [`Metrics`].
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { metrics: Metrics::new()?, recent: SlidingWindow::default() })
    }

    /// Counts a request that begins.
    pub(crate) fn begin(&self, method: MethodIndex) {
        self.metrics.begin(method);
    }

    /// Counts body bytes passed to a connection.
    pub(crate) fn sent(&self, bytes: usize) {
        self.metrics.sent.inc_by(bytes as u64);
    }

    /// Counts received body bytes.
    pub(crate) fn received(&self, bytes: usize) {
        self.metrics.received.inc_by(bytes as u64);
    }

    /// Counts a finished request.
    pub(crate) fn end(&self, figures: &RequestStats) {
        self.metrics.end(figures);
        self.recent.end(figures);
    }

    /// Counts an accepted connection, which is open until the returned value is dropped.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        self.metrics.accepted.inc();
        self.metrics.connections.inc();
        Connected(Arc::clone(self))
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connected(Arc<ServerStats>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}
