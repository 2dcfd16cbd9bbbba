//! Writer of a `Range` field (RFC 9110 section 14.2).
//!
//! It writes no blanks and no leading zeros, so that the length of the text follows from the
//! numbers alone. Planners cut requests by that length, because servers limit the header, not the
//! number of ranges.

use std::fmt::Write as _;
use std::ops::Range;

/// The unit and the `=` before the first range.
const UNIT: &str = "bytes=";

/// A range without bytes, which `Range` cannot express, or no range at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeHeaderError {
    /// Neither a range nor a tail was given.
    #[error("no range to request: give at least one range or a tail")]
    Nothing,
    /// A range without bytes. Omit it: nothing has to be fetched for it.
    #[error("the range {start}..{end} is empty and cannot be requested: leave it out")]
    Empty {
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
    },
    /// A tail of no bytes, which RFC 9110 calls unsatisfiable.
    #[error("a tail of 0 bytes cannot be requested: leave it out")]
    EmptyTail,
}

/// Writes the value of a `Range` field for `ranges`, in their order, and for the last `tail` bytes
/// of the file.
///
/// ```
/// use hither_http::range_header::format;
/// assert_eq!(format(&[0..100, 200..201], Some(13_000))?, "bytes=0-99,200-200,-13000");
/// # Ok::<(), hither_http::range_header::RangeHeaderError>(())
/// ```
///
/// # Errors
/// A range or the tail is empty, or there is none.
pub fn format(ranges: &[Range<u64>], tail: Option<u64>) -> Result<String, RangeHeaderError> {
    let mut text = String::with_capacity(UNIT.len() + text_bytes(ranges, tail));
    text.push_str(UNIT);
    for range in ranges {
        let last = range
            .end
            .checked_sub(1)
            .filter(|last| *last >= range.start)
            .ok_or(RangeHeaderError::Empty { start: range.start, end: range.end })?;
        separate(&mut text);
        // Writing to a String cannot fail.
        let _ = write!(text, "{}-{last}", range.start);
    }
    match tail {
        Some(0) => return Err(RangeHeaderError::EmptyTail),
        Some(bytes) => {
            separate(&mut text);
            let _ = write!(text, "-{bytes}");
        }
        None if ranges.is_empty() => return Err(RangeHeaderError::Nothing),
        None => {}
    }
    Ok(text)
}

fn separate(text: &mut String) {
    if text.len() > UNIT.len() {
        text.push(',');
    }
}

/// Length of the text of one range: both positions, `-`, and the `,` before the next range.
#[must_use]
pub fn range_text_bytes(range: &Range<u64>) -> usize {
    digits(range.start) + digits(range.end.saturating_sub(1)) + 2
}

/// Length of the text of a tail: its number, `-` and `,`.
#[must_use]
pub fn tail_text_bytes(tail: u64) -> usize {
    digits(tail) + 2
}

/// Length of the text after `bytes=` that [`format()`] writes for ranges that are not empty.
///
/// The sum of [`range_text_bytes`] and [`tail_text_bytes`] is larger by one: the last range has no
/// `,`.
#[must_use]
pub fn text_bytes(ranges: &[Range<u64>], tail: Option<u64>) -> usize {
    let ranges: usize = ranges.iter().map(range_text_bytes).sum();
    (ranges + tail.map_or(0, tail_text_bytes)).saturating_sub(1)
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn writes_inclusive_ends_without_blanks() {
        assert_eq!(format(&[0..1, 3..5], None).unwrap(), "bytes=0-0,3-4");
        assert_eq!(format(&[5..10, 0..2], None).unwrap(), "bytes=5-9,0-1");
        assert_eq!(format(&[], Some(7)).unwrap(), "bytes=-7");
        assert_eq!(
            format(&[0..1, 0..u64::MAX], Some(u64::MAX)).unwrap(),
            "bytes=0-0,0-18446744073709551614,-18446744073709551615"
        );
    }

    #[test]
    fn refuses_what_the_field_cannot_say() {
        assert_eq!(format(&[], None), Err(RangeHeaderError::Nothing));
        assert_eq!(format(&[0..1, 3..5], Some(0)), Err(RangeHeaderError::EmptyTail));
        for (start, end) in [(0, 0), (7, 7), (7, 3)] {
            let backwards = Range { start, end };
            let refused = format(std::slice::from_ref(&backwards), None);
            assert_eq!(refused, Err(RangeHeaderError::Empty { start, end }));
        }
    }

    proptest! {
        #[test]
        fn text_length_is_exact(
            ranges in prop::collection::vec((0..u64::MAX - 1, 1..u64::MAX), 0..20),
            tail in prop::option::of(1..u64::MAX),
        ) {
            let ranges: Vec<Range<u64>> =
                ranges.into_iter().map(|(start, length)| start..start.saturating_add(length)).collect();
            if let Ok(text) = format(&ranges, tail) {
                prop_assert_eq!(text.len(), UNIT.len() + text_bytes(&ranges, tail));
            } else {
                prop_assert!(ranges.is_empty() && tail.is_none());
            }
        }
    }
}
