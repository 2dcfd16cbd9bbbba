//! Some of the entries of a column, or some of the items of its lists.

use crate::{Column, Strings, Values};
use std::ops::Range;

impl Column {
    /// The entries in `keep`, which are ranges in any order; what lies beyond the last entry is
    /// left out.
    #[must_use]
    pub fn take_ranges(&self, keep: &[Range<usize>]) -> Self {
        let whole = 0..self.entries;
        let keep: Vec<_> = keep.iter().map(|range| within(range, &whole)).collect();
        let entries = keep.iter().map(ExactSizeIterator::len).sum();
        let n = self.item_len();
        let values: Vec<_> = keep
            .iter()
            .filter(|range| !range.is_empty())
            .map(|range| self.value_range(range.start).start..self.value_range(range.end - 1).end)
            .collect();
        let offsets = self.offsets.as_ref().map(|_| {
            let mut offsets = Vec::with_capacity(entries + 1);
            let mut last = 0_i64;
            offsets.push(last);
            for entry in keep.iter().cloned().flatten() {
                let items = self.value_range(entry).len().checked_div(n).unwrap_or(0);
                last = last.saturating_add_unsigned(items as u64);
                offsets.push(last);
            }
            offsets
        });
        Self {
            entries,
            offsets,
            item_shape: self.item_shape.clone(),
            values: self.values.take_ranges(&values),
        }
    }
}

impl Values {
    /// The values in `keep`, which are ranges in any order; what lies beyond the last one is left
    /// out.
    #[must_use]
    pub fn take_ranges(&self, keep: &[Range<usize>]) -> Self {
        match self {
            Self::Bool(all) => Self::Bool(gathered(all, keep)),
            Self::I8(all) => Self::I8(gathered(all, keep)),
            Self::U8(all) => Self::U8(gathered(all, keep)),
            Self::I16(all) => Self::I16(gathered(all, keep)),
            Self::U16(all) => Self::U16(gathered(all, keep)),
            Self::I32(all) => Self::I32(gathered(all, keep)),
            Self::U32(all) => Self::U32(gathered(all, keep)),
            Self::I64(all) => Self::I64(gathered(all, keep)),
            Self::U64(all) => Self::U64(gathered(all, keep)),
            Self::F32(all) => Self::F32(gathered(all, keep)),
            Self::F64(all) => Self::F64(gathered(all, keep)),
            Self::Text(all) => Self::Text(all.take_ranges(keep)),
            Self::Lists(inner) => Self::Lists(Box::new(inner.take_ranges(keep))),
        }
    }
}

impl Strings {
    fn take_ranges(&self, keep: &[Range<usize>]) -> Self {
        let count = self.offsets.len().saturating_sub(1);
        let at = |i: usize| self.offsets.get(i).map_or(0, |&at| usize::try_from(at).unwrap_or(0));
        let mut picked = Self { offsets: vec![0], bytes: Vec::new() };
        for one in keep.iter().cloned().flatten().filter(|one| *one < count) {
            picked
                .bytes
                .extend_from_slice(self.bytes.get(at(one)..at(one + 1)).unwrap_or_default());
            picked.offsets.push(i64::try_from(picked.bytes.len()).unwrap_or(i64::MAX));
        }
        picked
    }
}

fn gathered<T: Copy>(all: &[T], keep: &[Range<usize>]) -> Vec<T> {
    let whole = 0..all.len();
    let mut picked = Vec::with_capacity(keep.iter().map(|range| within(range, &whole).len()).sum());
    for range in keep {
        picked.extend_from_slice(all.get(within(range, &whole)).unwrap_or_default());
    }
    picked
}

fn within(range: &Range<usize>, whole: &Range<usize>) -> Range<usize> {
    let end = range.end.min(whole.end);
    range.start.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lists of lists of strings: `counts` of them.
    fn nested(counts: &[u8]) -> Column {
        let offsets = |counts: &[u8]| {
            counts.iter().fold(vec![0_i64], |mut all, count| {
                all.push(all.last().unwrap() + i64::from(*count));
                all
            })
        };
        let outer = offsets(counts);
        let lists = usize::try_from(*outer.last().unwrap()).unwrap();
        let inner_counts: Vec<u8> = (0..lists).map(|i| u8::try_from(i % 3).unwrap()).collect();
        let inner = offsets(&inner_counts);
        let texts = usize::try_from(*inner.last().unwrap()).unwrap();
        let mut strings = Strings { offsets: vec![0], bytes: Vec::new() };
        for text in 0..texts {
            strings.bytes.extend_from_slice("x".repeat(text % 4).as_bytes());
            strings.offsets.push(i64::try_from(strings.bytes.len()).unwrap());
        }
        let inner = Column {
            entries: lists,
            offsets: Some(inner),
            item_shape: vec![],
            values: Values::Text(strings),
        };
        let values = Values::Lists(Box::new(inner));
        Column { entries: counts.len(), offsets: Some(outer), item_shape: vec![], values }
    }

    proptest! {
        #[test]
        fn taking_ranges_equals_slicing_and_concatenating(
            counts in prop::collection::vec(0_u8..4, 1..20),
            keep in prop::collection::vec((0_usize..22, 0_usize..5), 1..8),
        ) {
            let whole = nested(&counts);
            let keep: Vec<_> = keep.into_iter().map(|(start, len)| start..start + len).collect();
            let pieces: Vec<_> = keep.iter().map(|range| whole.slice(range.clone())).collect();
            prop_assert_eq!(whole.take_ranges(&keep), Column::concat(&pieces).unwrap());
        }
    }
}
