//! What a server counts of itself while it runs: for Prometheus ([`Metrics`]) and for its status page ([`SlidingWindow`]).
//!
//! There are meters only where somebody can read them, at the address of `metrics` in the settings. What is counted while
//! requests run (bytes, connections, requests under way) are single additions; what a request has been is noted once, at
//! its end.

use crate::monitoring::metrics::Metrics;
use crate::monitoring::sliding_window::SlidingWindow;
use hither_core::error::Result;
use http::Method;
use std::sync::Arc;
use std::time::Duration;

/// The methods that are counted apart; all others are the last.
pub(crate) const METHODS: [&str; 12] = [
    "GET",
    "HEAD",
    "QUERY",
    "PROPFIND",
    "PUT",
    "DELETE",
    "MKCOL",
    "COPY",
    "MOVE",
    "PROPPATCH",
    "OPTIONS",
    "other",
];

/// A place in [`METHODS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodIndex(pub(crate) usize);

/// What kind of work a method is: their times are not to be thrown together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPhase {
    Read,
    Write,
    List,
}

impl MethodIndex {
    fn of(method: &Method) -> Self {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        Self(known.unwrap_or(METHODS.len() - 1))
    }

    pub(crate) fn work(self) -> RequestPhase {
        match METHODS.get(self.0) {
            Some(&("GET" | "HEAD" | "QUERY")) => RequestPhase::Read,
            Some(&("PUT" | "DELETE" | "MKCOL" | "COPY" | "MOVE" | "PROPPATCH")) => {
                RequestPhase::Write
            }
            _ => RequestPhase::List,
        }
    }
}

/// What a request has been, in numbers; see [`crate::monitoring::note`].
#[derive(Debug, Clone)]
pub(crate) struct RequestStats {
    pub(crate) method: MethodIndex,
    pub(crate) status: u16,
    pub(crate) ranges: Option<usize>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) head: Duration,
    pub(crate) whole: Duration,
    pub(crate) disk: Duration,
    pub(crate) client: Duration,
    pub(crate) complete: bool,
    /// The file that was asked for, where that is counted.
    pub(crate) file: Option<String>,
}

impl RequestStats {
    pub(crate) fn of(method: &Method) -> Self {
        Self {
            method: MethodIndex::of(method),
            status: 0,
            ranges: None,
            received: 0,
            sent: 0,
            head: Duration::ZERO,
            whole: Duration::ZERO,
            disk: Duration::ZERO,
            client: Duration::ZERO,
            complete: false,
            file: None,
        }
    }
}

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
