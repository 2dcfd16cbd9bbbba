//! Reader of structures, field by field: big-endian numbers without padding.

use crate::wire::WireError;

/// The unread bytes of a structure.
#[derive(Debug, Clone)]
pub(crate) struct FieldReader<'a> {
    what: &'static str,
    length: usize,
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Starts reading `bytes`, which are called `what` in errors.
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, length: bytes.len(), rest: bytes }
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            let expected = (self.length - self.rest.len()).saturating_add(count);
            WireError::Short { what: self.what, seen: self.length, expected }
        })?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    /// A length, encoded as a signed number.
    pub(crate) fn length(&mut self, what: &'static str) -> Result<u32, WireError> {
        let seen = self.i32()?;
        u32::try_from(seen)
            .map_err(|_| WireError::number(what, seen, "a length that is not negative"))
    }

    /// An offset or a size, encoded as a signed number of 64 bits.
    pub(crate) fn offset(&mut self, what: &'static str) -> Result<u64, WireError> {
        let seen = i64::from_be_bytes(self.array()?);
        u64::try_from(seen)
            .map_err(|_| WireError::number(what, seen, "a number that is not negative"))
    }

    /// The bytes up to the next NUL, which is consumed.
    pub(crate) fn until_nul(&mut self) -> Result<&'a [u8], WireError> {
        let at = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| WireError::text(self.what, self.rest, "text that ends in a NUL"))?;
        let text = self.take(at)?;
        self.take(1)?;
        Ok(text)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All remaining bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }
}

/// Text up to the first NUL, if there is one.
pub(crate) fn before_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The same as text; invalid UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(before_nul(bytes)).into_owned()
}

/// Text that must be UTF-8, such as a path that will be created.
pub(crate) fn strict_text(what: &'static str, bytes: &[u8]) -> Result<String, WireError> {
    let bytes = before_nul(bytes);
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| WireError::text(what, bytes, "UTF-8"))
}

/// Encodes a length as a signed number.
pub(crate) fn wire_length(what: &'static str, length: usize) -> Result<i32, WireError> {
    i32::try_from(length).map_err(|_| WireError::TooLarge {
        what,
        seen: u64::try_from(length).unwrap_or(u64::MAX),
        limit: i32::MAX.unsigned_abs().into(),
    })
}
