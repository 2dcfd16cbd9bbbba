//! The list of ranges in the body of a `QUERY`, as the [module above](super) describes it.

use crate::vector::leb128::{self, NumberError, put, unzigzag, zigzag};
use std::ops::Range;

/// The wanted ranges of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeList {
    /// Ranges of bytes in the client's order; none is empty.
    pub ranges: Vec<Range<u64>>,
    /// Number of bytes also wanted at the end of the file.
    pub tail: u64,
}

/// A body that is not a valid list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeListError {
    /// The list ends within a number or a range.
    #[error("the list of ranges ends within range {range}")]
    Truncated {
        /// The range, counted from 0.
        range: usize,
    },
    /// A number has more than 64 bits.
    #[error("range {range} of the list has a number of more than 64 bits")]
    Overlong {
        /// The range, counted from 0.
        range: usize,
    },
    /// A range is empty.
    #[error("range {range} of the list is empty")]
    Empty {
        /// The range, counted from 0.
        range: usize,
    },
    /// A range starts before the file or ends beyond the largest file.
    #[error("range {range} of the list lies outside of any file")]
    OutOfBounds {
        /// The range, counted from 0.
        range: usize,
    },
    /// The list has more ranges than allowed.
    #[error("the list holds more than {most} ranges")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// The list has neither a range nor a tail.
    #[error("the list requests nothing")]
    Nothing,
}

impl RangeList {
    /// The maximum size in bytes of a list of this many ranges.
    #[must_use]
    pub const fn max_bytes(ranges: usize) -> usize {
        ranges.saturating_mul(2 * leb128::MAX_BYTES).saturating_add(leb128::MAX_BYTES)
    }

    /// Encodes the body. Skips empty ranges.
    ///
    /// ```
    /// use hither_http::vector::RangeList;
    /// let list = RangeList { ranges: vec![0..100, 300..310], tail: 0 };
    /// assert_eq!(list.encode(), [0, 0, 100, 0x90, 0x03, 10]);
    /// assert_eq!(RangeList::decode(&list.encode(), 2)?, list);
    /// # Ok::<(), hither_http::vector::RangeListError>(())
    /// ```
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(leb128::MAX_BYTES + 6 * self.ranges.len());
        put(&mut body, self.tail);
        let mut end = 0u64;
        for range in self.ranges.iter().filter(|range| range.start < range.end) {
            // The difference of two 64-bit numbers modulo 2^64: the reader's addition wraps back.
            put(&mut body, zigzag(range.start.wrapping_sub(end)));
            put(&mut body, range.end - range.start);
            end = range.end;
        }
        body
    }

    /// Parses a body that has at most `most` ranges, not counting the tail.
    ///
    /// # Errors
    /// See [`RangeListError`].
    pub fn decode(body: &[u8], most: usize) -> Result<Self, RangeListError> {
        let mut rest = body;
        let tail = take(&mut rest, 0)?;
        let mut ranges = Vec::with_capacity((rest.len() / 2).min(most));
        let mut end = 0u64;
        while !rest.is_empty() {
            let range = ranges.len();
            if range == most {
                return Err(RangeListError::TooMany { most });
            }
            let distance = unzigzag(take(&mut rest, range)?);
            let length = take(&mut rest, range)?;
            if length == 0 {
                return Err(RangeListError::Empty { range });
            }
            let start =
                end.checked_add_signed(distance).ok_or(RangeListError::OutOfBounds { range })?;
            end = start.checked_add(length).ok_or(RangeListError::OutOfBounds { range })?;
            ranges.push(start..end);
        }
        if ranges.is_empty() && tail == 0 {
            return Err(RangeListError::Nothing);
        }
        Ok(Self { ranges, tail })
    }
}

/// Splits the number off the front of `rest`, in range number `range`.
fn take(rest: &mut &[u8], range: usize) -> Result<u64, RangeListError> {
    leb128::take(rest).map_err(|error| match error {
        NumberError::Truncated => RangeListError::Truncated { range },
        NumberError::Overlong => RangeListError::Overlong { range },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ten_thousand_ranges_take_some_five_bytes_each() {
        let ranges = (0..10_000u64).map(|n| n * 100_000..n * 100_000 + 2_000).collect();
        let body = RangeList { ranges, tail: 0 }.encode();
        assert!(body.len() < 51_000, "{} bytes", body.len());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let decode = |body: &[u8]| RangeList::decode(body, 2).unwrap_err();
        assert_eq!(decode(b""), RangeListError::Truncated { range: 0 });
        assert_eq!(decode(b"\0"), RangeListError::Nothing);
        assert_eq!(decode(b"\0\x02"), RangeListError::Truncated { range: 0 });
        assert_eq!(decode(b"\0\x02\x80"), RangeListError::Truncated { range: 0 });
        assert_eq!(decode(b"\0\x02\0"), RangeListError::Empty { range: 0 });
        assert_eq!(decode(b"\0\x01\x01"), RangeListError::OutOfBounds { range: 0 });
        assert_eq!(decode(b"\0\0\x01\0\x01\0\x01"), RangeListError::TooMany { most: 2 });
        let overlong = [&b"\0"[..], &[0xff; 10], &[1]].concat();
        assert_eq!(decode(&overlong), RangeListError::Overlong { range: 0 });
        let far = [&b"\0\x02"[..], &[0xff; 9], &[1]].concat();
        assert_eq!(decode(&far), RangeListError::OutOfBounds { range: 0 });
        assert!(RangeList::decode(b"\x05", 0).is_ok_and(|list| list.tail == 5));
    }

    proptest! {
        #[test]
        fn lists_round_trip(
            ranges in prop::collection::vec((0..i64::MAX as u64, 1..1u64 << 40), 0..50),
            tail in 1..u64::MAX,
        ) {
            let ranges = ranges.into_iter().map(|(start, length)| start..start + length).collect();
            let list = RangeList { ranges, tail };
            let body = list.encode();
            prop_assert!(body.len() <= RangeList::max_bytes(list.ranges.len()));
            prop_assert_eq!(RangeList::decode(&body, 50), Ok(list));
        }

        #[test]
        fn any_bytes_are_a_list_or_refused(body in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(list) = RangeList::decode(&body, 20) {
                prop_assert!(list.ranges.len() <= 20);
                prop_assert!(list.ranges.iter().all(|range| range.start < range.end));
                prop_assert_eq!(RangeList::decode(&list.encode(), 20), Ok(list));
            }
        }
    }
}
