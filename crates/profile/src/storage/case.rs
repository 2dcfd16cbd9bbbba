//! The measured cases: series of one direction, pattern and engine, in which the block size or the
//! number of requests in flight increases.
//!
//! Several requests are in flight either from one thread through `io_uring`, or from one thread
//! each. Direct requests (`O_DIRECT`) bypass the page cache and show the rate of the storage; most
//! programs, hither among them, use buffered requests.

use serde::Serialize;

/// The length of blocks at random offsets, in bytes: a page.
const PAGE_BYTES: u64 = 4 << 10;
/// The length of large blocks, in bytes.
const LARGE_BYTES: u64 = 1 << 20;

/// Cases that differ in one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Series {
    /// Sequential, one request at a time, by block size.
    BlockSize,
    /// Pages at random offsets, by requests in flight.
    QueueDepth,
    /// Sequential large blocks, by requests in flight.
    LargeQueueDepth,
    /// Pages at random offsets, by threads.
    Threads,
    /// Sequential large blocks through the page cache, by threads.
    BufferedThreads,
    /// Pages at random offsets through the page cache, by threads.
    BufferedRandom,
    /// The device below the file system, in the ranges of the file.
    Device,
}

/// The engine that keeps several requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// A thread for each request, with `pread` or `pwrite`.
    Threads,
    /// One thread, and a ring with an entry for each request.
    IoUring,
}

/// The direction of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the storage.
    Read,
    /// To the storage.
    Write,
}

/// The order of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Ascending offsets, one block after the other.
    Sequential,
    /// Each block once, in a random order.
    Random,
}

/// One case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Case {
    /// The series that it belongs to.
    pub series: Series,
    /// The engine of its requests.
    pub engine: Engine,
    /// True if requests bypass the page cache.
    pub direct: bool,
    /// The direction.
    pub direction: Direction,
    /// The order of offsets.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests in flight: the depth of the ring, or the number of threads.
    pub in_flight: usize,
}

/// The abilities of the storage, the kernel and the user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    pub(super) direct: bool,
    pub(super) io_uring: bool,
    /// A file can be written, not only a device read.
    pub(super) file: bool,
    /// The device below the file can be read.
    pub(super) device: bool,
}

impl Series {
    pub(super) const ALL: [Self; 7] = [
        Self::BlockSize,
        Self::QueueDepth,
        Self::LargeQueueDepth,
        Self::Device,
        Self::Threads,
        Self::BufferedThreads,
        Self::BufferedRandom,
    ];

    /// Pattern, block size and requests in flight of each point.
    fn points(self) -> Vec<(Pattern, u64, usize)> {
        let random = |depths: &[usize]| {
            depths.iter().map(|depth| (Pattern::Random, PAGE_BYTES, *depth)).collect()
        };
        let large = |depths: &[usize]| {
            depths.iter().map(|depth| (Pattern::Sequential, LARGE_BYTES, *depth)).collect()
        };
        match self {
            Self::BlockSize => [4, 16, 64, 256, 1024, 4096]
                .map(|kilobytes| (Pattern::Sequential, kilobytes << 10, 1))
                .to_vec(),
            Self::QueueDepth => random(&[1, 2, 4, 8, 16, 32, 64]),
            Self::LargeQueueDepth => large(&[1, 2, 4, 8, 16]),
            Self::Threads => random(&[1, 4, 16]),
            Self::BufferedThreads => large(&[1, 2, 4, 8]),
            Self::BufferedRandom => random(&[1, 16]),
            Self::Device => vec![
                (Pattern::Sequential, LARGE_BYTES, 8),
                (Pattern::Random, PAGE_BYTES, 1),
                (Pattern::Random, PAGE_BYTES, 32),
            ],
        }
    }

    /// Returns true if the series can be measured and adds information.
    fn is_of_use(self, can: Abilities) -> bool {
        match self {
            Self::BlockSize | Self::QueueDepth | Self::LargeQueueDepth => true,
            Self::Threads => can.file && can.direct && can.io_uring,
            Self::BufferedThreads | Self::BufferedRandom => can.file,
            Self::Device => can.device,
        }
    }
}

impl Case {
    /// The number that increases along the series.
    pub(super) fn at(&self) -> u64 {
        match self.series {
            Series::BlockSize => self.block_bytes,
            _ => self.in_flight as u64,
        }
    }

    /// Returns true if this case is `other` on the device instead of the file.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        Self { series: other.series, ..*self } == *other
    }
}

/// The cases to measure, in this order.
pub(super) fn plan(can: Abilities) -> Vec<Case> {
    let mut cases = Vec::new();
    for series in Series::ALL.into_iter().filter(|it| it.is_of_use(can)) {
        let is_buffered = matches!(series, Series::BufferedThreads | Series::BufferedRandom);
        let by_threads = is_buffered || series == Series::Threads || !can.io_uring;
        for (pattern, block_bytes, in_flight) in series.points() {
            for direction in [Direction::Read, Direction::Write] {
                if direction == Direction::Write && (series == Series::Device || !can.file) {
                    continue;
                }
                cases.push(Case {
                    series,
                    engine: if by_threads { Engine::Threads } else { Engine::IoUring },
                    direct: !is_buffered && can.direct,
                    direction,
                    pattern,
                    block_bytes,
                    in_flight,
                });
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_only_read() {
        let can = Abilities { direct: true, io_uring: true, file: false, device: false };
        let cases = plan(can);
        assert!(cases.iter().all(|it| it.direction == Direction::Read && it.direct));
        assert!(!cases.is_empty());
    }

    #[test]
    fn cases_on_the_device_are_also_measured_on_the_file() {
        let cases = plan(Abilities { direct: true, io_uring: true, file: true, device: true });
        let (device, file): (Vec<Case>, Vec<Case>) =
            cases.into_iter().partition(|it| it.series == Series::Device);
        assert!(device.iter().all(|below| file.iter().any(|case| below.is_below(case))));
        assert_eq!(device.len(), 3);
    }

    #[test]
    fn without_direct_requests_and_io_uring_nothing_needs_them() {
        let can = Abilities { direct: false, io_uring: false, file: true, device: false };
        let cases = plan(can);
        assert!(cases.iter().all(|it| it.engine == Engine::Threads && !it.direct));
        assert!(!cases.iter().any(|it| it.series == Series::Threads));
    }
}
