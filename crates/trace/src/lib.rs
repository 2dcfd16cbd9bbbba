//! Trace of a program's reads, with one record per read.
//!
//! A trace answers questions that totals cannot: the order of a program's reads, their
//! displacements, repeated reads, and the reads for which it waited. It can be analysed long after
//! the job, and the same reads can be replayed over another link.
//!
//! The read path keeps a [`FileRecorder`] for each open file and reports every completed read to
//! it. The recorder converts the times of the file's own clock to those of the trace and passes a
//! [`ReadEvent`] to the [`TraceSink`], which numbers files and stores the records. Recording must
//! cost very little: a read that finds its bytes takes less than a microsecond. [`TraceWriter`]
//! writes the records (`format.rs` describes the file format), [`TraceReader`] reads them,
//! [`SubmissionOrder`] sorts them by submission, [`Statistics`] summarizes them, and a [`Script`]
//! contains them for a replay.
//!
//! [`import`] converts recordings of other programs to traces. The crate `hither` opens files and
//! records the reads of a client; the simulation replays a job over another link.
//!
//! # Where to start reading
//!
//! - recording a program's reads: `src/recorder.rs`.

mod format;
pub mod import;
mod order;
mod read;
mod recorder;
mod script;
mod statistics;
mod varint;
mod write;

pub use order::SubmissionOrder;
pub use read::{TraceReader, TracedRead};
pub use recorder::{CacheStatus, FileRecorder, ReadEvent, ReadTimes, TraceSink, thread_number};
pub use script::{Script, ScriptStep, ThreadScript};
pub use statistics::{Bin, Displacements, FileStatistics, LinearBins, Runs, Statistics};
pub use write::TraceWriter;
