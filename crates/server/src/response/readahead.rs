//! Tells the kernel of what of a file will be read, some way before it is.
//!
//! A disk that is asked for one block after the other does nothing while that is handed on, and of many small pieces it can read
//! dozens at a time. So once something was not in memory, the kernel is told of all that comes, a window ahead of what is read,
//! until what it is told of turns out to be in memory. To tell takes time, too: it is done on threads that may wait.

use crate::connection::sendfile::is_page_cached;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

/// Bytes of the window, and ranges in it.
const MAX_BYTES: u64 = 16 << 20;
const MAX_RANGES: u64 = 512;
/// Bytes that are told at a time: of more, some kernels take the beginning alone.
const STEP_BYTES: u64 = 512 << 10;

/// See the module above. Positions count bytes of the ranges, one after the other.
#[derive(Debug)]
pub(crate) struct FadviseWindow {
    is_on: bool,
    window: u64,
    /// Up to where the kernel has been told, as a position and as a place in a range.
    told: u64,
    at: usize,
    within: u64,
}

impl FadviseWindow {
    /// For these ranges, none of which is empty.
    pub(crate) fn new(ranges: &[Range<u64>]) -> Self {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let each = bytes / (ranges.len() as u64).max(1);
        let window = each.saturating_mul(MAX_RANGES).min(MAX_BYTES);
        Self { is_on: false, window, told: 0, at: 0, within: 0 }
    }

    /// Whether something was not in memory a moment ago.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Tells of what lies from `position` on. It is known that this is not in memory.
    pub(crate) fn tell(
        &mut self,
        file: &File,
        ranges: &[Range<u64>],
        position: u64,
    ) -> io::Result<()> {
        while self.told < position && self.step(ranges).is_some() {}
        self.is_on = ranges
            .get(self.at)
            .is_none_or(|range| !is_page_cached(file, range.start.saturating_add(self.within)));
        while self.is_on && self.told < position.saturating_add(self.window) {
            let Some(step) = self.step(ranges) else { break };
            fadvise(file, step.start, NonZeroU64::new(step.end - step.start), Advice::WillNeed)?;
        }
        Ok(())
    }

    /// The next part of a range.
    fn step(&mut self, ranges: &[Range<u64>]) -> Option<Range<u64>> {
        let range = ranges.get(self.at)?;
        let start = range.start.saturating_add(self.within);
        let end = range.end.min(start.saturating_add(STEP_BYTES));
        self.told = self.told.saturating_add(end - start);
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
            prop_assert_eq!(ahead.told, lengths.iter().sum::<u64>());
            prop_assert_eq!(steps, ranges);
        }
    }

    #[test]
    fn nothing_is_told_beyond_the_window_and_nothing_twice() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100]).unwrap();
        // What lies beyond the end of the file is never in memory.
        let ranges = vec![1000..100_000_000];
        let mut ahead = FadviseWindow::new(&ranges);
        ahead.tell(&file, &ranges, 0).unwrap();
        assert!(ahead.is_on() && ahead.told == MAX_BYTES);
        ahead.tell(&file, &ranges, 1).unwrap();
        assert_eq!(ahead.told, MAX_BYTES + STEP_BYTES);
        ahead.tell(&file, &ranges, 50_000_000).unwrap();
        assert!(
            (50_000_000 + MAX_BYTES..50_000_001 + MAX_BYTES + STEP_BYTES).contains(&ahead.told)
        );
        ahead.tell(&file, &ranges, 99_999_000).unwrap();
        assert_eq!(ahead.told, 99_999_000);
    }

    #[test]
    fn it_ends_where_things_are_in_memory() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let ranges = vec![0..100_000];
        let mut ahead = FadviseWindow::new(&ranges);
        ahead.tell(&file, &ranges, 0).unwrap();
        assert_eq!(ahead.is_on(), !is_page_cached(&file, 0));
    }
}
