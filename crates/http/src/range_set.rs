//! Parser of a `Range` field for servers (RFC 9110 section 14.1.2), and resolution of its ranges in
//! a file.
//!
//! A value that is not a set of byte ranges counts as absent: a server must ignore unknown units,
//! and may ignore malformed values, so that the whole file is sent.

use crate::text::{number, trim};
use std::ops::Range;

/// A requested range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeSpec {
    /// `first-last`, or `first-` to the end.
    From {
        /// The first byte.
        first: u64,
        /// The last byte; `None` for the end of the file.
        last: Option<u64>,
    },
    /// `-bytes`: this number of bytes at the end of the file.
    Tail(u64),
}

impl RangeSpec {
    /// Resolves the range in a file of `size` bytes; `None` if none of its bytes exist.
    #[must_use]
    pub fn within(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From { first, last } => {
                first..last.and_then(|last| last.checked_add(1)).unwrap_or(size).min(size)
            }
            Self::Tail(bytes) => size.saturating_sub(bytes)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// A request with more ranges than a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {most} ranges in one request")]
pub struct TooManyRanges {
    /// The maximum.
    pub most: usize,
}

/// Parses the ranges of a field, in its order; `None` if the field is to be ignored.
///
/// ```
/// use hither_http::range_set::{RangeSpec, parse};
/// let ranges = parse(b"bytes=0-9, -5", 100)?.unwrap();
/// assert_eq!(ranges, [RangeSpec::From { first: 0, last: Some(9) }, RangeSpec::Tail(5)]);
/// assert_eq!(parse(b"lines=1-2", 100)?, None);
/// # Ok::<(), hither_http::range_set::TooManyRanges>(())
/// ```
///
/// # Errors
/// The field has more than `most` ranges.
pub fn parse(field: &[u8], most: usize) -> Result<Option<Vec<RangeSpec>>, TooManyRanges> {
    let Some((unit, list)) = field.split_at_checked(6) else { return Ok(None) };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return Ok(None);
    }
    // A range takes at least three bytes with its comma.
    let mut ranges = Vec::with_capacity((list.len() / 8).min(most));
    for item in list.split(|byte| *byte == b',').map(trim).filter(|item| !item.is_empty()) {
        let Some(one) = one(item) else { return Ok(None) };
        if ranges.len() == most {
            return Err(TooManyRanges { most });
        }
        ranges.push(one);
    }
    Ok(Some(ranges).filter(|ranges| !ranges.is_empty()))
}

fn one(item: &[u8]) -> Option<RangeSpec> {
    if let Some(rest) = item.strip_prefix(b"-") {
        return digits(rest).map(RangeSpec::Tail);
    }
    let dash = item.iter().position(|byte| *byte == b'-')?;
    let (first, rest) = item.split_at_checked(dash)?;
    let first = digits(first)?;
    match rest.get(1..)? {
        b"" => Some(RangeSpec::From { first, last: None }),
        last => {
            let last = digits(last)?;
            (first <= last).then_some(RangeSpec::From { first, last: Some(last) })
        }
    }
}

/// Parses digits. A number beyond 64 bits becomes the largest: no file has that many bytes.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(number(text).map_or(u64::MAX, |(value, _)| value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_header;
    use proptest::prelude::*;

    fn within(field: &str, size: u64) -> Option<Vec<Range<u64>>> {
        let ranges = parse(field.as_bytes(), 100).unwrap()?;
        Some(ranges.into_iter().filter_map(|ranges| ranges.within(size)).collect())
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        assert_eq!(within("bytes=0-4,95-200", 100), Some(vec![0..5, 95..100]));
        assert_eq!(within("Bytes= 10- ,\t-1 ,,", 100), Some(vec![10..100, 99..100]));
        assert_eq!(within("bytes=-500", 100), Some(vec![0..100]));
        assert_eq!(within("bytes=100-,200-300,-0", 100), Some(vec![]));
        assert_eq!(within("bytes=0-,-1", 0), Some(vec![]));
        assert_eq!(within("bytes=5-99999999999999999999999", 100), Some(vec![5..100]));
        assert_eq!(within("bytes=99999999999999999999999-", 100), Some(vec![]));
    }

    #[test]
    fn what_is_no_set_of_ranges_is_ignored() {
        for field in
            ["", "bytes", "bytes=", "bytes=,", "items=0-1", "bytes=1", "bytes=a-b", "bytes=5-4"]
        {
            assert_eq!(within(field, 100), None, "{field}");
        }
        for field in ["bytes=0-1;2-3", "bytes=--1", "bytes=1-2-3", "bytes=+1-2", "bytes 0-1"] {
            assert_eq!(within(field, 100), None, "{field}");
        }
    }

    #[test]
    fn too_many_are_refused() {
        assert_eq!(parse(b"bytes=0-0,1-1,2-2", 2), Err(TooManyRanges { most: 2 }));
        assert!(parse(b"bytes=0-0,1-1", 2).is_ok());
    }

    proptest! {
        #[test]
        fn what_clients_write_is_read(
            ranges in prop::collection::vec((0..u64::MAX / 2, 1..1u64 << 40), 1..20),
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let text = range_header::format(&ranges, None).unwrap();
            prop_assert_eq!(within(&text, u64::MAX), Some(ranges));
        }

        #[test]
        fn never_panics(field in "bytes=[0-9, -]{0,40}", size in any::<u64>()) {
            for range in within(&field, size).unwrap_or_default() {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }
    }
}
