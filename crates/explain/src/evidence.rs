//! The measured evidence of a job.

use crate::activity::{ArrivalSeries, ConnectionActivity};

/// The measured evidence of a job. Times are seconds since it began.
#[derive(Debug, Clone, Default)]
pub struct JobEvidence {
    /// Duration of the job.
    pub seconds: f64,
    /// All connections, those that failed included.
    pub connections: Vec<ConnectionActivity>,
    /// Bytes over time, of all connections.
    pub arrivals: ArrivalSeries,
    /// The kernel's counters, summed over the connections that are open at the end.
    pub tcp: TcpCounters,
    /// Decoding and computing, summed over threads; 0 for jobs that do neither.
    pub decode_seconds: f64,
    /// The threads that decode.
    pub decode_threads: usize,
    /// Writing to the target of a copy.
    pub write: Option<StageSeconds>,
    /// Rates by number of connections, ascending, measured after the job; empty without a
    /// measurement.
    pub probe: Vec<ProbeStep>,
    /// Maximum number of connections to one server that the configuration allows.
    pub max_connections: usize,
}

/// The kernel's counters of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpCounters {
    /// Segments with data that were received.
    pub segments_received: u64,
    /// Those of them that arrived before an earlier one, which was lost or overtaken.
    pub out_of_order: u64,
    /// Segments that this end sent.
    pub segments_sent: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// The largest window that this end offered, in bytes.
    pub window: Option<u64>,
    /// The largest smoothed round-trip time at the end of the job, in seconds.
    pub loaded_rtt: Option<f64>,
}

/// Times of a stage of a copy, summed over workers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageSeconds {
    /// Working.
    pub busy: f64,
    /// Waiting for the previous stage.
    pub starved: f64,
    /// Waiting for the next stage, or for a limit.
    pub blocked: f64,
}

/// The rate of several connections together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeStep {
    /// Number of connections.
    pub connections: usize,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// A count of bytes or requests as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "measurements have fewer digits")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// `part / whole`; 0 if `whole` is 0.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
