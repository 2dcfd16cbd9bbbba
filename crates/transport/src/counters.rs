//! The transfer counters of a client: requests, connections, bytes, and round trips.
//!
//! Only dependent round trips count: those that had to wait for an earlier one. A request belongs
//! to the round trip after the latest one whose response had begun when it was sent. Requests that
//! are sent together share a round trip, however many connections they use. Handshakes above TCP,
//! those of TLS and of proxies, are round trips as well. The count can be verified on packets.

pub(crate) mod activity;
pub(crate) mod progress;

use activity::ActivityRecorder;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Counters shared by the connections of one client.
#[derive(Debug, Default)]
pub struct TransferCounters {
    connections: AtomicU64,
    requests: AtomicU64,
    round_trip_sent: AtomicU64,
    round_trip_received: AtomicU64,
    bytes_received: AtomicU64,
    bytes_written: AtomicU64,
    bytes_requested: AtomicU64,
    bytes_payload: AtomicU64,
    connect_micros: AtomicU64,
    tls_micros: AtomicU64,
    whole_files: AtomicU64,
    damaged_pages: AtomicU64,
    activity: OnceLock<Arc<ActivityRecorder>>,
}

/// The values of [`TransferCounters`] at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferTotals {
    /// Connections established.
    pub connections: u64,
    /// Requests sent.
    pub requests: u64,
    /// Dependent round trips of requests, and of handshakes after that of TCP.
    pub round_trips: u64,
    /// Received bytes, including headers and framing.
    pub bytes_received: u64,
    /// Requested bytes of files.
    pub bytes_requested: u64,
    /// Received bytes of files.
    pub bytes_payload: u64,
    /// The time that the first connection took to open, in microseconds.
    pub connect_micros: u64,
    /// The time that the last TLS handshake took, in microseconds; 0 without TLS.
    pub tls_micros: u64,
    /// Downloads of a whole file of which only ranges were requested: from servers without ranges,
    /// and of small files.
    pub whole_files: u64,
    /// Pages whose checksums were wrong on arrival, and that were requested again.
    pub damaged_pages: u64,
}

impl TransferCounters {
    /// Begins to record the activity of connections that are opened from now on, and returns the
    /// recorder.
    pub fn record_activity(&self) -> &Arc<ActivityRecorder> {
        self.activity.get_or_init(|| Arc::new(ActivityRecorder::start()))
    }

    /// The recorder of the activity of connections, if there is one.
    pub(crate) fn activity(&self) -> Option<&Arc<ActivityRecorder>> {
        self.activity.get()
    }

    /// The current values.
    #[must_use]
    pub fn totals(&self) -> TransferTotals {
        TransferTotals {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            round_trips: self.round_trip_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            bytes_requested: self.bytes_requested.load(Ordering::Relaxed),
            bytes_payload: self.bytes_payload.load(Ordering::Relaxed),
            connect_micros: self.connect_micros.load(Ordering::Relaxed),
            tls_micros: self.tls_micros.load(Ordering::Relaxed),
            whole_files: self.whole_files.load(Ordering::Relaxed),
            damaged_pages: self.damaged_pages.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn connected(&self, took: std::time::Duration) {
        if self.connections.fetch_add(1, Ordering::Relaxed) == 0 {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            self.connect_micros.store(micros, Ordering::Relaxed);
        }
    }

    /// Counts a request that was sent in `round_trip`, as returned by [`Self::next_round_trip`]
    /// before.
    pub(crate) fn sent(&self, round_trip: u64, bytes_requested: u64) {
        self.round_trip_sent.fetch_max(round_trip, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_requested.fetch_add(bytes_requested, Ordering::Relaxed);
    }

    /// Records the duration of a TLS handshake.
    pub(crate) fn secured(&self, took: std::time::Duration) {
        self.tls_micros.store(took.as_micros().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The round trip of a request or handshake that is about to begin. It is taken before sending,
    /// because the response may arrive before the call that sends returns.
    pub(crate) fn next_round_trip(&self) -> u64 {
        self.round_trip_received.load(Ordering::Acquire) + 1
    }

    /// Counts a handshake of `round_trips` that began in `round_trip`.
    pub(crate) fn handshaken(&self, round_trip: u64, round_trips: u64) {
        let last = round_trip + round_trips.saturating_sub(1);
        self.round_trip_sent.fetch_max(last, Ordering::Relaxed);
        self.answered(last);
    }

    /// Records that the response to a request of `round_trip` has begun.
    pub(crate) fn answered(&self, round_trip: u64) {
        self.round_trip_received.fetch_max(round_trip, Ordering::Release);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.bytes_received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that the kernel has taken for sending.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that the kernel has taken for sending so far.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    pub(crate) fn whole_file(&self) {
        self.whole_files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn damaged(&self, pages: u64) {
        self.damaged_pages.fetch_add(pages, Ordering::Relaxed);
    }

    pub(crate) fn payload(&self, bytes: u64) {
        self.bytes_payload.fetch_add(bytes, Ordering::Relaxed);
    }
}
