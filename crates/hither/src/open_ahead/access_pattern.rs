//! The access pattern of a folder: the ranges that a program reads of each of its files.
//!
//! The files of a dataset are written by one program and read by another, in a loop: the first read
//! of each file lies at much the same offset, and so do the second and the third. The reads of a
//! few files therefore predict the reads of the next, which are fetched when that file is opened
//! ahead. Reads are compared by their number within a file: the hull of all reads with one number
//! is kept twice, as offsets and as distances from the end. The shorter hull is prefetched, with a
//! margin where the offsets differ. A hull longer than [`MAX_RANGE_BYTES`] is not prefetched.
//!
//! A pattern needs two files. It is suspended when the files that were dropped without a read of
//! their prefetched ranges outnumber the others by more than [`MAX_WASTED`].

use std::ops::Range;

/// The largest number of reads per file that are compared.
pub(crate) const MAX_READS: usize = 16;
/// The largest number of bytes prefetched for one read.
const MAX_RANGE_BYTES: u64 = 64 << 10;
/// The largest number of bytes prefetched for one file.
const MAX_PREFETCH_BYTES: u64 = 256 << 10;
/// The longest tail that is requested of a file of unknown size.
const MAX_TAIL_BYTES: u64 = 64 << 10;
/// The number of files that make a pattern.
const MIN_FILES: u32 = 2;
/// The largest surplus of files whose prefetched ranges were not read.
const MAX_WASTED: u32 = 16;

/// The access pattern of one folder.
#[derive(Debug, Default)]
pub(crate) struct AccessPattern {
    reads: Vec<ReadHulls>,
    useful: u32,
    wasted: u32,
}

/// The reads that have one number within their files.
#[derive(Debug, Default)]
struct ReadHulls {
    files: u32,
    /// The hull of their offsets.
    from_start: Option<Range<u64>>,
    /// The hull of their distances from the end of the file, start and end exchanged.
    from_end: Option<Range<u64>>,
    /// The hull that is prefetched of other files.
    prefetch: Option<Hull>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hull {
    FromStart(Range<u64>),
    FromEnd(Range<u64>),
}

/// The ranges to prefetch of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PrefetchRanges {
    pub(crate) ranges: Vec<Range<u64>>,
    /// The bytes to request of the end of a file of unknown size.
    pub(crate) tail: u64,
}

impl AccessPattern {
    /// Records read number `nth` of a file. Returns true if the ranges to prefetch have changed.
    pub(crate) fn record(&mut self, nth: usize, range: &Range<u64>, size: Option<u64>) -> bool {
        if nth >= MAX_READS || range.is_empty() {
            return false;
        }
        if self.reads.len() <= nth {
            self.reads.resize_with(nth + 1, ReadHulls::default);
        }
        self.reads.get_mut(nth).is_some_and(|read| read.record(range, size))
    }

    /// The ranges to prefetch of a file of this size; `None` if the size is unknown.
    pub(crate) fn prefetch_ranges(&self, size: Option<u64>) -> PrefetchRanges {
        let mut wanted = PrefetchRanges::default();
        if self.wasted > self.useful.saturating_add(MAX_WASTED) {
            return wanted;
        }
        let mut left = MAX_PREFETCH_BYTES;
        for hull in self.reads.iter().filter_map(|read| read.prefetch.as_ref()) {
            let range = match (hull, size) {
                (Hull::FromStart(range), Some(size)) => range.start.min(size)..range.end.min(size),
                (Hull::FromStart(range), None) => range.clone(),
                (Hull::FromEnd(back), Some(size)) => {
                    size.saturating_sub(back.end)..size.saturating_sub(back.start)
                }
                (Hull::FromEnd(back), None) => {
                    if back.end <= MAX_TAIL_BYTES {
                        wanted.tail = wanted.tail.max(back.end);
                    }
                    continue;
                }
            };
            let bytes = range.end - range.start;
            if bytes > 0 && bytes <= left {
                left -= bytes;
                wanted.ranges.push(range);
            }
        }
        wanted
    }

    /// Records that a file with prefetched ranges was dropped, and whether one of them was read.
    pub(crate) fn record_drop(&mut self, useful: bool) {
        let counter = if useful { &mut self.useful } else { &mut self.wasted };
        *counter = counter.saturating_add(1);
    }
}

impl ReadHulls {
    fn record(&mut self, range: &Range<u64>, size: Option<u64>) -> bool {
        self.files = self.files.saturating_add(1);
        widen(&mut self.from_start, range.clone());
        let back = size.filter(|size| range.end <= *size);
        match back.map(|size| size - range.end..size - range.start) {
            Some(back) => widen(&mut self.from_end, back),
            None => self.from_end = None,
        }
        let covered = match &self.prefetch {
            Some(Hull::FromStart(hull)) => hull.start <= range.start && range.end <= hull.end,
            Some(Hull::FromEnd(hull)) => size.is_some_and(|size| {
                size.saturating_sub(hull.end) <= range.start
                    && range.end <= size.saturating_sub(hull.start)
            }),
            None => false,
        };
        if self.files < MIN_FILES || covered {
            return false;
        }
        let length = range.end - range.start;
        let hulls = [
            self.from_start.as_ref().map(|hull| Hull::FromStart(with_margin(hull, length))),
            self.from_end.as_ref().map(|hull| Hull::FromEnd(with_margin(hull, length))),
        ];
        let shortest = hulls.into_iter().flatten().min_by_key(Hull::bytes);
        let shortest = shortest.filter(|hull| hull.bytes() <= MAX_RANGE_BYTES);
        let before = std::mem::replace(&mut self.prefetch, shortest);
        self.prefetch.is_some() && self.prefetch != before
    }
}

impl Hull {
    fn bytes(&self) -> u64 {
        match self {
            Self::FromStart(range) | Self::FromEnd(range) => range.end - range.start,
        }
    }
}

fn widen(hull: &mut Option<Range<u64>>, range: Range<u64>) {
    *hull = Some(match hull.take() {
        Some(hull) => hull.start.min(range.start)..hull.end.max(range.end),
        None => range,
    });
}

/// A hull of reads of about `length` bytes, widened on both sides by half of its surplus length.
fn with_margin(hull: &Range<u64>, length: u64) -> Range<u64> {
    let margin = (hull.end - hull.start).saturating_sub(length) / 2;
    hull.start.saturating_sub(margin)..hull.end.saturating_add(margin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_files_make_a_pattern_of_the_shorter_hull() {
        let mut pattern = AccessPattern::default();
        assert!(!pattern.record(0, &(1_000..1_100), Some(50_000)));
        assert!(!pattern.record(1, &(49_000..49_100), Some(50_000)));
        assert_eq!(pattern.prefetch_ranges(Some(40_000)), PrefetchRanges::default());
        assert!(pattern.record(0, &(1_000..1_100), Some(60_000)));
        assert!(pattern.record(1, &(59_000..59_100), Some(60_000)));
        let ranges = vec![1_000..1_100, 39_000..39_100];
        assert_eq!(pattern.prefetch_ranges(Some(40_000)), PrefetchRanges { ranges, tail: 0 });
        assert_eq!(
            pattern.prefetch_ranges(None),
            PrefetchRanges { ranges: vec![1_000..1_100], tail: 1_000 }
        );
        assert!(!pattern.record(0, &(1_050..1_060), Some(60_000)));
    }

    #[test]
    fn a_pattern_widens_until_its_hull_is_too_long() {
        let mut pattern = AccessPattern::default();
        pattern.record(0, &(10_000..10_100), Some(1 << 20));
        assert!(pattern.record(0, &(10_200..10_300), Some(3 << 20)));
        assert_eq!(pattern.prefetch_ranges(Some(1 << 20)).ranges, [9_900..10_400]);
        assert!(!pattern.record(0, &(10_300..10_400), Some(2 << 20)));
        assert!(pattern.record(0, &(10_400..10_500), Some(4 << 20)));
        assert!(!pattern.record(0, &(500_000..500_100), Some(5 << 20)));
        assert_eq!(pattern.prefetch_ranges(Some(1 << 20)), PrefetchRanges::default());
    }

    #[test]
    fn a_pattern_is_suspended_while_its_ranges_are_not_read() {
        let mut pattern = AccessPattern::default();
        (0..2).for_each(|_| _ = pattern.record(0, &(0..100), None));
        (0..MAX_WASTED).for_each(|_| pattern.record_drop(false));
        assert_eq!(pattern.prefetch_ranges(None).ranges, [0..100]);
        pattern.record_drop(false);
        assert_eq!(pattern.prefetch_ranges(None), PrefetchRanges::default());
        pattern.record_drop(true);
        assert_eq!(pattern.prefetch_ranges(None).ranges, [0..100]);
    }

    proptest! {
        #[test]
        fn prefetched_ranges_lie_in_the_file_and_are_bounded(
            reads in prop::collection::vec((0..20_usize, any::<u32>(), 1..100_000_u64, any::<u32>()), 0..60),
            size in any::<u32>(),
        ) {
            let mut pattern = AccessPattern::default();
            for (nth, at, length, size) in reads {
                let at = u64::from(at);
                pattern.record(nth, &(at..at + length), Some(u64::from(size)));
            }
            let size = u64::from(size);
            let wanted = pattern.prefetch_ranges(Some(size));
            prop_assert!(wanted.ranges.iter().all(|range| range.start < range.end && range.end <= size));
            let bytes: u64 = wanted.ranges.iter().map(|range| range.end - range.start).sum();
            prop_assert!(bytes <= MAX_PREFETCH_BYTES && pattern.prefetch_ranges(None).tail <= MAX_TAIL_BYTES);
        }
    }
}
