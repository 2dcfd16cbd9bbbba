//! Advises the kernel which parts of a file will be read soon (`posix_fadvise`).
//!
//! A disk that gets one request after the other idles while its data is passed on, and could read
//! dozens of small ranges at a time. So once data was not in memory, the kernel is advised of the
//! ranges that follow, a window ahead of the reads, until advised ranges turn out to be in memory.
//! The advice itself takes time: it is given on threads that may wait for the disk.

use crate::response::page_cache::is_page_cached;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

/// The maximum length of the window, and of ranges in it.
const MAX_BYTES: u64 = 16 << 20;
const MAX_RANGES: u64 = 512;
/// Bytes advised at a time: of more, some kernels read only the beginning.
const STEP_BYTES: u64 = 512 << 10;

/// The advised part of the ranges. Positions count bytes of the ranges, one after the other.
#[derive(Debug)]
pub(crate) struct FadviseWindow {
    is_on: bool,
    window: u64,
    /// The end of the advised part, as a position and as a range with an offset within it.
    advised: u64,
    at: usize,
    within: u64,
}

impl FadviseWindow {
    /// For these ranges, none of which is empty.
    pub(crate) fn new(ranges: &[Range<u64>]) -> Self {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let each = bytes / (ranges.len() as u64).max(1);
        let window = each.saturating_mul(MAX_RANGES).min(MAX_BYTES);
        Self { is_on: false, window, advised: 0, at: 0, within: 0 }
    }

    /// Returns true if data was not in memory at the last check.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Advises the kernel of the ranges from `position` on, whose data is not in memory.
    pub(crate) fn advise(
        &mut self,
        file: &File,
        ranges: &[Range<u64>],
        position: u64,
    ) -> io::Result<()> {
        while self.advised < position && self.step(ranges).is_some() {}
        self.is_on = ranges
            .get(self.at)
            .is_none_or(|range| !is_page_cached(file, range.start.saturating_add(self.within)));
        while self.is_on && self.advised < position.saturating_add(self.window) {
            let Some(step) = self.step(ranges) else { break };
            fadvise(file, step.start, NonZeroU64::new(step.end - step.start), Advice::WillNeed)?;
        }
        Ok(())
    }

    /// Returns the next part of a range.
    fn step(&mut self, ranges: &[Range<u64>]) -> Option<Range<u64>> {
        let range = ranges.get(self.at)?;
        let start = range.start.saturating_add(self.within);
        let end = range.end.min(start.saturating_add(STEP_BYTES));
        self.advised = self.advised.saturating_add(end - start);
        self.within = self.within.saturating_add(end - start);
        if end == range.end {
            (self.at, self.within) = (self.at + 1, 0);
        }
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    proptest! {
        #[test]
        fn steps_are_the_ranges(lengths in prop::collection::vec(1..3 * STEP_BYTES, 1..20)) {
            let mut end = 7;
            let ranges: Vec<_> = lengths.iter().map(|length| {
                let range = end..end + length;
                end = range.end + 1;
                range
            }).collect();
            let mut ahead = FadviseWindow::new(&ranges);
            let mut steps: Vec<Range<u64>> = Vec::new();
            while let Some(step) = ahead.step(&ranges) {
                prop_assert!(!step.is_empty() && step.end - step.start <= STEP_BYTES);
                match steps.last_mut() {
                    Some(last) if last.end == step.start => last.end = step.end,
                    _ => steps.push(step),
                }
            }
            prop_assert_eq!(ahead.advised, lengths.iter().sum::<u64>());
            prop_assert_eq!(steps, ranges);
        }
    }

    #[test]
    fn the_window_bounds_the_advice_and_nothing_is_advised_twice() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100]).unwrap();
        // Data beyond the end of the file is never in memory.
        let ranges = vec![1000..100_000_000];
        let mut ahead = FadviseWindow::new(&ranges);
        ahead.advise(&file, &ranges, 0).unwrap();
        assert!(ahead.is_on() && ahead.advised == MAX_BYTES);
        ahead.advise(&file, &ranges, 1).unwrap();
        assert_eq!(ahead.advised, MAX_BYTES + STEP_BYTES);
        ahead.advise(&file, &ranges, 50_000_000).unwrap();
        let end = 50_000_000 + MAX_BYTES;
        assert!((end..end + 1 + STEP_BYTES).contains(&ahead.advised));
        ahead.advise(&file, &ranges, 99_999_000).unwrap();
        assert_eq!(ahead.advised, 99_999_000);
    }

    #[test]
    fn advice_ends_where_data_is_in_memory() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let ranges = vec![0..100_000];
        let mut ahead = FadviseWindow::new(&ranges);
        ahead.advise(&file, &ranges, 0).unwrap();
        assert_eq!(ahead.is_on(), !is_page_cached(&file, 0));
    }
}
