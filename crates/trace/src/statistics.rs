//! Statistics of a trace.
//!
//! The reads must come in the order in which they were submitted
//! ([`SubmissionOrder`](super::InOrder)). Every file is looked at by itself, as if the program read
//! nothing else: a program that alternates between two files reads each in its own order. A vector
//! read counts as its ranges, in their order, wherever places and sizes are concerned, and as one
//! read wherever it is about waiting.
//!
//! The displacement of a range is how far it begins from where the one before it ended: 0 is
//! sequential, below 0 is backwards. Furano and Hanushevsky plot its frequency for a job of BaBar
//! over the interval of a few 100,000 bytes around 0 (CHEP 2006, figure 2);
//! [`Displacements::plain`] is that plot, [`Displacements::logarithmic`] shows near and far at
//! once.

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

/// More files than this are not looked at.
const MAX_FILES: usize = 1 << 16;

/// Statistics of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// From the first submission to the last consumption, in seconds.
    pub seconds: f64,
    /// Threads that read.
    pub threads: u64,
    /// Time from the first read of a thread to the end of its last, in seconds, summed over
    /// threads.
    pub thread_seconds: f64,
    /// Time of that in which a thread waited for bytes, in seconds; reads of one thread that
    /// overlap are counted once.
    pub waited_seconds: f64,
    /// All files together. Names none.
    pub all: FileStatistics,
    /// Each file that was read, in the order of the trace's names.
    pub files: Vec<FileStatistics>,
}

impl Statistics {
    /// Share of the threads' time that they waited, 0 to 1.
    #[must_use]
    pub fn waited_share(&self) -> f64 {
        if self.thread_seconds > 0.0 { self.waited_seconds / self.thread_seconds } else { 0.0 }
    }

    /// Looks at all of `reads`, which must be in the order of submission. `names` gives the name of
    /// each file, and is asked when all reads have been seen.
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

/// A thread's time, from its first submission on.
#[derive(Debug, Clone, Copy)]
struct ThreadState {
    first: Duration,
    last: Duration,
    waited: Duration,
    /// Waiting has been counted up to here.
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
