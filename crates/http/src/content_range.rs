//! `Content-Range` (RFC 9110 section 14.4): the position of a response, or of one of its parts, in
//! the file.

use crate::text::{excerpt, number, trim};
use std::ops::Range;

/// A parsed `Content-Range`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes a-b/size`, or `bytes a-b/*` if the size is unknown to the server.
    Satisfied {
        /// The bytes that follow, end exclusive; never empty, never beyond `total`.
        range: Range<u64>,
        /// The size of the whole file, in bytes.
        total: Option<u64>,
    },
    /// `bytes */size`: no range lies in the file.
    Unsatisfied {
        /// The size of the whole file, in bytes.
        total: u64,
    },
}

/// A `Content-Range` that states no valid position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentRangeError {
    /// The value does not follow RFC 9110, or has a number beyond 64 bits.
    #[error("content-range is \"{seen}\", expected \"bytes FIRST-LAST/SIZE\"")]
    Malformed {
        /// The value, shortened and escaped.
        seen: String,
    },
    /// The last position is before the first.
    #[error("content-range ends at byte {last}, before its start at {first}")]
    Backwards {
        /// The first position.
        first: u64,
        /// The last position.
        last: u64,
    },
    /// The last position is beyond the size. XrdHttp up to 5.5 echoes the request, even past the
    /// end.
    #[error("content-range ends at byte {last} of a file of {total} bytes")]
    PastTheEnd {
        /// The last position.
        last: u64,
        /// The size of the whole file.
        total: u64,
    },
}

impl ContentRange {
    /// Parses the value of a field.
    ///
    /// Tolerates more than the grammar: any case of `bytes`, `=` or `:` after it, and white space
    /// around every element. An empty file has no bytes, whatever range is stated before its size:
    /// `0-0/0` of XrdHttp, `0--1/0` of Go.
    ///
    /// # Errors
    /// See [`ContentRangeError`].
    pub fn parse(value: &[u8]) -> Result<Self, ContentRangeError> {
        if is_of_nothing(value) {
            return Ok(Self::Unsatisfied { total: 0 });
        }
        let (positions, total) =
            elements(value).ok_or_else(|| ContentRangeError::Malformed { seen: excerpt(value) })?;
        let malformed = || ContentRangeError::Malformed { seen: excerpt(value) };
        let Some((first, last)) = positions else {
            return total.map(|total| Self::Unsatisfied { total }).ok_or_else(malformed);
        };
        if last < first {
            return Err(ContentRangeError::Backwards { first, last });
        }
        if let Some(total) = total.filter(|total| last >= *total) {
            return Err(ContentRangeError::PastTheEnd { last, total });
        }
        let end = last.checked_add(1).ok_or_else(malformed)?;
        Ok(Self::Satisfied { range: first..end, total })
    }
}

/// Returns true if the stated size of the file is 0.
fn is_of_nothing(value: &[u8]) -> bool {
    let unit = trim(value).get(..5).is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes"));
    let size = value.rsplit(|byte| *byte == b'/').next().map(trim);
    unit && value.contains(&b'/')
        && size.and_then(number).is_some_and(|(size, rest)| size == 0 && rest.is_empty())
}

/// First and last position, or `None` for `*`.
type Positions = Option<(u64, u64)>;

/// Positions and size, each `None` for `*`.
fn elements(value: &[u8]) -> Option<(Positions, Option<u64>)> {
    let (unit, rest) = trim(value).split_at_checked(5)?;
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let rest = match rest {
        [b'=' | b':', rest @ ..] => rest,
        [b' ' | b'\t', ..] => trim(rest),
        _ => return None,
    };
    let (positions, rest) = match trim(rest) {
        [b'*', rest @ ..] => (None, rest),
        rest => {
            let (first, rest) = number(rest)?;
            let (last, rest) = number(trim(trim(rest).strip_prefix(b"-")?))?;
            (Some((first, last)), rest)
        }
    };
    match trim(trim(rest).strip_prefix(b"/")?) {
        b"*" => Some((positions, None)),
        size => {
            let (total, rest) = number(size)?;
            rest.is_empty().then_some((positions, Some(total)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn satisfied(range: Range<u64>, total: Option<u64>) -> Result<ContentRange, ContentRangeError> {
        Ok(ContentRange::Satisfied { range, total })
    }

    #[test]
    fn nothing_lies_in_an_empty_file() {
        for value in [&b"bytes */0"[..], b"bytes 0-0/0", b"bytes 0--1/0", b"BYTES 0-511/ 0"] {
            let parsed = ContentRange::parse(value);
            assert_eq!(parsed, Ok(ContentRange::Unsatisfied { total: 0 }), "{value:?}");
        }
        for value in [&b"items 0-0/0"[..], b"bytes 0-0/00x", b"bytes 0", b"bytes 0--1/1"] {
            assert!(ContentRange::parse(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn reads_the_three_forms() {
        assert_eq!(ContentRange::parse(b"bytes 0-9/5000"), satisfied(0..10, Some(5000)));
        assert_eq!(ContentRange::parse(b"bytes 7-7/*"), satisfied(7..8, None));
        assert_eq!(
            ContentRange::parse(b"bytes */5000"),
            Ok(ContentRange::Unsatisfied { total: 5000 })
        );
        assert_eq!(ContentRange::parse(b"bytes */0"), Ok(ContentRange::Unsatisfied { total: 0 }));
    }

    #[test]
    fn tolerates_odd_case_and_spacing() {
        for value in [
            "Bytes 0-9/50",
            "  BYTES\t0 - 9 / 50  ",
            "bytes=0-9/50",
            "bytes: 0-9/50",
            "bytes   0-9/50\r",
        ] {
            let parsed = ContentRange::parse(value.as_bytes());
            assert_eq!(parsed, satisfied(0..10, Some(50)), "{value}");
        }
    }

    #[test]
    fn refuses_a_field_without_a_position() {
        for value in [
            "",
            "bytes",
            "bytes ",
            "bytes0-9/50",
            "bytes 0-9",
            "bytes 0-9/",
            "bytes -9/50",
            "bytes 0-/50",
            "bytes 0-9/50x",
            "bytes 0-9/-1",
            "items 0-9/50",
            "bytes */*",
            "bytes 0-9,20-29/50",
            "bytes +0-9/50",
            "bytes 0-18446744073709551616/*",
        ] {
            let refused = ContentRange::parse(value.as_bytes());
            assert!(matches!(refused, Err(ContentRangeError::Malformed { .. })), "{value}");
        }
        assert_eq!(
            ContentRange::parse(b"bytes 9-8/50"),
            Err(ContentRangeError::Backwards { first: 9, last: 8 })
        );
        assert_eq!(
            ContentRange::parse(b"bytes 0-50/50"),
            Err(ContentRangeError::PastTheEnd { last: 50, total: 50 })
        );
    }

    #[test]
    fn the_last_byte_of_64_bits_overflows_nothing() {
        let last = format!("bytes 0-{}/*", u64::MAX);
        assert!(matches!(
            ContentRange::parse(last.as_bytes()),
            Err(ContentRangeError::Malformed { .. })
        ));
        let largest = format!("bytes 0-{}/{}", u64::MAX - 1, u64::MAX);
        assert_eq!(ContentRange::parse(largest.as_bytes()), satisfied(0..u64::MAX, Some(u64::MAX)));
    }

    proptest! {
        #[test]
        fn never_panics(value in "(bytes|Bytes)?[ =:]?[0-9*/ -]{0,30}") {
            let _ = ContentRange::parse(value.as_bytes());
        }
    }
}
