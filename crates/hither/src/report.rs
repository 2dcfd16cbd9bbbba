//! The report of a job: its times, requests and bytes.

use hither_core::SourceReport;
use hither_read::cache::file::ReadTotals;
use hither_transport::TransferTotals;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The report of one job. Bytes and requests equal those in the server's log.
///
/// `round_trips` counts requests that had to wait for an earlier one; requests sent together count
/// once. The connection's handshake is not included; it is in `connect_seconds`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// From the opening of the URL to the result, in seconds.
    pub seconds: f64,
    /// Requests sent.
    pub requests: u64,
    /// Dependent round trips after connecting.
    pub round_trips: u64,
    /// Connections opened.
    pub connections: u64,
    /// Bytes of the file that were requested.
    pub bytes_requested: u64,
    /// Received bytes on all connections, including headers and framing.
    pub bytes_received: u64,
    /// Received bytes of the file, requested or not.
    pub bytes_payload: u64,
    /// Bytes of the file from which the result was computed.
    pub bytes_used: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Files that were downloaded whole although only ranges of them were requested: because their
    /// server does not support ranges, or because they are so small that it costs less.
    #[serde(default)]
    pub whole_file_downloads: u64,
    /// Waiting for the first connection, in seconds.
    pub connect_seconds: f64,
    /// Round-trip time as measured by the first connection, in seconds.
    pub rtt_seconds: f64,
    /// From the first request to the tree being known, in seconds.
    pub open_seconds: f64,
    /// From the tree being known to the last basket having arrived, in seconds.
    pub data_seconds: f64,
    /// Decompressing and unpacking, in seconds, summed over threads.
    pub decode_seconds: f64,
    /// Evaluating expressions and filling, in seconds, summed over threads.
    pub compute_seconds: f64,
    /// Counters of reads through the cache.
    #[serde(default)]
    pub reads: ReadReport,
    /// True if the tree came from the store rather than from the server.
    pub metadata_from_store: bool,
    /// The replicas that the file was read from, in the order of preference.
    pub sources: Vec<SourceReport>,
    /// The reasons why replicas are not used any more.
    pub notices: Vec<String>,
}

/// Counters of reads through the cache; all zeros where there were none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadReport {
    /// Ranges that were read.
    pub reads: u64,
    /// Ranges whose bytes were all present, so that the read did not wait.
    pub hits: u64,
    /// Ranges whose bytes were partly present or in flight.
    pub partial: u64,
    /// Ranges whose bytes all had to be requested.
    pub misses: u64,
    /// Total time that calls waited, in seconds.
    pub waited_seconds: f64,
    /// Bytes that were requested before a read waited for them.
    pub bytes_ahead: u64,
    /// Bytes that were evicted from the cache unread. Unread bytes that are still in the cache are
    /// not included; they are in [`Report::bytes_wasted`].
    pub bytes_dropped: u64,
}

impl From<ReadTotals> for ReadReport {
    fn from(totals: ReadTotals) -> Self {
        Self {
            reads: totals.reads,
            hits: totals.hits,
            partial: totals.partial,
            misses: totals.misses,
            waited_seconds: totals.waited.as_secs_f64(),
            bytes_ahead: totals.bytes_ahead,
            bytes_dropped: totals.bytes_dropped,
        }
    }
}

impl Report {
    /// The requests, bytes and connections of a client between two states of its counters.
    pub(crate) fn between(before: &TransferTotals, after: &TransferTotals) -> Self {
        let connect = after.connect_micros.saturating_sub(before.connect_micros);
        Self {
            requests: after.requests - before.requests,
            round_trips: after.round_trips - before.round_trips,
            connections: after.connections - before.connections,
            bytes_requested: after.bytes_requested - before.bytes_requested,
            bytes_received: after.bytes_received - before.bytes_received,
            bytes_payload: after.bytes_payload - before.bytes_payload,
            whole_file_downloads: after.whole_files - before.whole_files,
            connect_seconds: Duration::from_micros(connect).as_secs_f64(),
            ..Self::default()
        }
    }

    /// Bytes of the file that were fetched and not used.
    #[must_use]
    pub fn bytes_wasted(&self) -> u64 {
        self.bytes_payload.saturating_sub(self.bytes_used)
    }
}
