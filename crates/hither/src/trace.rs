//! Traces of reads: looking at them, making them of what other programs recorded, doing the reads again.
//!
//! A client writes a trace if [`ClientConfig::trace`](crate::ClientConfig::trace) says where.

mod import;
pub(crate) mod outstanding_reads;
pub(crate) mod recorder;
mod replay;

pub use import::{ImportFormat, ImportSummary, import};
pub use replay::{ReplayReport, ReplayRequest};

pub use hither_core::trace::{
    Bin, Displacements, FileStatistics, LinearBins, ReadTimes, Runs, Statistics, TracedRead,
};

use hither_core::error::{Error, ErrorKind, Result};
use hither_core::trace::{SubmissionOrder, TraceReader};
use serde::Serialize;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// What a trace says, and whether all of it is there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSummary {
    /// What it says.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Bytes at its end that could not be read, because the program that wrote it was cut off.
    pub cut_bytes: u64,
}

/// Looks at the trace in the file at `path`.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] and [`ErrorKind::Local`] for a file that cannot be read, [`ErrorKind::Corrupt`] and
/// [`ErrorKind::Unsupported`] for one that is no trace of this version.
pub fn summarize(path: &Path) -> Result<TraceSummary> {
    let named = |error: Error| error.context(path.display());
    let mut reads = SubmissionOrder::new(open(path)?);
    let statistics = Statistics::of(&mut reads, |reads| reads.get_ref().names().to_vec());
    Ok(TraceSummary {
        statistics: statistics.map_err(named)?,
        cut_bytes: reads.get_ref().cut_bytes(),
    })
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
