//! A read that waits for bytes in flight.

use hither_core::{Error, range};
use std::ops::Range;
use std::task::Waker;

/// A read that waits. It collects its bytes as they arrive, so that it does not depend on the cache
/// keeping them.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) collected: Collected,
    /// Bytes still to come.
    pub(super) missing: u64,
    /// The opening since which the version of the file must have been confirmed.
    pub(super) needs: u64,
    pub(super) outcome: Option<WaitOutcome>,
    pub(super) waker: Option<Waker>,
}

/// End of a wait.
#[derive(Debug)]
pub(crate) enum WaitOutcome {
    /// All bytes have arrived, except those beyond the end of the file.
    Ready,
    /// Some could not be fetched.
    Failed(Error),
    /// The file has changed since it was opened.
    Changed(Error),
    /// The open file that had requested them was closed; they have to be requested again.
    Again,
}

/// The bytes of some ranges.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Sorted, disjoint, and where the bytes of each begin in the buffer.
    ranges: Vec<(Range<u64>, usize)>,
    /// Ends where the last bytes were written: a file may be much shorter than a read of it, and
    /// memory that is not written is not used.
    buffer: Vec<u8>,
}

impl Collected {
    /// For `ranges`, sorted and disjoint, whose sum is known to fit into memory.
    pub(super) fn new(ranges: &[Range<u64>]) -> Self {
        let mut at = 0;
        let ranges = ranges
            .iter()
            .map(|range| {
                let begins = at;
                at += usize::try_from(range::len(range)).unwrap_or(0);
                (range.clone(), begins)
            })
            .collect();
        Self { ranges, buffer: Vec::with_capacity(at) }
    }

    /// The ranges, and where the bytes of each begin.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.ranges.iter().map(|(range, _)| range)
    }

    /// Takes the bytes at `offset`, as far as they are wanted.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len() as u64);
        let Self { ranges, buffer } = self;
        let first = ranges.partition_point(|(range, _)| range.end <= offset);
        for (range, at) in ranges.iter().skip(first) {
            if range.start >= end {
                break;
            }
            let both = range.start.max(offset)..range.end.min(end);
            let (Ok(from), Ok(to), Ok(len)) = (
                usize::try_from(both.start - offset),
                usize::try_from(both.start - range.start),
                usize::try_from(range::len(&both)),
            ) else {
                return;
            };
            let Some(source) = bytes.get(from..from + len) else { return };
            let start = at + to;
            if start >= buffer.len() {
                buffer.resize(start, 0);
                buffer.extend_from_slice(source);
                continue;
            }
            buffer.resize(buffer.len().max(start + len), 0);
            if let Some(target) = buffer.get_mut(start..start + len) {
                target.copy_from_slice(source);
            }
        }
    }

    /// All bytes.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.buffer
    }

    /// The bytes of `range`, which lies within one of the ranges.
    pub(crate) fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let at = self.ranges.partition_point(|(it, _)| it.end <= range.start);
        let (within, begins) = self.ranges.get(at)?;
        let from = begins + usize::try_from(range.start.checked_sub(within.start)?).ok()?;
        let len = usize::try_from(range::len(range)).ok()?;
        if range.end > within.end {
            return None;
        }
        self.buffer.get(from..from + len)
    }
}
