//! Statistics of a trace.
//!
//! The reads must be in the order of their submission
//! ([`SubmissionOrder`](crate::SubmissionOrder)). Each file is analysed separately, as if the
//! program read only this file: a program that alternates between two files reads each in its own
//! order. For offsets and sizes, a vector read counts as its ranges, in their order; for waits, it
//! counts as one read.
//!
//! The displacement of a range is the distance from the end of the previous range to its start: 0
//! is sequential, below 0 is backwards. Furano and Hanushevsky plot its frequency for a job of
//! BaBar over the interval of a few 100,000 bytes around 0 (CHEP 2006, figure 2);
//! [`Displacements::plain`] is that plot, [`Displacements::logarithmic`] covers small and large
//! displacements.

mod bins;
mod coverage;
mod file;

pub use bins::{Bin, LinearBins};
pub use file::{Displacements, FileStatistics, Runs};

use super::TracedRead;
use file::FileState;
use hither_core::error::{Error, ErrorKind, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of files.
const MAX_FILES: usize = 1 << 16;

/// Statistics of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Time from the first submission to the last consumption, in seconds.
    pub seconds: f64,
    /// Number of threads with reads.
    pub threads: u64,
    /// Time from the first read of a thread to the end of its last one, in seconds, summed over
    /// threads.
    pub thread_seconds: f64,
    /// Part of that time in which a thread waited for bytes, in seconds; overlapping reads of one
    /// thread count once.
    pub waited_seconds: f64,
    /// All files together, without a name.
    pub all: FileStatistics,
    /// Each file that was read, in the order of the trace's names.
    pub files: Vec<FileStatistics>,
}

impl Statistics {
    /// Share of the threads' time that they spent waiting, 0 to 1.
    #[must_use]
    pub fn waited_share(&self) -> f64 {
        if self.thread_seconds > 0.0 { self.waited_seconds / self.thread_seconds } else { 0.0 }
    }

    /// Computes the statistics of `reads`, which must be in the order of submission. `names`
    /// returns the names of the files; it is called after the last read.
    ///
    /// # Errors
    ///
    /// The first error of `reads`; [`ErrorKind::Unsupported`] for more than 65,536 files.
    pub fn of<I: Iterator<Item = Result<TracedRead>>>(
        reads: &mut I,
        names: impl FnOnce(&I) -> Vec<String>,
    ) -> Result<Self> {
        let mut seen = Seen::default();
        for read in reads.by_ref() {
            seen.add(&read?)?;
        }
        Ok(seen.finish(&names(reads)))
    }
}

/// Statistics so far.
#[derive(Debug, Default)]
struct Seen {
    files: BTreeMap<u32, FileState>,
    threads: BTreeMap<u32, ThreadState>,
}

/// Times of a thread, from its first submission on.
#[derive(Debug, Clone, Copy)]
struct ThreadState {
    first: Duration,
    last: Duration,
    waited: Duration,
    /// Time up to which waits have been counted.
    counted: Duration,
}

impl Seen {
    fn add(&mut self, read: &TracedRead) -> Result<()> {
        if !self.files.contains_key(&read.file) && self.files.len() == MAX_FILES {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the trace covers more than {MAX_FILES} files"),
            ));
        }
        self.files.entry(read.file).or_default().add(read);
        let times = read.times;
        let thread = self.threads.entry(read.thread).or_insert(ThreadState {
            first: times.submitted,
            last: times.submitted,
            waited: Duration::ZERO,
            counted: Duration::ZERO,
        });
        let from = times.submitted.max(thread.counted);
        thread.waited = thread.waited.saturating_add(times.completed.saturating_sub(from));
        thread.counted = thread.counted.max(times.completed);
        thread.last = thread.last.max(times.consumed);
        Ok(())
    }

    fn finish(self, names: &[String]) -> Statistics {
        let sum = |of: fn(&ThreadState) -> Duration| {
            self.threads.values().map(of).map(|time| time.as_secs_f64()).sum::<f64>()
        };
        let first = self.threads.values().map(|thread| thread.first).min().unwrap_or_default();
        let last = self.threads.values().map(|thread| thread.last).max().unwrap_or_default();
        let (thread_seconds, waited_seconds) =
            (sum(|thread| thread.last.saturating_sub(thread.first)), sum(|thread| thread.waited));
        let mut all = FileState::default();
        let mut files = Vec::new();
        for (number, mut state) in self.files {
            state.end();
            all.join(&state);
            let name = names.get(number as usize).cloned().unwrap_or_default();
            files.push(state.statistics(name));
        }
        Statistics {
            seconds: last.saturating_sub(first).as_secs_f64(),
            threads: self.threads.len() as u64,
            thread_seconds,
            waited_seconds,
            all: all.statistics(String::new()),
            files,
        }
    }
}

#[cfg(test)]
mod tests;
