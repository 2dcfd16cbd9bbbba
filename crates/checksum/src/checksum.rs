//! The algorithm and value of a checksum of a whole file.
//!
//! Values are compared as bytes. Their text is lower-case hexadecimal, the form of grid catalogues.
//! Parsing accepts the values of servers that drop leading zeros of an adler32 (xrootd issue 1483).

mod hasher;

pub use hasher::Hasher;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Reason why a text or a value is not a checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChecksumError(String);

type Result<T, E = ChecksumError> = std::result::Result<T, E>;

/// A checksum algorithm, ordered by strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Algorithm {
    /// Adler-32 (RFC 1950), the most common one on the grid. Combinable.
    Adler32,
    /// CRC-32C (Castagnoli, RFC 3720). Combinable.
    Crc32c,
    /// MD5 (RFC 1321): detects accidental changes only.
    Md5,
    /// SHA-1 (FIPS 180-4), which catalogues state: detects accidental changes only. Not offered to
    /// users.
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
}

impl Algorithm {
    /// All algorithms that users can choose, the cheapest first.
    pub const ALL: [Self; 5] = [Self::Crc32c, Self::Adler32, Self::Md5, Self::Sha512, Self::Sha256];

    /// Length of a value in bytes.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32c => 4,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// Returns true if the checksum of a whole can be computed from the checksums of its parts, so
    /// that the parts may be read in any order.
    #[must_use]
    pub fn is_combinable(self) -> bool {
        matches!(self, Self::Adler32 | Self::Crc32c)
    }

    /// The name on the command line and in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Sha1 => "sha1",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = ChecksumError;

    /// Ignores letter case and hyphens: `SHA-256` is `sha256`.
    fn from_str(text: &str) -> Result<Self> {
        let plain: String = text.chars().filter(|c| *c != '-').collect();
        Self::ALL.into_iter().find(|a| plain.eq_ignore_ascii_case(a.name())).ok_or_else(|| {
            ChecksumError(format!(
                "unknown checksum {text:?}: expected adler32, crc32c, md5, sha256 or sha512"
            ))
        })
    }
}

/// The checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checksum {
    algorithm: Algorithm,
    value: Vec<u8>,
}

impl Checksum {
    /// Creates a checksum from its value, the most significant byte first.
    ///
    /// # Errors
    ///
    /// The value does not have the algorithm's length.
    pub fn new(algorithm: Algorithm, value: &[u8]) -> Result<Self> {
        if value.len() != algorithm.width() {
            let width = algorithm.width();
            let what = format!("{algorithm} has {width} bytes, got {}", value.len());
            return Err(ChecksumError(what));
        }
        Ok(Self { algorithm, value: value.to_vec() })
    }

    /// Parses a checksum from hexadecimal digits of either case; leading zeros may be missing.
    ///
    /// # Errors
    ///
    /// The text is empty, has other characters, or too many digits.
    pub fn from_hex(algorithm: Algorithm, text: &str) -> Result<Self> {
        let digits = algorithm.width() * 2;
        let bad = || {
            ChecksumError(format!(
                "{text:?} is not a value of {algorithm}: expected {digits} hexadecimal digits"
            ))
        };
        if text.is_empty() || text.len() > digits || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let padded = format!("{text:0>digits$}");
        let value: Result<Vec<u8>, _> = (0..algorithm.width())
            .map(|i| u8::from_str_radix(padded.get(2 * i..2 * i + 2).unwrap_or_default(), 16))
            .collect();
        Ok(Self { algorithm, value: value.map_err(|_| bad())? })
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The value, the most significant byte first.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The value in lower-case hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.value.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Checksum {
    /// The one of several checksums of a file that decides which bytes it has.
    #[must_use]
    pub fn strongest(all: &[Self]) -> Option<&Self> {
        all.iter().max_by_key(|sum| sum.algorithm)
    }

    /// The checksum of the bytes of this one followed by the `next_bytes` bytes of `next`; `None`
    /// if the algorithm is not combinable ([`Algorithm::is_combinable`]) or the two algorithms
    /// differ.
    #[must_use]
    pub fn followed_by(&self, next: &Self, next_bytes: u64) -> Option<Self> {
        hasher::combined(self, next, next_bytes)
    }
}

impl fmt::Display for Checksum {
    /// `adler32:0123abcd`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

impl FromStr for Checksum {
    type Err = ChecksumError;

    /// `adler32:0123abcd`.
    fn from_str(text: &str) -> Result<Self> {
        let (algorithm, hex) = text.split_once(':').ok_or_else(|| {
            ChecksumError(format!(
                "{text:?} is not a checksum: expected ALGORITHM:HEX, such as adler32:0123abcd"
            ))
        })?;
        Self::from_hex(algorithm.parse()?, hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_round_trip() {
        let sum: Checksum = "adler32:0123ABCD".parse().unwrap();
        assert_eq!(sum.value(), [0x01, 0x23, 0xab, 0xcd]);
        assert_eq!(sum.to_string(), "adler32:0123abcd");
        assert_eq!("SHA-256".parse::<Algorithm>().unwrap(), Algorithm::Sha256);
    }

    #[test]
    fn missing_leading_zeros_are_accepted() {
        let short = Checksum::from_hex(Algorithm::Adler32, "123abcd").unwrap();
        assert_eq!(short, "adler32:0123abcd".parse().unwrap());
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in
            ["", "adler32", "adler32:", "adler32:xyz", "adler32:0123456789", "crc7:00", "md5:+1"]
        {
            assert!(text.parse::<Checksum>().is_err(), "{text}");
        }
        assert!(Checksum::new(Algorithm::Md5, &[0; 4]).is_err());
    }
}
