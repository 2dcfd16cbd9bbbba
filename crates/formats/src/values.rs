//! Operations on typed values, strings and lists.

use crate::{ElementType, Strings, Values};
use std::ops::Range;

/// Binds both vectors of a pair of numbers of the same type; `$other` for all other pairs.
macro_rules! with_pair {
    (($a:expr, $b:expr), ($x:ident, $y:ident) => $body:expr, $other:expr) => {
        match ($a, $b) {
            (Values::Bool($x), Values::Bool($y)) => $body,
            (Values::I8($x), Values::I8($y)) => $body,
            (Values::U8($x), Values::U8($y)) => $body,
            (Values::I16($x), Values::I16($y)) => $body,
            (Values::U16($x), Values::U16($y)) => $body,
            (Values::I32($x), Values::I32($y)) => $body,
            (Values::U32($x), Values::U32($y)) => $body,
            (Values::I64($x), Values::I64($y)) => $body,
            (Values::U64($x), Values::U64($y)) => $body,
            (Values::F32($x), Values::F32($y)) => $body,
            (Values::F64($x), Values::F64($y)) => $body,
            _ => $other,
        }
    };
}

impl ElementType {
    /// Bytes of one number, in a file and in memory; 1 for strings, whose lengths differ.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 | Self::Text => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The C++ name: `bool`, `int8_t` … `uint64_t`, `float`, `double`, `std::string`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "int8_t",
            Self::U8 => "uint8_t",
            Self::I16 => "int16_t",
            Self::U16 => "uint16_t",
            Self::I32 => "int32_t",
            Self::U32 => "uint32_t",
            Self::I64 => "int64_t",
            Self::U64 => "uint64_t",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::Text => "std::string",
        }
    }
}

impl Values {
    /// Empty values, with capacity for `capacity` of them.
    #[must_use]
    pub fn with_capacity(element: ElementType, capacity: usize) -> Self {
        match element {
            ElementType::Bool => Self::Bool(Vec::with_capacity(capacity)),
            ElementType::I8 => Self::I8(Vec::with_capacity(capacity)),
            ElementType::U8 => Self::U8(Vec::with_capacity(capacity)),
            ElementType::I16 => Self::I16(Vec::with_capacity(capacity)),
            ElementType::U16 => Self::U16(Vec::with_capacity(capacity)),
            ElementType::I32 => Self::I32(Vec::with_capacity(capacity)),
            ElementType::U32 => Self::U32(Vec::with_capacity(capacity)),
            ElementType::I64 => Self::I64(Vec::with_capacity(capacity)),
            ElementType::U64 => Self::U64(Vec::with_capacity(capacity)),
            ElementType::F32 => Self::F32(Vec::with_capacity(capacity)),
            ElementType::F64 => Self::F64(Vec::with_capacity(capacity)),
            ElementType::Text => Self::Text(Strings::with_capacity(capacity)),
        }
    }

    /// Empty values of the same type, with capacity for `capacity` of them.
    pub(crate) fn none_of(&self, capacity: usize) -> Self {
        match self {
            Self::Lists(column) => Self::Lists(Box::new(column.slice(0..0))),
            other => Self::with_capacity(other.element_type(), capacity),
        }
    }

    /// The type of each value; for lists, the type of their innermost values.
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        match self {
            Self::Bool(_) => ElementType::Bool,
            Self::I8(_) => ElementType::I8,
            Self::U8(_) => ElementType::U8,
            Self::I16(_) => ElementType::I16,
            Self::U16(_) => ElementType::U16,
            Self::I32(_) => ElementType::I32,
            Self::U32(_) => ElementType::U32,
            Self::I64(_) => ElementType::I64,
            Self::U64(_) => ElementType::U64,
            Self::F32(_) => ElementType::F32,
            Self::F64(_) => ElementType::F64,
            Self::Text(_) => ElementType::Text,
            Self::Lists(column) => column.values.element_type(),
        }
    }

    /// Number of values; a list counts as one.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U8(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Text(strings) => strings.len(),
            Self::Lists(column) => column.entries,
        }
    }

    /// Returns true if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the values of `range`, up to the last value.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::Text(strings) => return Self::Text(strings.slice(range)),
            Self::Lists(column) => return Self::Lists(Box::new(column.slice(range))),
            _ => {}
        }
        let mut out = Self::with_capacity(self.element_type(), 0);
        with_pair!((self, &mut out), (v, o) => {
            let end = range.end.min(v.len());
            if let Some(part) = v.get(range.start..end) {
                o.extend_from_slice(part);
            }
        }, ());
        out
    }

    /// Appends `more`. Returns false if it is of another type; then inner columns may have grown.
    #[must_use]
    pub fn append(&mut self, more: &Self) -> bool {
        self.append_part(more, 0..more.len())
    }

    /// Appends the values of `range`, up to the last value. Otherwise as [`Self::append`].
    pub(crate) fn append_part(&mut self, more: &Self, range: Range<usize>) -> bool {
        match (&mut *self, more) {
            (Self::Text(strings), Self::Text(more)) => {
                strings.append(more, range);
                return true;
            }
            (Self::Lists(column), Self::Lists(more)) => return column.append(more, range),
            _ => {}
        }
        with_pair!((more, self), (m, v) => {
            v.extend_from_slice(m.get(range.start..range.end.min(m.len())).unwrap_or_default());
        }, return false);
        true
    }
}

impl Default for Strings {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Strings {
    /// Empty strings, with capacity for `capacity` of them.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut offsets = Vec::with_capacity(capacity.saturating_add(1));
        offsets.push(0);
        Self { offsets, bytes: Vec::new() }
    }

    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns true if there are no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of string `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let at = |index: usize| usize::try_from(*self.offsets.get(index)?).ok();
        self.bytes.get(at(index)?..at(index.checked_add(1)?)?)
    }

    /// Appends a string.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.close();
    }

    /// All strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    fn close(&mut self) {
        // A vector has at most `isize::MAX` bytes.
        self.offsets.push(i64::try_from(self.bytes.len()).unwrap_or(i64::MAX));
    }

    fn slice(&self, range: Range<usize>) -> Self {
        let end = range.end.min(self.len());
        let mut out = Self::default();
        for index in range.start.min(end)..end {
            out.push(self.get(index).unwrap_or_default());
        }
        out
    }

    fn append(&mut self, more: &Self, range: Range<usize>) {
        let end = range.end.min(more.len());
        let part = more.offsets.get(range.start.min(end)..=end).unwrap_or(&[0]);
        let at = |offset: Option<&i64>| offset.copied().unwrap_or(0);
        let from = at(part.first());
        let to = at(part.last());
        let index = |offset: i64| usize::try_from(offset).unwrap_or(0);
        self.bytes.extend_from_slice(more.bytes.get(index(from)..index(to)).unwrap_or_default());
        let base = at(self.offsets.last()) - from;
        self.offsets.extend(part.iter().skip(1).map(|offset| base + offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;

    #[test]
    fn slices_and_appends_keep_type_and_values() {
        let mut values = Values::I16(vec![1, 2, 3]);
        assert_eq!(values.slice(1..9), Values::I16(vec![2, 3]));
        assert_eq!(values.slice(7..9), Values::I16(vec![]));
        assert!(values.append(&Values::I16(vec![4])));
        assert!(!values.append(&Values::U16(vec![4])));
        assert_eq!(values, Values::I16(vec![1, 2, 3, 4]));
    }

    #[test]
    fn strings_and_lists_are_sliced_and_concatenated() {
        let mut strings = Strings::default();
        for text in ["a", "", "bcd"] {
            strings.push(text.as_bytes());
        }
        let text = Values::Text(strings);
        let mut lists = Values::Lists(Box::new(Column {
            entries: 2,
            offsets: Some(vec![0, 1, 3]),
            item_shape: vec![],
            values: text,
        }));
        let last = lists.slice(1..2);
        assert!(lists.append(&last));
        assert_eq!(lists.len(), 3);
        let Values::Lists(column) = &lists else { panic!("lists stay lists") };
        assert_eq!(column.offsets, Some(vec![0, 1, 3, 5]));
        let Values::Text(strings) = &column.values else { panic!("strings stay strings") };
        assert_eq!(strings.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bcd", b"", b"bcd"]);
        assert_eq!(strings.offsets, [0, 1, 1, 4, 4, 7]);
        assert!(!lists.append(&Values::I8(vec![1])));
        assert_eq!(lists.element_type(), ElementType::Text);
    }
}
