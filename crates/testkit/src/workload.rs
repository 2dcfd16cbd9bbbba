//! Synthetic read workloads: offsets, lengths, and the time between reads.
//!
//! A workload is a list of reads, which is the same for the same seed. The models of prefetching,
//! benchmarks and recorded traces use workloads.

mod babar;
mod trace;

pub use babar::{BABAR_READS, BABAR_SIZE, babar};

use hither_netem::random::Random;
use std::ops::Range;
use std::time::Duration;

/// One read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkloadRead {
    /// Offset of its first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Time that the program works before this read, on the bytes of the previous read.
    pub think: Duration,
}

impl WorkloadRead {
    /// The range to read.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }
}

/// The reads of a program in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Size of the file in bytes.
    pub size: u64,
    /// The reads in their order.
    pub steps: Vec<WorkloadRead>,
}

impl Workload {
    /// Bytes read; repeated reads are counted each time.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.length).sum()
    }

    /// The duration if reads take no time.
    #[must_use]
    pub fn think(&self) -> Duration {
        self.steps.iter().map(|step| step.think).sum()
    }

    /// Creates a workload of these reads, with the same time of work before each.
    #[must_use]
    pub fn new(size: u64, reads: impl IntoIterator<Item = Range<u64>>, think: Duration) -> Self {
        let steps = reads.into_iter().map(|read| WorkloadRead {
            offset: read.start,
            length: read.end - read.start,
            think,
        });
        Self { size, steps: steps.collect() }
    }
}

/// Several readers in turn, each of which reads its share of the file from its beginning to its
/// end.
#[must_use]
pub fn interleaved(readers: u64, reads: u64, read_bytes: u64, think: Duration) -> Workload {
    let share = reads * read_bytes;
    let turns = (0..reads).flat_map(|read| (0..readers).map(move |who| (who, read)));
    let starts = turns.map(|(who, read)| who * share + read * read_bytes);
    Workload::new(readers * share, starts.map(|start| start..start + read_bytes), think)
}

/// Reads the first `read_bytes` of every `stride` bytes, at most `most` bytes at a time.
#[must_use]
pub fn skip(size: u64, stride: u64, read_bytes: u64, most: u64, think: Duration) -> Workload {
    let runs = (0..size / stride).map(|run| run * stride..run * stride + read_bytes);
    let reads = runs.flat_map(|run| {
        run.clone()
            .step_by(usize::try_from(most).unwrap_or(usize::MAX))
            .map(move |start| start..(start + most).min(run.end))
    });
    Workload::new(size, reads, think)
}

/// Reads at random offsets, of random lengths within `lengths`.
#[must_use]
pub fn random(
    size: u64,
    reads: usize,
    lengths: Range<u64>,
    think: Duration,
    seed: u64,
) -> Workload {
    let mut random = Random::new(seed);
    let reads: Vec<_> = (0..reads)
        .map(|_| {
            let length = lengths.start + random.next_u64() % (lengths.end - lengths.start);
            let start = random.next_u64() % (size - length);
            start..start + length
        })
        .collect();
    Workload::new(size, reads, think)
}

/// A skim: reads `entries` pieces near the beginning of each basket; the baskets of `columns`
/// columns follow one another.
#[must_use]
pub fn skim(
    size: u64,
    columns: u64,
    basket: u64,
    entries: u64,
    piece: u64,
    think: Duration,
) -> Workload {
    let clusters = size / (columns * basket);
    let baskets = (0..clusters).flat_map(|cluster| (0..columns).map(move |it| (cluster, it)));
    let reads = baskets.flat_map(|(cluster, column)| {
        let start = (cluster * columns + column) * basket;
        (0..entries).map(move |entry| {
            let at = start + entry * 3 * piece;
            at..at + piece
        })
    });
    Workload::new(size, reads, think)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_read_what_they_say() {
        let none = Duration::ZERO;
        let starts = |job: &Workload| job.steps.iter().map(|step| step.offset).collect::<Vec<_>>();
        assert_eq!(starts(&interleaved(2, 3, 10, none)), [0, 30, 10, 40, 20, 50]);
        assert_eq!(starts(&skip(200, 100, 25, 10, none)), [0, 10, 20, 100, 110, 120]);
        assert_eq!(skip(200, 100, 25, 10, none).bytes(), 50);
        assert_eq!(starts(&skim(400, 2, 100, 2, 10, none)), [0, 30, 100, 130, 200, 230, 300, 330]);
        assert!(random(100, 50, 1..10, none, 1).steps.iter().all(|step| step.range().end <= 100));
    }
}
