//! Selection of entries of a column, or of items of its lists.

use crate::{Column, Values};
use std::ops::Range;

impl Column {
    /// Copies the entries of the ranges `keep`, in their order, each limited to the entries of the
    /// column.
    #[must_use]
    pub fn take_ranges(&self, keep: &[Range<usize>]) -> Self {
        let entries = keep.iter().map(ExactSizeIterator::len).sum();
        let values = keep.iter().map(|range| self.values_of(range).len()).sum();
        let mut taken = self.none_of(entries, values);
        for range in keep {
            taken.append(self, range.clone());
        }
        taken
    }
}

impl Values {
    /// Copies the values of the ranges `keep`, in their order, each limited to the values present.
    #[must_use]
    pub fn take_ranges(&self, keep: &[Range<usize>]) -> Self {
        let mut taken = self.none_of(keep.iter().map(ExactSizeIterator::len).sum());
        for range in keep {
            taken.append_part(self, range.clone());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Strings;
    use proptest::prelude::*;

    /// Lists of lists of strings, of these lengths.
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
