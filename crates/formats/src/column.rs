//! A decoded column: values back to back in native byte order, with Arrow's layout for what nests them.
//!
//! One entry (event) holds one *item* (scalars and fixed arrays) or, when [`Column::offsets`] is there, any number
//! of items (jagged arrays). One item holds `item_shape.iter().product()` values, row-major: 1 for a scalar, 17 for
//! `x[17]/F`, 6 for `x[n][2][3]/F`, whose entries hold `n` items each.

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
}

/// The values of a column, typed; one contiguous buffer in native byte order, as Arrow's primitive arrays have it
/// (Arrow packs booleans into bits, here they are bytes).
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
}

/// A column, or a piece of one, for consecutive entries.
///
/// Invariant: `values.len() == items * item_len`, where `items` is `entries` without offsets and
/// `offsets[entries]` with them; offsets start at 0 and never decrease.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Number of entries.
    pub entries: usize,
    /// `entries + 1` item offsets for a jagged column, none for scalars and fixed arrays.
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

    /// The range of values that belong to `entry`, as indices into [`Column::values`]; empty beyond the last entry.
    #[must_use]
    pub fn value_range(&self, entry: usize) -> Range<usize> {
        if entry >= self.entries {
            return 0..0;
        }
        let n = self.item_len();
        match &self.offsets {
            None => entry * n..(entry + 1) * n,
            Some(offsets) => {
                let at = |i: usize| usize::try_from(offsets[i]).unwrap_or(0) * n;
                at(entry)..at(entry + 1)
            }
        }
    }
}
