//! Errors of malformed messages.

use crate::wire::excerpt;

/// A malformed message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Fewer bytes than the structure has.
    #[error("{what} of {seen} bytes, expected at least {expected}")]
    Short {
        /// The structure.
        what: &'static str,
        /// Number of bytes found.
        seen: usize,
        /// Number of bytes of the structure.
        expected: usize,
    },
    /// More bytes or items than accepted.
    #[error("{what} of {seen}, expected at most {limit}")]
    TooLarge {
        /// The structure, with its unit.
        what: &'static str,
        /// Its size.
        seen: u64,
        /// The maximum.
        limit: u64,
    },
    /// A field has an invalid value.
    #[error("{what} is \"{seen}\", expected {expected}")]
    Value {
        /// The field.
        what: &'static str,
        /// The value, shortened and escaped.
        seen: String,
        /// The valid values.
        expected: &'static str,
    },
    /// A checksum does not match its bytes.
    #[error("{what} has the crc32c {computed:08x}, expected {stated:08x}")]
    Checksum {
        /// The structure that was checked.
        what: &'static str,
        /// The stated checksum.
        stated: u32,
        /// The computed checksum.
        computed: u32,
    },
}

impl WireError {
    /// A text field with an invalid value.
    pub(crate) fn text(what: &'static str, seen: &[u8], expected: &'static str) -> Self {
        Self::Value { what, seen: excerpt(seen), expected }
    }

    /// A number field with an invalid value.
    pub(crate) fn number(
        what: &'static str,
        seen: impl std::fmt::Display,
        expected: &'static str,
    ) -> Self {
        Self::Value { what, seen: seen.to_string(), expected }
    }
}
