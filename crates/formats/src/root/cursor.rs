//! A bounds-checked reader of big-endian bytes.

use crate::ElementType;
use crate::error::{FormatError, Result};

/// A position in bytes from a file. Every read checks that the bytes are present.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
    /// Name of the structure, for error messages.
    what: &'static str,
}

macro_rules! number {
    ($($name:ident: $t:ty),*) => { $(
        pub(super) fn $name(&mut self) -> Result<$t> {
            let mut raw = [0; size_of::<$t>()];
            raw.copy_from_slice(self.take(size_of::<$t>())?);
            Ok(<$t>::from_be_bytes(raw))
        }
    )* };
}

impl<'a> Cursor<'a> {
    pub(super) fn new(data: &'a [u8], what: &'static str) -> Self {
        Self { data, position: 0, what }
    }

    /// Creates a cursor over the same bytes at another position.
    pub(super) fn at(&self, position: usize) -> Self {
        Self { data: self.data, position, what: self.what }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Number of remaining bytes.
    pub(super) fn left(&self) -> usize {
        self.data.len().saturating_sub(self.position)
    }

    pub(super) fn corrupt(&self, why: impl Into<String>) -> FormatError {
        FormatError::corrupt(format!("{} at byte {}", self.what, self.position), why)
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(count);
        match end.and_then(|end| self.data.get(self.position..end)) {
            Some(bytes) => {
                self.position += count;
                Ok(bytes)
            }
            None => Err(FormatError::Truncated {
                what: self.what.to_owned(),
                needed: (self.position as u64).saturating_add(count as u64),
                available: self.data.len() as u64,
            }),
        }
    }

    pub(super) fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(drop)
    }

    /// Moves to a position that was computed from numbers in the file.
    pub(super) fn seek(&mut self, position: usize) -> Result<()> {
        if position > self.data.len() {
            return Err(self.corrupt(format!("points to byte {position}, beyond the end")));
        }
        self.position = position;
        Ok(())
    }

    number!(u8: u8, u16: u16, i16: i16, u32: u32, i32: i32, i64: i64, f32: f32, f64: f64);

    /// Reads an integer of this type; returns `None` for other types.
    pub(super) fn int(&mut self, element: ElementType) -> Result<Option<i64>> {
        Ok(Some(match element {
            ElementType::Bool | ElementType::U8 => i64::from(self.u8()?),
            ElementType::I8 => i64::from(self.u8()?.cast_signed()),
            ElementType::I16 => i64::from(self.i16()?),
            ElementType::U16 => i64::from(self.u16()?),
            ElementType::I32 => i64::from(self.i32()?),
            ElementType::U32 => i64::from(self.u32()?),
            ElementType::I64 | ElementType::U64 => self.i64()?,
            ElementType::F32 | ElementType::F64 | ElementType::Text => return Ok(None),
        }))
    }

    /// Reads a count: an `i32` that must not be negative.
    pub(super) fn count(&mut self) -> Result<usize> {
        let value = self.i32()?;
        usize::try_from(value).map_err(|_| self.corrupt(format!("negative count {value}")))
    }

    /// Reads an offset in the file, of 4 bytes or, in the large form, 8.
    pub(super) fn offset(&mut self, large: bool) -> Result<u64> {
        let value = if large { self.i64()? } else { i64::from(self.i32()?) };
        u64::try_from(value).map_err(|_| self.corrupt(format!("negative offset {value}")))
    }

    /// Reads the bytes of a `TString`: one length byte, or 255 and a four-byte length.
    pub(super) fn text(&mut self) -> Result<&'a [u8]> {
        let length = match self.u8()? {
            255 => self.count()?,
            short => usize::from(short),
        };
        self.take(length)
    }

    /// Reads a `TString` as UTF-8; invalid sequences are replaced.
    pub(super) fn string(&mut self) -> Result<String> {
        self.text().map(|text| String::from_utf8_lossy(text).into_owned())
    }

    /// Reads the bytes of a zero-terminated string.
    pub(super) fn c_string(&mut self) -> Result<&'a [u8]> {
        let rest = self.data.get(self.position..).unwrap_or_default();
        match rest.iter().position(|&byte| byte == 0) {
            Some(length) => {
                let text = self.take(length)?;
                self.skip(1)?;
                Ok(text)
            }
            None => Err(self.corrupt("string without end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end() {
        let mut cursor = Cursor::new(&[0, 1, 2], "test");
        assert_eq!(cursor.u16().unwrap(), 1);
        assert!(matches!(
            cursor.u16(),
            Err(FormatError::Truncated { needed: 4, available: 3, .. })
        ));
        assert_eq!(cursor.u8().unwrap(), 2, "a failed read does not move");
        assert!(cursor.take(usize::MAX).is_err());
    }

    #[test]
    fn strings_have_two_forms() {
        let mut long = vec![255, 0, 0, 1, 44];
        long.extend([b'x'; 300]);
        assert_eq!(Cursor::new(&long, "test").text().unwrap().len(), 300);
        assert_eq!(Cursor::new(b"\x02hi", "test").string().unwrap(), "hi");
        assert!(Cursor::new(&[255, 255, 255, 255, 255], "test").text().is_err());
        assert_eq!(Cursor::new(b"ab\0c", "test").c_string().unwrap(), b"ab");
        assert!(Cursor::new(b"ab", "test").c_string().is_err());
    }
}
