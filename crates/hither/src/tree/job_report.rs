//! The report of a job on a tree: its own times, and the difference of the client's counters.

use crate::Report;
use crate::file::origin::FileOrigin;
use crate::tree::scan::ScanTotals;
use hither_transport::{TransferCounters, TransferTotals};
use std::time::Duration;
use tokio::time::Instant;

/// Times and counters of a job that the client's counters do not have.
#[derive(Debug, Default)]
pub(crate) struct PhaseTimings {
    pub(crate) open: Duration,
    pub(crate) metadata_bytes: u64,
    pub(crate) from_store: bool,
    pub(crate) scan: ScanTotals,
}

/// The beginning of what a report covers.
#[derive(Debug, Clone)]
pub(crate) struct JobStart {
    at: Instant,
    before: TransferTotals,
}

impl JobStart {
    pub(crate) fn now(counters: &TransferCounters) -> Self {
        Self { at: Instant::now(), before: counters.totals() }
    }
}

/// The report of a job, from its own times and the counters of the client before and after it.
pub(crate) fn report(
    timings: &PhaseTimings,
    JobStart { at, before }: &JobStart,
    after: &TransferTotals,
    file: &FileOrigin,
) -> Report {
    let (sources, notices) = file.replicas();
    Report {
        seconds: at.elapsed().as_secs_f64(),
        bytes_used: timings.metadata_bytes + timings.scan.bytes_used,
        retries: timings.scan.retries,
        rtt_seconds: file.source.link().rtt.unwrap_or_default().as_secs_f64(),
        open_seconds: timings.open.as_secs_f64(),
        data_seconds: timings.scan.transfer.as_secs_f64(),
        decode_seconds: timings.scan.decode.as_secs_f64(),
        compute_seconds: timings.scan.compute.as_secs_f64(),
        metadata_from_store: timings.from_store,
        sources,
        notices,
        ..Report::between(before, after)
    }
}
