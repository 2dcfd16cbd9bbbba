//! The reads of a trace by thread, for a replay.
//!
//! A thread does one read after the other. Between two reads it works as long as the recorded
//! program did, from the end of one read to the submission of the next; waits for data in the
//! recording are not part of that time.

use super::TracedRead;
use hither_core::error::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// The reads of all threads of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// The threads, by their numbers in the trace.
    pub threads: BTreeMap<u32, ThreadScript>,
    /// Time from the first submission to the end of the last read, as recorded.
    pub recorded: Duration,
}

/// The reads of one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadScript {
    steps: Vec<ScriptStep>,
    /// The ranges of all steps, concatenated.
    ranges: Vec<Range<u64>>,
    /// The time at which the last read ended, in the trace.
    end: Duration,
}

/// One read of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptStep {
    /// Time that the program worked before the read.
    pub pause: Duration,
    /// Number of the file in the trace.
    pub file: u32,
    ranges: u32,
}

impl Script {
    /// Creates the script of these reads, which are in the order of their submission.
    ///
    /// # Errors
    ///
    /// The first error of the reads.
    pub fn of(reads: impl Iterator<Item = Result<TracedRead>>) -> Result<Self> {
        let mut script = Self::default();
        let mut first = None;
        for read in reads {
            let read = read?;
            let origin = *first.get_or_insert(read.times.submitted);
            let new = || ThreadScript { end: origin, ..ThreadScript::default() };
            script.threads.entry(read.thread).or_insert_with(new).add(&read);
            let end = read.times.consumed.saturating_sub(origin);
            script.recorded = script.recorded.max(end);
        }
        Ok(script)
    }
}

impl ThreadScript {
    /// The reads and their ranges, in order.
    pub fn steps(&self) -> impl Iterator<Item = (ScriptStep, &[Range<u64>])> {
        let mut left = self.ranges.as_slice();
        self.steps.iter().filter_map(move |step| {
            let (now, later) = left.split_at_checked(step.ranges as usize)?;
            left = later;
            Some((*step, now))
        })
    }

    /// Sum of the pauses.
    #[must_use]
    pub fn paused(&self) -> Duration {
        self.steps.iter().map(|step| step.pause).sum()
    }

    fn add(&mut self, read: &TracedRead) {
        let pause = read.times.submitted.saturating_sub(self.end);
        self.end = self.end.max(read.times.consumed);
        // A record has at most 65,536 ranges.
        let ranges = u32::try_from(read.ranges.len()).unwrap_or(u32::MAX);
        self.ranges.extend_from_slice(&read.ranges);
        self.steps.push(ScriptStep { pause, file: read.file, ranges });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheStatus, ReadTimes};

    fn read(thread: u32, submitted: u64, consumed: u64, ranges: &[Range<u64>]) -> TracedRead {
        let [submitted, consumed] = [submitted, consumed].map(Duration::from_millis);
        TracedRead {
            file: thread,
            thread,
            ranges: ranges.to_vec(),
            times: ReadTimes { submitted, completed: consumed, consumed },
            found: CacheStatus::Miss,
            absent_bytes: 0,
        }
    }

    #[test]
    fn pauses_are_the_times_between_reads_of_a_thread() {
        let reads = [
            read(0, 10, 20, &[0..1, 5..6]),
            read(1, 15, 16, &[0..1]),
            read(0, 23, 30, &[2..3]),
            // Submitted before the previous read had ended.
            read(0, 29, 31, &[3..4]),
        ];
        let script = Script::of(reads.into_iter().map(Ok)).unwrap();
        let pauses = |thread: u32| -> Vec<_> {
            script.threads[&thread].steps().map(|(step, _)| step.pause.as_millis()).collect()
        };
        assert_eq!((pauses(0), pauses(1)), (vec![0, 3, 0], vec![5]));
        let ranges: Vec<_> = script.threads[&0].steps().map(|(_, ranges)| ranges.len()).collect();
        assert_eq!((ranges, script.recorded.as_millis()), (vec![2, 1, 1], 21));
        assert_eq!(script.threads[&0].paused().as_millis(), 3);
    }
}
