//! Statistics of one file in a trace.

use super::bins::{Bin, LinearBins, Logarithmic, PowerOfTwo};
use super::coverage::Coverage;
use crate::{CacheStatus, TracedRead};
use hither_core::range;
use serde::Serialize;
use std::time::Duration;

/// Statistics of the reads of a file, or of all files.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FileStatistics {
    /// The name of the file; empty for all files.
    pub name: String,
    /// Number of reads; a vector read counts as one.
    pub reads: u64,
    /// Number of reads with several ranges.
    pub vector_reads: u64,
    /// Number of ranges of all reads.
    pub ranges: u64,
    /// Bytes of all reads.
    pub bytes: u64,
    /// Bytes that were read at least once.
    pub distinct_bytes: u64,
    /// Reads that found all their bytes.
    pub present: u64,
    /// Reads of which some bytes were in flight, and none had to be requested.
    pub in_flight: u64,
    /// Partial hits: reads of which some bytes had to be requested.
    pub partial: u64,
    /// Misses: reads of which all bytes had to be requested.
    pub absent: u64,
    /// Bytes that had to be requested.
    pub absent_bytes: u64,
    /// Time from submission to completion, in seconds, summed over reads.
    pub waited_seconds: f64,
    /// The longest of these times.
    pub longest_wait_seconds: f64,
    /// Count of ranges by size in bytes; the limits are powers of two.
    pub sizes: Vec<Bin>,
    /// Distances from the end of a range to the start of the next one.
    pub displacements: Displacements,
    /// Ranges that follow each other without a gap.
    pub runs: Runs,
}

impl FileStatistics {
    /// Share of the bytes that had been read before, 0 to 1.
    #[must_use]
    pub fn reread_share(&self) -> f64 {
        share(self.bytes.saturating_sub(self.distinct_bytes), self.bytes)
    }

    /// Share of the reads for which bytes had to be requested, 0 to 1.
    #[must_use]
    pub fn miss_share(&self) -> f64 {
        share(self.partial.saturating_add(self.absent), self.reads)
    }
}

/// Distance from the end of a range to the start of the next one, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Displacements {
    /// Number of distances: in each file, one less than the number of ranges.
    pub count: u64,
    /// Number of distances that are 0.
    pub sequential: u64,
    /// Number of distances below 0.
    pub backward: u64,
    /// Number of distances of at most 500,000 bytes in either direction.
    pub near: u64,
    /// Histogram with the limits 1, 2, 5, 10, ... in either direction, and 0.
    pub logarithmic: Vec<Bin>,
    /// Histogram with bins of 10,000 bytes, the middle one around 0.
    pub plain: LinearBins,
}

impl Displacements {
    /// Share of the distances of at most 500,000 bytes, 0 to 1.
    #[must_use]
    pub fn near_share(&self) -> f64 {
        share(self.near, self.count)
    }
}

/// Runs: sequences of ranges that follow each other without a gap. A single range is a run of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Runs {
    /// Number of runs.
    pub count: u64,
    /// Number of ranges of the longest run.
    pub longest_ranges: u64,
    /// Number of bytes of the largest run.
    pub longest_bytes: u64,
    /// Count of runs by number of ranges; the limits are powers of two.
    pub lengths: Vec<Bin>,
}

/// Maximum of a small distance, in bytes: the interval of figure 2 (see the module above).
const NEAR_BYTES: u64 = 500_000;

/// Statistics of a file so far.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// The counts; [`Self::statistics`] sets the name, the times and the histograms.
    statistics: FileStatistics,
    waited: Duration,
    longest_wait: Duration,
    coverage: Coverage,
    sizes: PowerOfTwo,
    logarithmic: Logarithmic,
    lengths: PowerOfTwo,
    /// The end of the last range.
    end: Option<u64>,
    run_ranges: u64,
    run_bytes: u64,
}

impl FileState {
    /// Adds a read, which was submitted after all those added before.
    pub(super) fn add(&mut self, read: &TracedRead) {
        let bytes = read.bytes();
        let counts = &mut self.statistics;
        counts.reads += 1;
        counts.vector_reads += u64::from(read.ranges.len() > 1);
        counts.ranges += read.ranges.len() as u64;
        counts.bytes = counts.bytes.saturating_add(bytes);
        counts.absent_bytes = counts.absent_bytes.saturating_add(read.absent_bytes);
        *match read.found {
            CacheStatus::Hit => &mut counts.present,
            CacheStatus::InFlight => &mut counts.in_flight,
            CacheStatus::Miss if read.absent_bytes < bytes => &mut counts.partial,
            CacheStatus::Miss => &mut counts.absent,
        } += 1;
        let wait = read.times.completed.saturating_sub(read.times.submitted);
        self.waited = self.waited.saturating_add(wait);
        self.longest_wait = self.longest_wait.max(wait);
        for range in &read.ranges {
            let bytes = range::len(range);
            self.sizes.add(bytes);
            self.coverage.add(range.clone());
            self.displace(range.start);
            self.end = Some(range.end);
            self.run_ranges += 1;
            self.run_bytes = self.run_bytes.saturating_add(bytes);
        }
    }

    /// Adds the displacement of a range that begins at `start`.
    fn displace(&mut self, start: u64) {
        let Some(end) = self.end else { return };
        let all = &mut self.statistics.displacements;
        let displacement = i128::from(start) - i128::from(end);
        let limit = i64::MAX;
        let displacement =
            i64::try_from(displacement).unwrap_or(if start < end { -limit } else { limit });
        all.count += 1;
        all.sequential += u64::from(displacement == 0);
        all.backward += u64::from(displacement < 0);
        all.near += u64::from(displacement.unsigned_abs() <= NEAR_BYTES);
        all.plain.add(displacement);
        self.logarithmic.add(displacement);
        if displacement != 0 {
            self.end_run();
        }
    }

    fn end_run(&mut self) {
        let ranges = std::mem::take(&mut self.run_ranges);
        let bytes = std::mem::take(&mut self.run_bytes);
        if ranges > 0 {
            let runs = &mut self.statistics.runs;
            runs.count += 1;
            runs.longest_ranges = runs.longest_ranges.max(ranges);
            runs.longest_bytes = runs.longest_bytes.max(bytes);
            self.lengths.add(ranges);
        }
    }

    /// Ends the statistics after the last read.
    pub(super) fn end(&mut self) {
        self.end_run();
        self.statistics.distinct_bytes = self.coverage.bytes();
    }

    /// Adds the statistics of another file, which has ended.
    pub(super) fn join(&mut self, other: &Self) {
        let counts = &mut self.statistics;
        let more = &other.statistics;
        counts.reads += more.reads;
        counts.vector_reads += more.vector_reads;
        counts.ranges += more.ranges;
        counts.bytes = counts.bytes.saturating_add(more.bytes);
        counts.present += more.present;
        counts.in_flight += more.in_flight;
        counts.partial += more.partial;
        counts.absent += more.absent;
        counts.absent_bytes = counts.absent_bytes.saturating_add(more.absent_bytes);
        counts.distinct_bytes = counts.distinct_bytes.saturating_add(more.distinct_bytes);
        self.waited = self.waited.saturating_add(other.waited);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.sizes.join(&other.sizes);
        let all = &mut counts.displacements;
        let more = &other.statistics.displacements;
        all.count += more.count;
        all.sequential += more.sequential;
        all.backward += more.backward;
        all.near += more.near;
        all.plain.join(&more.plain);
        self.logarithmic.join(&other.logarithmic);
        let runs = &mut counts.runs;
        let more = &other.statistics.runs;
        runs.count += more.count;
        runs.longest_ranges = runs.longest_ranges.max(more.longest_ranges);
        runs.longest_bytes = runs.longest_bytes.max(more.longest_bytes);
        self.lengths.join(&other.lengths);
    }

    /// Converts the state to statistics with a name.
    pub(super) fn statistics(self, name: String) -> FileStatistics {
        let statistics = self.statistics;
        FileStatistics {
            name,
            waited_seconds: self.waited.as_secs_f64(),
            longest_wait_seconds: self.longest_wait.as_secs_f64(),
            sizes: self.sizes.bins(),
            displacements: Displacements {
                logarithmic: self.logarithmic.bins(),
                ..statistics.displacements
            },
            runs: Runs { lengths: self.lengths.bins(), ..statistics.runs },
            ..statistics
        }
    }
}

/// `part` as a share of `whole`; 0 if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
