//! A decoded column: contiguous values in native byte order, with Arrow's layout for nested values.
//!
//! One entry (event) holds one *item* (scalars and fixed arrays) or, if [`Column::offsets`] is
//! present, any number of items (jagged arrays). One item holds `item_shape.iter().product()`
//! values, row-major: 1 for a scalar, 17 for `x[17]/F`, 6 for `x[n][2][3]/F`, whose entries hold
//! `n` items each.

use crate::error::{FormatError, Result};
use std::ops::Range;

/// The type of one value. ROOT's leaf letters: `O B b S s I i L l F D`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ElementType {
    /// `Bool_t` (`/O`).
    Bool,
    /// `Char_t` (`/B`).
    I8,
    /// `UChar_t` (`/b`).
    U8,
    /// `Short_t` (`/S`).
    I16,
    /// `UShort_t` (`/s`).
    U16,
    /// `Int_t` (`/I`).
    I32,
    /// `UInt_t` (`/i`).
    U32,
    /// `Long64_t` (`/L`), and `Long_t` (`/G`).
    I64,
    /// `ULong64_t` (`/l`), and `ULong_t` (`/g`).
    U64,
    /// `Float_t` (`/F`).
    F32,
    /// `Double_t` (`/D`).
    F64,
    /// Strings: `/C`, `std::string`, `TString`, `char*`.
    Text,
}

/// Contiguous strings in Arrow's layout: string `i` is `bytes[offsets[i]..offsets[i + 1]]`. The
/// encoding is not specified.
///
/// Invariant: offsets are never empty, start at 0, never decrease, and end at the number of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strings {
    /// Offsets: one more than the number of strings.
    pub offsets: Vec<i64>,
    /// The bytes of all strings.
    pub bytes: Vec<u8>,
}

/// The typed values of a column: one contiguous buffer in native byte order, like Arrow's primitive
/// arrays, except that booleans take one byte each (Arrow packs them into bits).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// Booleans, one byte each.
    Bool(Vec<bool>),
    /// Signed bytes.
    I8(Vec<i8>),
    /// Unsigned bytes.
    U8(Vec<u8>),
    /// 16-bit signed integers.
    I16(Vec<i16>),
    /// 16-bit unsigned integers.
    U16(Vec<u16>),
    /// 32-bit signed integers.
    I32(Vec<i32>),
    /// 32-bit unsigned integers.
    U32(Vec<u32>),
    /// 64-bit signed integers.
    I64(Vec<i64>),
    /// 64-bit unsigned integers.
    U64(Vec<u64>),
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Strings.
    Text(Strings),
    /// Lists: each value is an entry of the inner column, which holds its elements.
    /// `vector<vector<float>>` nests in this way.
    Lists(Box<Column>),
}

/// A column, or a piece of one, of consecutive entries.
///
/// Invariant: `values.len() == items * item_len`, where `items` is `entries` without offsets and
/// `offsets[entries]` with them; offsets start at 0 and never decrease. It also holds for a column
/// inside [`Values::Lists`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Number of entries.
    pub entries: usize,
    /// `entries + 1` item offsets for a jagged column; `None` for scalars and fixed arrays.
    pub offsets: Option<Vec<i64>>,
    /// Fixed dimensions of one item, outermost first; empty for scalars.
    pub item_shape: Vec<usize>,
    /// All values.
    pub values: Values,
}

impl Column {
    /// Number of values in one item.
    #[must_use]
    pub fn item_len(&self) -> usize {
        self.item_shape.iter().product()
    }

    /// The range of the values of `entry`, as indices into [`Column::values`]; empty beyond the
    /// last entry.
    #[must_use]
    pub fn value_range(&self, entry: usize) -> Range<usize> {
        if entry >= self.entries {
            return 0..0;
        }
        let n = self.item_len();
        match &self.offsets {
            None => entry * n..(entry + 1) * n,
            Some(offsets) => {
                let at = |i: usize| {
                    offsets.get(i).map_or(0, |&offset| usize::try_from(offset).unwrap_or(0) * n)
                };
                at(entry)..at(entry + 1)
            }
        }
    }

    /// Copies the consecutive `entries`, up to the last entry of the column.
    #[must_use]
    pub fn slice(&self, entries: Range<usize>) -> Self {
        let end = entries.end.min(self.entries);
        let start = entries.start.min(end);
        let n = self.item_len();
        let (items, offsets) = match &self.offsets {
            None => (start..end, None),
            Some(offsets) => {
                let part = offsets.get(start..=end).unwrap_or(&[0]);
                let first = part.first().copied().unwrap_or(0);
                let last = part.last().copied().unwrap_or(0);
                let index = |offset: i64| usize::try_from(offset).unwrap_or(0);
                let rebased = part.iter().map(|offset| offset - first).collect();
                (index(first)..index(last), Some(rebased))
            }
        };
        let values = self.values.slice(items.start * n..items.end * n);
        Self { entries: end - start, offsets, item_shape: self.item_shape.clone(), values }
    }

    /// Concatenates the pieces.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] if there are no pieces, or if they differ in type, shape or
    /// jaggedness.
    pub fn concat(pieces: &[Self]) -> Result<Self> {
        let whole: Vec<_> = pieces.iter().map(|piece| (piece, 0..piece.entries)).collect();
        Self::concat_parts(&whole)
    }

    /// Concatenates entries of some columns; each range is limited to the entries of its column.
    ///
    /// # Errors
    /// As [`Self::concat`].
    pub fn concat_parts(parts: &[(&Self, Range<usize>)]) -> Result<Self> {
        let invalid = |what: &str| FormatError::Invalid { what: what.to_owned() };
        let (first, _) =
            parts.first().ok_or_else(|| invalid("no pieces of a column to put together"))?;
        let entries: usize = parts.iter().map(|(_, entries)| entries.len()).sum();
        let values = |(piece, entries): &(&Self, Range<usize>)| piece.values_of(entries).len();
        let capacity = parts.iter().map(values).sum();
        let mut whole = first.none_of(entries, capacity);
        for (piece, entries) in parts {
            if !whole.append(piece, entries.clone()) {
                return Err(invalid("pieces of a column differ in type or shape"));
            }
        }
        Ok(whole)
    }

    /// An empty column of the same type and shape, with capacity for that many entries and values.
    pub(crate) fn none_of(&self, entries: usize, values: usize) -> Self {
        Self {
            entries: 0,
            offsets: self.offsets.as_ref().map(|_| {
                let mut offsets = Vec::with_capacity(entries + 1);
                offsets.push(0_i64);
                offsets
            }),
            item_shape: self.item_shape.clone(),
            values: self.values.none_of(values),
        }
    }

    /// The values of consecutive entries, as indices into [`Column::values`].
    pub(crate) fn values_of(&self, entries: &Range<usize>) -> Range<usize> {
        let end = entries.end.min(self.entries);
        if entries.start >= end {
            return 0..0;
        }
        self.value_range(entries.start).start..self.value_range(end - 1).end
    }

    /// Appends entries of `more`; returns false if it differs in type, shape or jaggedness.
    pub(crate) fn append(&mut self, more: &Self, entries: Range<usize>) -> bool {
        if more.item_shape != self.item_shape
            || more.offsets.is_some() != self.offsets.is_some()
            || !self.values.append_part(&more.values, more.values_of(&entries))
        {
            return false;
        }
        let end = entries.end.min(more.entries);
        let start = entries.start.min(end);
        if let (Some(all), Some(more)) = (&mut self.offsets, &more.offsets) {
            let part = more.get(start..=end).unwrap_or(&[0]);
            let base = all.last().copied().unwrap_or(0) - part.first().copied().unwrap_or(0);
            all.extend(part.iter().skip(1).map(|offset| base + offset));
        }
        self.entries += end - start;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jagged(counts: &[u8]) -> Column {
        let mut offsets = vec![0_i64];
        for &count in counts {
            offsets.push(offsets.last().unwrap() + i64::from(count));
        }
        let items = i32::try_from(*offsets.last().unwrap()).unwrap();
        Column {
            entries: counts.len(),
            offsets: Some(offsets),
            item_shape: vec![2],
            values: Values::I32((0..2 * items).collect()),
        }
    }

    #[test]
    fn concat_of_different_types_is_an_error() {
        let mut other = jagged(&[1]);
        other.item_shape = vec![1, 2];
        assert!(Column::concat(&[jagged(&[1]), other]).is_err());
        let mut flat = jagged(&[1]);
        flat.offsets = None;
        assert!(Column::concat(&[jagged(&[1]), flat]).is_err());
        assert!(Column::concat(&[]).is_err());
    }

    #[test]
    fn a_slice_beyond_the_end_is_shortened() {
        let column = jagged(&[1, 0, 2]);
        assert_eq!(column.slice(2..9).offsets, Some(vec![0, 2]));
        assert_eq!(column.slice(7..9).entries, 0);
        assert_eq!(column.slice(7..9).offsets, Some(vec![0]));
    }

    proptest! {
        #[test]
        fn concatenated_slices_give_the_whole(counts in prop::collection::vec(0_u8..5, 0..20), cut in 0_usize..21) {
            let whole = jagged(&counts);
            let cut = cut.min(counts.len());
            let pieces = [whole.slice(0..cut), whole.slice(cut..counts.len())];
            prop_assert_eq!(&Column::concat(&pieces).unwrap(), &whole);
            let parts = [(&whole, 0..cut), (&whole, cut..counts.len())];
            prop_assert_eq!(Column::concat_parts(&parts).unwrap(), whole);
        }
    }
}
