//! Vector reads: many ranges in one request, and their limits.

use crate::wire::{FieldReader, FileHandle, WireError};
use std::ops::Range;

/// Size of one element in a request, and of its head before the data in the response.
pub const SEGMENT_BYTES: usize = 16;
/// Maximum number of elements that every server accepts (`maxRvecsz`).
pub const MAX_ELEMENTS: usize = 1024;
/// Maximum size of an element unless the server states another (`maxRVdsz`): 2 MiB minus the
/// element's head.
pub const MAX_ELEMENT_BYTES: u32 = 2 * 1024 * 1024 - 16;

/// One element: a range of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub handle: FileHandle,
    /// The number of bytes.
    pub length: u32,
    /// The offset.
    pub offset: u64,
}

impl Segment {
    /// Decodes an element.
    ///
    /// # Errors
    /// The length or offset is negative.
    pub fn decode(bytes: &[u8; SEGMENT_BYTES]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("an element of a vector", bytes);
        Ok(Self {
            handle: FileHandle(fields.array()?),
            length: fields.length("the length of an element")?,
            offset: fields.offset("the offset of an element")?,
        })
    }

    /// Encodes the element.
    #[must_use]
    pub fn encode(&self) -> [u8; SEGMENT_BYTES] {
        let mut bytes = [0; SEGMENT_BYTES];
        bytes[..4].copy_from_slice(&self.handle.0);
        bytes[4..8].copy_from_slice(&self.length.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }
}

/// Limits of one vector read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorLimits {
    /// Maximum number of elements (`readv_iov_max`).
    pub elements: usize,
    /// Maximum size of an element (`readv_ior_max`).
    pub element_bytes: u32,
    /// Maximum size in all. Servers accept up to 2 GiB; less separates the responses of different
    /// requests in time.
    pub total_bytes: u64,
}

impl Default for VectorLimits {
    /// The limits that every server accepts.
    fn default() -> Self {
        Self {
            elements: MAX_ELEMENTS,
            element_bytes: MAX_ELEMENT_BYTES,
            total_bytes: 256 * 1024 * 1024,
        }
    }
}

impl VectorLimits {
    /// Clamps the limits to those that every server accepts, and to at least one byte of one
    /// element. Servers' own statements are unreliable: dCache states 178 million elements.
    #[must_use]
    pub fn clamped(self) -> Self {
        let usual = Self::default();
        Self {
            elements: self.elements.clamp(1, usual.elements),
            element_bytes: self.element_bytes.clamp(1, usual.element_bytes),
            total_bytes: self.total_bytes.clamp(1, usual.total_bytes),
        }
    }

    /// Distributes ranges over as few requests as the limits allow, in order; cuts ranges that are
    /// too long.
    ///
    /// Leaves out empty ranges.
    #[must_use]
    pub fn split(&self, ranges: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
        let limits = self.clamped();
        let mut requests: Vec<Vec<Range<u64>>> = Vec::new();
        let mut total = 0;
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start.saturating_add(limits.element_bytes.into()));
                let length = end - start;
                let full = requests.last().is_none_or(|request| {
                    request.len() >= limits.elements
                        || (!request.is_empty() && total + length > limits.total_bytes)
                });
                if full {
                    requests.push(Vec::new());
                    total = 0;
                }
                if let Some(request) = requests.last_mut() {
                    request.push(start..end);
                }
                total += length;
                start = end;
            }
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_hold_what_was_asked_in_order_and_within_limits(
            asked in prop::collection::vec((0..1_u64 << 40, 0..5_000_u64), 0..200),
            elements in 0..50_usize,
            element_bytes in 0..3_000_u32,
            total_bytes in 0..20_000_u64,
        ) {
            let ranges: Vec<_> = asked.iter().map(|(at, length)| *at..at + length).collect();
            let limits = VectorLimits { elements, element_bytes, total_bytes };
            let requests = limits.split(&ranges);
            for request in &requests {
                prop_assert!(!request.is_empty());
                prop_assert!(request.len() <= elements.max(1));
                let lengths: Vec<_> = request.iter().map(|range| range.end - range.start).collect();
                prop_assert!(lengths.iter().all(|length| (1..=element_bytes.max(1).into()).contains(length)));
                prop_assert!(request.len() == 1 || lengths.iter().sum::<u64>() <= total_bytes.max(1));
            }
            let mut seen = requests.into_iter().flatten();
            for range in ranges {
                let mut at = range.start;
                while at < range.end {
                    let piece = seen.next().unwrap();
                    prop_assert_eq!(piece.start, at);
                    prop_assert!(piece.end <= range.end);
                    at = piece.end;
                }
            }
            prop_assert!(seen.next().is_none());
        }
    }

    #[test]
    fn ten_thousand_ranges_take_ten_requests() {
        let ranges: Vec<_> = (0..10_000).map(|number| number * 100..number * 100 + 50).collect();
        let requests = VectorLimits::default().split(&ranges);
        assert_eq!(
            requests.iter().map(Vec::len).collect::<Vec<_>>(),
            [1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 784]
        );
    }
}
