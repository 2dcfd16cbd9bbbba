//! A run of bytes that is present, and the parts of it that have been read.

use super::eviction_policy::Class;
use hither_core::range;
use std::ops::Range;

/// Bytes of a file, in memory of their own.
#[derive(Debug)]
pub(super) struct Extent {
    pub(super) bytes: Vec<u8>,
    /// Invariant: sorted, disjoint, apart, within the bytes; at most [`MAX_RUNS`].
    read: Vec<Range<u32>>,
    /// Their sum.
    read_bytes: u64,
    pub(super) class: Class,
    /// Distinguishes its slot in a queue from slots that it has left.
    pub(super) stamp: u64,
    /// Number of repeated reads of its bytes, up to [`MAX_AGAIN`].
    pub(super) again: u8,
}

/// No extent crosses a multiple of this many bytes: small enough that a piece that is read
/// repeatedly does not keep many other bytes, large enough that a gigabyte has some thousand of
/// them.
pub(super) const CELL_BYTES: u64 = 128 << 10;

/// Maximum runs of read bytes per extent; beyond that the smallest gap between two counts as read.
/// More would take more memory than the bytes.
const MAX_RUNS: usize = 64;

/// Maximum of [`Extent::again`], as in S3-FIFO.
const MAX_AGAIN: u8 = 3;

impl Extent {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            read: Vec::new(),
            read_bytes: 0,
            class: Class::Ahead,
            stamp: 0,
            again: 0,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes that have not been read.
    pub(super) fn unread_bytes(&self) -> u64 {
        self.len() - self.read_bytes
    }

    /// Records a read of `range` of it; returns the number of bytes read for the first time.
    pub(super) fn touch(&mut self, range: &Range<u64>) -> u64 {
        let (Ok(start), Ok(end)) = (u32::try_from(range.start), u32::try_from(range.end)) else {
            return 0;
        };
        let run = start..end;
        // Bytes that are read repeatedly lie within one run.
        let at = self.read.partition_point(|it| it.end < run.end);
        let known = self.read.get(at).is_some_and(|it| it.start <= run.start);
        let fresh = if known { 0 } else { self.add_run(run) };
        self.read_bytes += fresh;
        if fresh < range::len(range) {
            self.again = (self.again + 1).min(MAX_AGAIN);
        }
        fresh
    }

    /// Adds a run of read bytes; returns the number of those not read before.
    fn add_run(&mut self, mut run: Range<u32>) -> u64 {
        // All runs from `first` to `last` overlap or touch the new one.
        let first = self.read.partition_point(|it| it.end < run.start);
        let last = self.read.partition_point(|it| it.start <= run.end);
        let overlapped = self.read.get(first..last).unwrap_or_default();
        if let (Some(left), Some(right)) = (overlapped.first(), overlapped.last()) {
            run = run.start.min(left.start)..run.end.max(right.end);
        }
        let before: u32 = overlapped.iter().map(|it| it.end - it.start).sum();
        let fresh = u64::from(run.end - run.start - before);
        if last == first + 1 {
            // The most frequent case, in place.
            if let Some(only) = self.read.get_mut(first) {
                *only = run;
            }
            return fresh;
        }
        self.read.splice(first..last, [run]);
        if self.read.len() > MAX_RUNS { fresh + self.close_smallest_gap() } else { fresh }
    }

    /// Closes the smallest gap between two runs; returns its length.
    fn close_smallest_gap(&mut self) -> u64 {
        let gap = |pair: &[Range<u32>]| match pair {
            [left, right] => right.start - left.end,
            _ => u32::MAX,
        };
        let smallest = self.read.windows(2).enumerate().min_by_key(|(_, pair)| gap(pair));
        let Some(at) = smallest.map(|(at, _)| at) else { return 0 };
        let right = self.read.remove(at + 1);
        let Some(left) = self.read.get_mut(at) else { return 0 };
        let gap = right.start - left.end;
        left.end = right.end;
        u64::from(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_reads_are_counted_once(reads in prop::collection::vec((0u64..400, 1u64..60), 1..60)) {
            let mut extent = Extent::new(0);
            extent.bytes = vec![0; 500];
            let mut model = vec![false; 500];
            for (start, len) in reads {
                let range = start..start + len;
                let cells = &mut model[usize::try_from(start).unwrap()..usize::try_from(start + len).unwrap()];
                let fresh = cells.iter().filter(|&&read| !read).count() as u64;
                cells.fill(true);
                prop_assert_eq!(extent.touch(&range), fresh);
            }
            prop_assert_eq!(extent.unread_bytes(), model.iter().filter(|&&read| !read).count() as u64);
        }
    }

    #[test]
    fn scattered_reads_take_little_memory() {
        let mut extent = Extent::new(0);
        extent.bytes = vec![0; 100_000];
        for i in 0..1000 {
            extent.touch(&(i * 100..i * 100 + 1));
        }
        assert_eq!(extent.read.len(), MAX_RUNS);
    }
}
