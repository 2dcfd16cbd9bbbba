//! The bytes that were read at least once.

use hither_core::range;
use std::ops::Range;

/// The union of ranges. Recent ranges are kept unsorted, and merged with the others once they are
/// as many, so that adding a range takes amortized logarithmic time, and memory is proportional to
/// the number of separate ranges.
#[derive(Debug, Clone, Default)]
pub(super) struct Coverage {
    joined: Vec<Range<u64>>,
    recent: Vec<Range<u64>>,
}

/// Minimum number of ranges before they are merged.
const FEWEST: usize = 1 << 10;

impl Coverage {
    pub(super) fn add(&mut self, range: Range<u64>) {
        match self.recent.last_mut() {
            // sequential reads need no new entry
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.recent.push(range),
        }
        if self.recent.len() >= FEWEST.max(self.joined.len()) {
            self.tidy();
        }
    }

    /// Number of bytes covered.
    pub(super) fn bytes(&mut self) -> u64 {
        self.tidy();
        range::total_bytes(&self.joined)
    }

    fn tidy(&mut self) {
        self.joined.append(&mut self.recent);
        self.joined = range::merged(&self.joined, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_once() {
        let mut coverage = Coverage::default();
        for i in 0..10_000_u64 {
            coverage.add(i * 7919 % 10_007 * 3..i * 7919 % 10_007 * 3 + 2);
        }
        assert_eq!(coverage.bytes(), 20_000);
        (0..30_021).for_each(|at| coverage.add(at..at + 1));
        assert_eq!(coverage.bytes(), 30_021);
        assert_eq!(coverage.joined.len(), 1);
    }
}
