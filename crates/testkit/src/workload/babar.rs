//! A workload with the statistics of a `BaBar` job of 2006.
//!
//! Furano and others ("Latencies and data access", CHEP 2006, figure 2) counted the displacements
//! of a `BaBar` analysis job from one read to the next: most of them within 500,000 bytes in either
//! direction, the rest all over the file; the job needed 350 KB/s. This workload has these
//! properties for the same reasons as such a job.
//!
//! The file is a series of clusters of events, about 400 KB each, made of baskets of 100 bytes to 8
//! KB. The job goes from cluster to cluster and reads the baskets in the order in which its code
//! uses the columns, which is unrelated to their order in the file. Nearly all are read, each once.
//! One read in forty goes to a set of fixed regions (calibrations, indices), anywhere in the file;
//! the next read is back in the cluster, which makes two far displacements in forty.

use super::{Workload, WorkloadRead};
use hither_netem::random::Random;
use std::ops::Range;
use std::time::Duration;

/// Number of reads.
pub const BABAR_READS: usize = 100_000;
/// Size of the file in bytes.
pub const BABAR_SIZE: u64 = 1_000_000_000;

/// Bytes read per second, measured in 2006.
const RATE: f64 = 350_000.0;
/// Size of a cluster in bytes.
const CLUSTER: u64 = 400_000;
const SHORTEST: f64 = 100.0;
const MAX_LENGTH: f64 = 8192.0;
/// Fraction of a cluster's baskets that the job reads.
const READ_SHARE: f64 = 0.97;
/// Fraction of reads that go to a region.
const REGION_SHARE: f64 = 0.025;
const REGIONS: u64 = 40;
const REGION: u64 = 100_000;

/// Creates the workload; the same seed gives the same workload.
#[must_use]
pub fn babar(seed: u64) -> Workload {
    let mut random = Random::new(seed);
    let regions: Vec<u64> =
        (0..REGIONS).map(|_| random.next_u64() % (BABAR_SIZE - REGION)).collect();
    // The clusters that hold 100,000 reads are a sixth of the file, from a third of it on.
    let mut cluster = BABAR_SIZE / 3;
    let mut reads = Vec::with_capacity(BABAR_READS);
    while reads.len() < BABAR_READS {
        for basket in baskets(cluster, &mut random) {
            if random.chance(REGION_SHARE) {
                reads.push(piece(&regions, &mut random));
            }
            reads.push(basket);
        }
        cluster += CLUSTER;
    }
    reads.truncate(BABAR_READS);
    let mut steps = Vec::with_capacity(BABAR_READS);
    let mut before = 0;
    for read in reads {
        let length = read.end - read.start;
        steps.push(WorkloadRead { offset: read.start, length, think: think(before, &mut random) });
        before = length;
    }
    Workload { size: BABAR_SIZE, steps }
}

/// The reads of one cluster, in the order of the job.
fn baskets(start: u64, random: &mut Random) -> Vec<Range<u64>> {
    let mut baskets = Vec::new();
    let mut at = start;
    while at + 8192 <= start + CLUSTER {
        let end = at + length(random);
        if random.chance(READ_SHARE) {
            baskets.push(at..end);
        }
        at = end;
    }
    for i in (1..baskets.len()).rev() {
        let j = usize::try_from(random.next_u64() % (i as u64 + 1)).unwrap_or(0);
        baskets.swap(i, j);
    }
    baskets
}

fn piece(regions: &[u64], random: &mut Random) -> Range<u64> {
    let which = usize::try_from(random.next_u64() % REGIONS).unwrap_or(0);
    let length = length(random);
    let start = regions[which] + random.next_u64() % (REGION - length);
    start..start + length
}

/// A random length whose logarithm is uniformly distributed: most are small.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most MAX_LENGTH")]
fn length(random: &mut Random) -> u64 {
    (SHORTEST * (MAX_LENGTH / SHORTEST).powf(random.unit())) as u64
}

/// The time of work on this many bytes: 0.5 to 1.5 times the average.
fn think(bytes: u64, random: &mut Random) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let seconds = bytes as f64 / RATE * (0.5 + random.unit());
    Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displacements_are_those_of_2006() {
        let job = babar(1);
        assert_eq!((job.steps.len(), job.size), (BABAR_READS, BABAR_SIZE));
        assert_eq!(babar(1), job);
        assert!(job.steps.iter().all(|step| (100..=8192).contains(&step.length)));
        assert!(job.steps.iter().all(|step| step.range().end <= BABAR_SIZE));
        let near =
            job.steps.windows(2).filter(|two| two[0].offset.abs_diff(two[1].offset) <= 500_000);
        let share = near.count() as f64 / BABAR_READS as f64;
        assert!((0.94..0.96).contains(&share), "{share}");
        let rate = job.bytes() as f64 / job.think().as_secs_f64();
        assert!((0.98..1.02).contains(&(rate / RATE)), "{rate}");
    }
}
