//! Ranges assembled from parts that arrive in any order and of any size.

use bytes::{Bytes, BytesMut};
use hither_core::{Part, range};
use std::ops::Range;

/// Ranges that are being filled. They may overlap; a part then goes to each of them.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// Sorted by start.
    slots: Vec<Slot>,
    /// Invariant: `ends[i]` is the largest end of `slots[..=i]`, so it never decreases and can be
    /// searched.
    ends: Vec<u64>,
}

#[derive(Debug)]
struct Slot {
    range: Range<u64>,
    id: usize,
    /// The bytes that are missing. Parts of one range overlap only if the server repeats itself.
    missing: Vec<Range<u64>>,
    buffer: BytesMut,
}

impl Assembly {
    /// Ranges to fill, each with an id of the caller. Empty ranges are never completed.
    pub(crate) fn new(ranges: impl IntoIterator<Item = (usize, Range<u64>)>) -> Self {
        let mut assembly = Self::default();
        assembly.add(ranges);
        assembly
    }

    /// Adds ranges to fill, and removes those that are complete.
    pub(crate) fn add(&mut self, ranges: impl IntoIterator<Item = (usize, Range<u64>)>) {
        self.slots.retain(|slot| !slot.missing.is_empty());
        self.slots.extend(ranges.into_iter().map(|(id, range)| Slot {
            missing: vec![range.clone()],
            range,
            id,
            buffer: BytesMut::new(),
        }));
        self.slots.sort_by_key(|slot| slot.range.start);
        let mut largest = 0;
        self.ends.clear();
        self.ends.extend(self.slots.iter().map(|slot| {
            largest = slot.range.end.max(largest);
            largest
        }));
    }

    /// Takes a part, and calls `done` with id and bytes of every range that it completes. A range
    /// that lies within the part is passed on as a slice of it, without a copy, unless most of the
    /// part was not requested: a slice keeps all of it in memory.
    pub(crate) fn accept(&mut self, part: &Part, mut done: impl FnMut(usize, Bytes)) {
        let all = part.offset..part.offset.saturating_add(part.bytes.len() as u64);
        let first = self.ends.partition_point(|&largest| largest <= part.offset);
        let within = self.slots.iter_mut().skip(first).take_while(|it| it.range.start < all.end);
        let mut complete = Vec::new();
        let mut wanted_bytes = 0;
        for slot in within {
            wanted_bytes += range::len(&slot.overlap(&all));
            complete.extend(slot.accept(part, &all).map(|bytes| (slot.id, bytes)));
        }
        let is_sparse = wanted_bytes < range::len(&all) / 2;
        for (id, bytes) in complete {
            done(id, if is_sparse { Bytes::copy_from_slice(&bytes) } else { bytes });
        }
    }
}

impl Slot {
    fn overlap(&self, part: &Range<u64>) -> Range<u64> {
        let start = part.start.max(self.range.start);
        start..part.end.min(self.range.end).max(start)
    }

    fn accept(&mut self, part: &Part, all: &Range<u64>) -> Option<Bytes> {
        let fresh = self.overlap(all);
        if fresh.start >= fresh.end || self.missing.is_empty() {
            return None;
        }
        let slice = |range: &Range<u64>| -> Option<Bytes> {
            let from = usize::try_from(range.start - part.offset).ok()?;
            let to = usize::try_from(range.end - part.offset).ok()?;
            Some(part.bytes.slice(from..to))
        };
        if fresh == self.range {
            self.missing.clear();
            self.buffer = BytesMut::new();
            return slice(&fresh);
        }
        let missing = range::difference(&self.missing, std::slice::from_ref(&fresh));
        self.missing = missing;
        // The range was checked against the size of the file before it was requested.
        let len = usize::try_from(self.range.end - self.range.start).ok()?;
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let at = usize::try_from(fresh.start - self.range.start).ok()?;
        let bytes = slice(&fresh)?;
        self.buffer.get_mut(at..at + bytes.len())?.copy_from_slice(&bytes);
        self.missing.is_empty().then(|| std::mem::take(&mut self.buffer).freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_few_bytes_of_a_part_do_not_keep_it_in_memory() {
        let part = Part { offset: 100, bytes: Bytes::from(vec![7; 1000]) };
        let is_kept = |ranges: &[Range<u64>]| {
            let mut kept = false;
            Assembly::new(ranges.iter().cloned().enumerate()).accept(&part, |_, bytes| {
                assert!(bytes.iter().all(|byte| *byte == 7));
                kept |= part.bytes.as_ptr_range().contains(&bytes.as_ptr());
            });
            kept
        };
        assert!(!is_kept(&[200..300, 500..600]));
        assert!(is_kept(&[100..500, 600..1000]));
    }

    proptest! {
        #[test]
        fn every_range_comes_out_whole_and_once(
            ranges in prop::collection::vec((0u64..400, 1u64..60), 1..12),
            cuts in prop::collection::vec(1usize..30, 1..60),
            shuffle in any::<u64>(),
        ) {
            let file: Vec<u8> = (0..500u32).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect();
            let ranges: Vec<_> = ranges.into_iter().map(|(a, n)| a..a + n).collect();
            let mut assembly = Assembly::new(ranges.iter().cloned().enumerate());
            let mut parts = Vec::new();
            let mut at = 0;
            for cut in cuts.iter().cycle() {
                if at >= file.len() { break; }
                let to = (at + cut).min(file.len());
                parts.push(Part { offset: at as u64, bytes: Bytes::copy_from_slice(&file[at..to]) });
                at = to;
            }
            let n = parts.len();
            parts.rotate_left(usize::try_from(shuffle).unwrap_or(0) % n);
            parts.extend(parts.clone());
            let mut seen = vec![0; ranges.len()];
            for part in &parts {
                assembly.accept(part, |id, bytes| {
                    let range = &ranges[id];
                    let a = usize::try_from(range.start).unwrap();
                    let b = usize::try_from(range.end).unwrap();
                    assert_eq!(&bytes[..], &file[a..b]);
                    seen[id] += 1;
                });
            }
            prop_assert!(seen.iter().all(|&times| times == 1), "{seen:?}");
        }
    }
}
