//! One running case: blocks read or written until the time is over.
//!
//! All threads take the number of the next block from one counter, so no block is used twice before
//! all were used once. A random order is a permutation of the blocks: a block that was read is in
//! the page cache, so reading it again would not measure the storage.

use super::case::{Case, Direction, Engine, Pattern};
use super::ring;
use crate::profile::monotonic;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The alignment of buffers, in bytes: no current device requires more.
pub(super) const ALIGNMENT: usize = 4096;

/// The ranges of blocks in a file or on a device, in bytes.
#[derive(Debug, Clone)]
pub(super) struct Spans(pub(super) Vec<Range<u64>>);

impl Spans {
    /// The number of whole blocks.
    pub(super) fn blocks(&self, block_bytes: u64) -> u64 {
        self.0.iter().map(|span| (span.end - span.start) / block_bytes).sum()
    }

    fn offset(&self, mut index: u64, block_bytes: u64) -> Option<u64> {
        for span in &self.0 {
            let blocks = (span.end - span.start) / block_bytes;
            if index < blocks {
                return Some(span.start + index * block_bytes);
            }
            index -= blocks;
        }
        None
    }
}

/// The end of a case, and its next operation.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    next: AtomicU64,
    limit: u64,
    until: Duration,
    stop: &'a AtomicBool,
}

impl<'a> Turns<'a> {
    /// Operations from now on, until `time` has passed, at most `limit`.
    pub(super) fn new(time: Duration, limit: u64, stop: &'a AtomicBool) -> Self {
        Self { next: AtomicU64::new(0), limit, until: monotonic() + time, stop }
    }

    /// The number of the next operation; none at the end.
    pub(super) fn take(&self) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) || monotonic() >= self.until {
            return None;
        }
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < self.limit)
    }
}

/// Completed operations.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Done {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// A case with its file.
#[derive(Debug)]
pub(super) struct Workload<'a> {
    pub(super) case: Case,
    pub(super) file: &'a File,
    spans: &'a Spans,
    blocks: u64,
}

impl<'a> Workload<'a> {
    pub(super) fn new(case: Case, file: &'a File, spans: &'a Spans) -> Self {
        Self { case, file, spans, blocks: spans.blocks(case.block_bytes) }
    }

    /// Reads or writes at most `limit` blocks until `time` has passed. At the end of the measured
    /// time, bytes written through the page cache or a cache of the device are on the storage.
    pub(super) fn run(&self, time: Duration, limit: u64, stop: &AtomicBool) -> Result<Done> {
        let memory = (0..self.case.in_flight).map(|_| Block::new(self.case.block_bytes));
        let memory = memory.collect::<Result<Vec<_>>>()?;
        let began = monotonic();
        let turns = Turns::new(time, limit, stop);
        let mut done = match self.case.engine {
            Engine::IoUring => ring::run(self, &turns, memory)?,
            Engine::Threads => in_threads(memory, |mut block| {
                let mut done = Done::default();
                while let Some(offset) = self.next_offset(&turns) {
                    done.bytes += match self.case.direction {
                        Direction::Read => self.file.read_at(block.bytes(), offset)?,
                        Direction::Write => self.file.write_at(block.bytes(), offset)?,
                    } as u64;
                    done.operations += 1;
                }
                Ok(done)
            })?,
        };
        if self.case.direction == Direction::Write {
            self.file.sync_data()?;
        }
        if done.operations > 0 && done.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        done.seconds = (monotonic() - began).as_secs_f64();
        Ok(done)
    }

    /// The offset of the next block, in bytes; none at the end.
    pub(super) fn next_offset(&self, turns: &Turns<'_>) -> Option<u64> {
        let index = turns.take()?.checked_rem(self.blocks)?;
        let index = match self.case.pattern {
            Pattern::Sequential => index,
            Pattern::Random => shuffled(index, self.blocks),
        };
        self.spans.offset(index, self.case.block_bytes)
    }
}

/// Runs `work` in a thread for each of `memory`; returns the sums of their results, without the
/// time.
pub(super) fn in_threads(
    memory: Vec<Block>,
    work: impl Fn(Block) -> Result<Done> + Sync,
) -> Result<Done> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |block| scope.spawn(move || work(block));
        let running: Vec<_> = memory.into_iter().map(start).collect();
        let mut all = Done::default();
        for thread in running {
            let done = thread.join().map_err(|_| Error::other("a thread panicked"))??;
            all.operations += done.operations;
            all.bytes += done.bytes;
        }
        Ok(all)
    })
}

/// The position of `index` in a random order of `0..count`, which is the same at each call.
///
/// Multiplications by odd numbers and shifted exclusive-ors are bijections of the numbers of the
/// same bit length; they are applied repeatedly until the result is below `count`.
fn shuffled(index: u64, count: u64) -> u64 {
    let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(2);
    let mask = u64::MAX >> (u64::BITS - bits);
    let mut at = index;
    loop {
        for factor in [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            at = at.wrapping_mul(factor).wrapping_add(factor >> 7) & mask;
            at ^= at >> (bits / 2);
        }
        if at < count {
            return at;
        }
    }
}

/// Memory for a block, aligned for direct requests, with incompressible bytes.
#[derive(Debug)]
pub(super) struct Block {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    pub(super) fn new(bytes: u64) -> Result<Self> {
        let length = usize::try_from(bytes).map_err(Error::other)?;
        let mut memory = vec![0; length + ALIGNMENT];
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for word in memory.chunks_exact_mut(size_of::<u64>()) {
            // Xorshift (Marsaglia, 2003).
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            word.copy_from_slice(&random.to_le_bytes());
        }
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Ok(Self { memory, start, length })
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..self.start + self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_random_order_has_each_block_once(count in 1_u64..3000) {
            let mut order: Vec<_> = (0..count).map(|index| shuffled(index, count)).collect();
            order.sort_unstable();
            prop_assert!(order.into_iter().eq(0..count));
        }
    }

    #[test]
    fn a_random_order_is_not_sequential() {
        let order: Vec<_> = (0..4096).map(|index| shuffled(index, 4096)).collect();
        let near = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 8).count();
        assert!(near < 100, "{near} of 4096 follow each other");
    }

    #[test]
    fn blocks_lie_within_spans() {
        let spans = Spans(vec![0..10, 100..108, 200..203]);
        assert_eq!(spans.blocks(4), 4);
        let offsets: Vec<_> = (0..5).map(|index| spans.offset(index, 4)).collect();
        assert_eq!(offsets, [Some(0), Some(4), Some(100), Some(104), None]);
    }
}
