//! Traces of reads: summary, import from the records of other programs, replay.
//!
//! A client writes a trace to [`ClientConfig::trace`](crate::ClientConfig::trace), if that is set.

pub(crate) mod outstanding_reads;
pub(crate) mod recorder;
mod replay;

pub use hither_trace::import::{ImportFormat, ImportSummary};
pub use replay::{ReplayReport, ReplayRequest};

pub use hither_trace::{
    Bin, Displacements, FileStatistics, LinearBins, ReadTimes, Runs, Script, Statistics, TracedRead,
};

use hither_core::error::{Error, ErrorKind, Result};
use hither_trace::{SubmissionOrder, TraceReader};
use hither_transport::redact_url;
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The statistics of a trace, and its completeness.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Statistics of the reads.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Bytes at the end of the trace that are not a complete record, because its program was
    /// killed.
    pub cut_bytes: u64,
}

/// Writes a trace of the record `input` to `path`, of files with `only` in their names.
///
/// # Errors
///
/// As [`hither_trace::import::import`].
pub fn import(
    format: ImportFormat,
    input: impl BufRead,
    only: &str,
    path: &Path,
) -> Result<ImportSummary> {
    hither_trace::import::import(format, input, only, path, redact_url)
}

/// Reads the trace in the file at `path` and summarizes it.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] and [`ErrorKind::Local`] for a file that cannot be read,
/// [`ErrorKind::Corrupt`] and [`ErrorKind::Unsupported`] for a file that is not a trace of this
/// version.
pub fn summarize(path: &Path) -> Result<TraceSummary> {
    let named = |error: Error| error.context(path.display());
    let mut reads = SubmissionOrder::new(open(path)?);
    let statistics = Statistics::of(&mut reads, |reads| reads.get_ref().names().to_vec());
    Ok(TraceSummary {
        statistics: statistics.map_err(named)?,
        cut_bytes: reads.get_ref().cut_bytes(),
    })
}

/// The reads of the trace in the file at `path` as its threads did them.
///
/// # Errors
///
/// As [`summarize`].
pub fn script(path: &Path) -> Result<Script> {
    Script::of(SubmissionOrder::new(open(path)?)).map_err(|error| error.context(path.display()))
}

/// The reads of the trace in the file at `path`, in the order in which they were recorded.
fn open(path: &Path) -> Result<TraceReader<BufReader<File>>> {
    let file = File::open(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Local,
        };
        Error::new(kind, format!("cannot read {}: {error}", path.display()))
    })?;
    TraceReader::new(BufReader::new(file)).map_err(|error| error.context(path.display()))
}
