//! What a program reads of each file of a dataset: the same places, file after file.
//!
//! Files of a dataset are made by one program and read by another, in a loop: the first read of each is at much the same
//! place, and so are the second and the third. What was read of a few files therefore tells what will be read of the
//! next, and opening them brings it along. Reads are compared by their number within a file: of those with the same
//! number the hull is taken, once as offsets and once as distances from the end, and the shorter hull is fetched of the
//! files that follow, a little wider where offsets differ. A hull that becomes too long ([`MAX_RANGE_BYTES`]) is none.
//!
//! Two files make a habit. It is given up when more files were dropped without a read of what was brought along for them
//! than with one, by [`MAX_WASTED`].

use std::ops::Range;

/// Reads of a file that are compared.
pub(crate) const MAX_READS: usize = 16;
/// Bytes fetched for one read.
const MAX_RANGE_BYTES: u64 = 64 << 10;
/// Bytes brought along for one file.
const MAX_ALONG: u64 = 256 << 10;
/// Tail of a file that is asked for where its size is not known.
const MAX_TAIL: u64 = 64 << 10;
/// Files after which there is a habit.
const FEW: u32 = 2;
/// Files that may have been brought along for nothing.
const MAX_WASTED: u32 = 16;

/// What is known of a program's way with the files of a dataset.
#[derive(Debug, Default)]
pub(crate) struct AccessPattern {
    reads: Vec<Nth>,
    useful: u32,
    wasted: u32,
}

/// Reads with the same number.
#[derive(Debug, Default)]
struct Nth {
    files: u32,
    /// Of their offsets.
    from_start: Option<Range<u64>>,
    /// Of their distances from the end: that of the last byte, exclusive, and that of the first.
    from_end: Option<Range<u64>>,
    /// What is fetched of other files.
    along: Option<Along>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Along {
    FromStart(Range<u64>),
    FromEnd(Range<u64>),
}

/// What to bring along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PrefetchRanges {
    pub(crate) ranges: Vec<Range<u64>>,
    /// The end of the file, where its size is not known.
    pub(crate) tail: u64,
}

impl AccessPattern {
    /// A read, the so many-th of its file. Tells whether the habit is another one now.
    pub(crate) fn note(&mut self, nth: usize, range: &Range<u64>, size: Option<u64>) -> bool {
        if nth >= MAX_READS || range.is_empty() {
            return false;
        }
        if self.reads.len() <= nth {
            self.reads.resize_with(nth + 1, Nth::default);
        }
        self.reads.get_mut(nth).is_some_and(|read| read.note(range, size))
    }

    /// What to bring along with the opening of a file; `None` for a size that is not known.
    pub(crate) fn wanted(&self, size: Option<u64>) -> PrefetchRanges {
        let mut wanted = PrefetchRanges::default();
        if self.wasted > self.useful.saturating_add(MAX_WASTED) {
            return wanted;
        }
        let mut left = MAX_ALONG;
        for along in self.reads.iter().filter_map(|read| read.along.as_ref()) {
            let range = match (along, size) {
                (Along::FromStart(range), Some(size)) => range.start.min(size)..range.end.min(size),
                (Along::FromStart(range), None) => range.clone(),
                (Along::FromEnd(back), Some(size)) => {
                    size.saturating_sub(back.end)..size.saturating_sub(back.start)
                }
                (Along::FromEnd(back), None) => {
                    if back.end <= MAX_TAIL {
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

    /// A file is dropped for which something was brought along, which was read or was not.
    pub(crate) fn ended(&mut self, useful: bool) {
        match useful {
            true => self.useful = self.useful.saturating_add(1),
            false => self.wasted = self.wasted.saturating_add(1),
        }
    }
}

impl Nth {
    fn note(&mut self, range: &Range<u64>, size: Option<u64>) -> bool {
        self.files = self.files.saturating_add(1);
        widen(&mut self.from_start, range.clone());
        let back = size.filter(|size| range.end <= *size);
        match back.map(|size| size - range.end..size - range.start) {
            Some(back) => widen(&mut self.from_end, back),
            None => self.from_end = None,
        }
        let covered = match &self.along {
            Some(Along::FromStart(along)) => along.start <= range.start && range.end <= along.end,
            Some(Along::FromEnd(along)) => size.is_some_and(|size| {
                size.saturating_sub(along.end) <= range.start
                    && range.end <= size.saturating_sub(along.start)
            }),
            None => false,
        };
        if self.files < FEW || covered {
            return false;
        }
        let length = range.end - range.start;
        let along = [
            self.from_start.as_ref().map(|hull| Along::FromStart(with_margin(hull, length))),
            self.from_end.as_ref().map(|hull| Along::FromEnd(with_margin(hull, length))),
        ];
        let best = along.into_iter().flatten().min_by_key(Along::bytes);
        let best = best.filter(|along| along.bytes() <= MAX_RANGE_BYTES);
        let before = std::mem::replace(&mut self.along, best);
        self.along.is_some() && self.along != before
    }
}

impl Along {
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

/// A hull of reads of about `length`, half as wide again as they are apart.
fn with_margin(hull: &Range<u64>, length: u64) -> Range<u64> {
    let margin = (hull.end - hull.start).saturating_sub(length) / 2;
    hull.start.saturating_sub(margin)..hull.end.saturating_add(margin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_files_make_a_habit_of_the_shorter_hull() {
        let mut habit = AccessPattern::default();
        assert!(!habit.note(0, &(1_000..1_100), Some(50_000)));
        assert!(!habit.note(1, &(49_000..49_100), Some(50_000)));
        assert_eq!(habit.wanted(Some(40_000)), PrefetchRanges::default());
        assert!(habit.note(0, &(1_000..1_100), Some(60_000)));
        assert!(habit.note(1, &(59_000..59_100), Some(60_000)));
        let ranges = vec![1_000..1_100, 39_000..39_100];
        assert_eq!(habit.wanted(Some(40_000)), PrefetchRanges { ranges, tail: 0 });
        assert_eq!(habit.wanted(None), PrefetchRanges { ranges: vec![1_000..1_100], tail: 1_000 });
        assert!(!habit.note(0, &(1_050..1_060), Some(60_000)));
    }

    #[test]
    fn a_habit_follows_until_there_is_none() {
        let mut habit = AccessPattern::default();
        habit.note(0, &(10_000..10_100), Some(1 << 20));
        assert!(habit.note(0, &(10_200..10_300), Some(3 << 20)));
        assert_eq!(habit.wanted(Some(1 << 20)).ranges, [9_900..10_400]);
        assert!(!habit.note(0, &(10_300..10_400), Some(2 << 20)));
        assert!(habit.note(0, &(10_400..10_500), Some(4 << 20)));
        assert!(!habit.note(0, &(500_000..500_100), Some(5 << 20)));
        assert_eq!(habit.wanted(Some(1 << 20)), PrefetchRanges::default());
    }

    #[test]
    fn what_is_brought_along_for_nothing_is_given_up() {
        let mut habit = AccessPattern::default();
        (0..2).for_each(|_| _ = habit.note(0, &(0..100), None));
        (0..MAX_WASTED).for_each(|_| habit.ended(false));
        assert_eq!(habit.wanted(None).ranges, [0..100]);
        habit.ended(false);
        assert_eq!(habit.wanted(None), PrefetchRanges::default());
        habit.ended(true);
        assert_eq!(habit.wanted(None).ranges, [0..100]);
    }

    proptest! {
        #[test]
        fn what_is_wanted_lies_in_the_file_and_is_bounded(
            reads in prop::collection::vec((0..20_usize, any::<u32>(), 1..100_000_u64, any::<u32>()), 0..60),
            size in any::<u32>(),
        ) {
            let mut habit = AccessPattern::default();
            for (nth, at, length, size) in reads {
                let at = u64::from(at);
                habit.note(nth, &(at..at + length), Some(u64::from(size)));
            }
            let size = u64::from(size);
            let wanted = habit.wanted(Some(size));
            prop_assert!(wanted.ranges.iter().all(|range| range.start < range.end && range.end <= size));
            let bytes: u64 = wanted.ranges.iter().map(|range| range.end - range.start).sum();
            prop_assert!(bytes <= MAX_ALONG && habit.wanted(None).tail <= MAX_TAIL);
        }
    }
}
