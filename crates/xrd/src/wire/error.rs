//! What is wrong with bytes that should be a message.

use crate::wire::excerpt;

/// Bytes that are not what their message says they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Fewer bytes than the structure has.
    #[error("{what} of {seen} bytes, expected at least {expected}")]
    Short {
        /// The structure.
        what: &'static str,
        /// Bytes there were.
        seen: usize,
        /// Bytes it takes.
        expected: usize,
    },
    /// More bytes, or more of something, than is accepted.
    #[error("{what} of {seen}, expected at most {limit}")]
    TooLarge {
        /// What it is, with its unit.
        what: &'static str,
        /// How large it is.
        seen: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// A field with a value that it cannot have.
    #[error("{what} is \"{seen}\", expected {expected}")]
    Value {
        /// The field.
        what: &'static str,
        /// The value, shortened and escaped.
        seen: String,
        /// What it may be.
        expected: &'static str,
    },
    /// Bytes that do not have the checksum sent with them.
    #[error("{what} has the crc32c {computed:08x}, but {stated:08x} was sent with it")]
    Checksum {
        /// What was checked.
        what: &'static str,
        /// The checksum sent.
        stated: u32,
        /// That of the bytes.
        computed: u32,
    },
}

impl WireError {
    /// A field that is text and cannot be understood.
    pub(crate) fn text(what: &'static str, seen: &[u8], expected: &'static str) -> Self {
        Self::Value { what, seen: excerpt(seen), expected }
    }

    /// A field that is a number and cannot be that one.
    pub(crate) fn number(
        what: &'static str,
        seen: impl std::fmt::Display,
        expected: &'static str,
    ) -> Self {
        Self::Value { what, seen: seen.to_string(), expected }
    }
}
