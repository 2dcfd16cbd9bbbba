//! Trace of a program's reads, one record for each.
//!
//! A trace answers questions that no total can: in what order a program reads, how far it jumps,
//! what it reads again, for which reads it waited. It can be looked at long after the job, and the
//! same reads can be done again over another link.
//!
//! Whoever serves reads keeps a [`FileRecorder`] for each open file and tells it every read when it
//! is done. The recorder turns the times of the file's own clock into those of the trace and hands
//! a [`ReadEvent`] to the [`TraceSink`], which numbers files and keeps the records. Recording must
//! cost next to nothing: a read that finds its bytes takes less than a microsecond. [`TraceWriter`]
//! writes the records down (`format.rs` describes the file format), [`TraceReader`] reads
//! them, [`SubmissionOrder`] puts them in the order in which the program asked, [`Statistics`] are
//! what they say, and a [`Script`] is how they can be done again.
//!
//! [`import`] makes traces of the records of other programs. Opening a file and the records of a
//! client are the library's; a job on another link is the simulation's.
//!
//! # Where to start reading
//!
//! - what a program reads, recorded: `src/recorder.rs`.

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
