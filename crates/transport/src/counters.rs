//! The books of a client: requests, connections, bytes, and flights.
//!
//! A *flight* is a round trip that had to wait for an earlier one. A request belongs to the flight after the latest one
//! that any answer received before it belonged to; requests sent together share a flight, however many connections they take.
//! Handshakes above TCP, those of TLS and with proxies, are round trips as well. The count can be checked from outside,
//! on packets.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters shared by the connections of one client.
#[derive(Debug, Default)]
pub struct TransferCounters {
    connections: AtomicU64,
    requests: AtomicU64,
    flight_sent: AtomicU64,
    flight_received: AtomicU64,
    bytes_received: AtomicU64,
    bytes_requested: AtomicU64,
    bytes_payload: AtomicU64,
    connect_micros: AtomicU64,
    whole_files: AtomicU64,
    damaged_pages: AtomicU64,
}

/// The figures of an [`TransferCounters`] at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferTotals {
    /// Connections established.
    pub connections: u64,
    /// Requests sent.
    pub requests: u64,
    /// Dependent flights of requests, and of handshakes after that of TCP.
    pub flights: u64,
    /// Bytes that came in, headers and framing included.
    pub bytes_received: u64,
    /// Bytes of files that were asked for.
    pub bytes_requested: u64,
    /// Bytes of files that arrived.
    pub bytes_payload: u64,
    /// How long the first connection took to establish, in microseconds.
    pub connect_micros: u64,
    /// Downloads of a whole file of which only ranges were wanted: from servers that send no ranges, and of small files.
    pub whole_files: u64,
    /// Pages whose checksums were wrong when they arrived, and that were asked for again.
    pub damaged_pages: u64,
}

impl TransferCounters {
    /// The figures now.
    #[must_use]
    pub fn totals(&self) -> TransferTotals {
        TransferTotals {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            flights: self.flight_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            bytes_requested: self.bytes_requested.load(Ordering::Relaxed),
            bytes_payload: self.bytes_payload.load(Ordering::Relaxed),
            connect_micros: self.connect_micros.load(Ordering::Relaxed),
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

    /// A request was sent in `flight`, the one that was next before it was.
    pub(crate) fn sent(&self, flight: u64, bytes_requested: u64) {
        self.flight_sent.fetch_max(flight, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_requested.fetch_add(bytes_requested, Ordering::Relaxed);
    }

    /// A request or a handshake is about to begin: the flight that its first message belongs to. Asked before that is sent,
    /// because the next answer may be faster than the return from sending.
    pub(crate) fn next_flight(&self) -> u64 {
        self.flight_received.load(Ordering::Acquire) + 1
    }

    /// A handshake that began in `flight` took this many of them.
    pub(crate) fn handshaken(&self, flight: u64, flights: u64) {
        let last = flight + flights.saturating_sub(1);
        self.flight_sent.fetch_max(last, Ordering::Relaxed);
        self.answered(last);
    }

    /// The answer to a request of `flight` has begun to arrive.
    pub(crate) fn answered(&self, flight: u64) {
        self.flight_received.fetch_max(flight, Ordering::Release);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.bytes_received.fetch_add(bytes, Ordering::Relaxed);
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
