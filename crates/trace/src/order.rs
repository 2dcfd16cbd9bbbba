//! Reads in the order of their submission.
//!
//! A trace has reads in the order in which they ended. The two orders differ if threads or requests
//! overlap, by at most the number of reads that ended during the longest read. [`SubmissionOrder`]
//! buffers several ten thousand reads and returns the earliest of them. So the order is correct
//! unless more reads than that ended during one read; memory is bounded.

use super::TracedRead;
use hither_core::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Maximum number of buffered reads.
const MAX_READS: usize = 1 << 16;

/// Maximum number of ranges of buffered reads.
const MAX_RANGES: usize = 1 << 20;

/// Reads, the earliest submission first. If the input fails, it returns the reads before the error,
/// then the error, and then ends.
#[derive(Debug)]
pub struct SubmissionOrder<I> {
    input: I,
    waiting: BinaryHeap<Reverse<Waiting>>,
    ranges: usize,
    arrived: u64,
    error: Option<Error>,
    ended: bool,
}

#[derive(Debug)]
struct Waiting {
    submitted: Duration,
    arrived: u64,
    read: TracedRead,
}

impl<I: Iterator<Item = Result<TracedRead>>> SubmissionOrder<I> {
    /// Sorts `input`.
    pub fn new(input: I) -> Self {
        Self { input, waiting: BinaryHeap::new(), ranges: 0, arrived: 0, error: None, ended: false }
    }

    /// The underlying reader.
    pub fn get_ref(&self) -> &I {
        &self.input
    }

    fn refill(&mut self) {
        while !self.ended && self.waiting.len() < MAX_READS && self.ranges < MAX_RANGES {
            match self.input.next() {
                Some(Ok(read)) => {
                    self.ranges += read.ranges.len();
                    self.arrived += 1;
                    let submitted = read.times.submitted;
                    let arrived = self.arrived;
                    self.waiting.push(Reverse(Waiting { submitted, arrived, read }));
                }
                Some(Err(error)) => {
                    self.error = Some(error);
                    self.ended = true;
                }
                None => self.ended = true,
            }
        }
    }
}

impl<I: Iterator<Item = Result<TracedRead>>> Iterator for SubmissionOrder<I> {
    type Item = Result<TracedRead>;

    fn next(&mut self) -> Option<Self::Item> {
        self.refill();
        match self.waiting.pop() {
            Some(Reverse(Waiting { read, .. })) => {
                self.ranges -= read.ranges.len();
                Some(Ok(read))
            }
            None => self.error.take().map(Err),
        }
    }
}

impl Waiting {
    fn key(&self) -> (Duration, u64) {
        (self.submitted, self.arrived)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheStatus, ReadTimes};
    use hither_core::ErrorKind;

    fn read(submitted: u64, offset: u64) -> TracedRead {
        TracedRead {
            file: 0,
            thread: 0,
            ranges: vec![offset..offset + 1],
            times: ReadTimes::at_once(Duration::from_nanos(submitted)),
            found: CacheStatus::Hit,
            absent_bytes: 0,
        }
    }

    #[test]
    fn reads_are_sorted_by_time_and_equal_times_keep_their_order() {
        let reads =
            [(5, 0), (3, 1), (5, 2), (1, 3), (5, 4)].map(|(at, offset)| Ok(read(at, offset)));
        let starts =
            SubmissionOrder::new(reads.into_iter()).map(|read| read.unwrap().ranges[0].start);
        assert_eq!(starts.collect::<Vec<_>>(), [3, 1, 0, 2, 4]);
    }

    #[test]
    fn reads_before_an_error_are_returned() {
        let reads = [Ok(read(2, 0)), Ok(read(1, 1)), Err(Error::new(ErrorKind::Corrupt, "bad"))];
        let all: Vec<_> = SubmissionOrder::new(reads.into_iter()).collect();
        assert_eq!(all.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    }
}
