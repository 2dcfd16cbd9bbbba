//! Limits of one request, and its cost.

use crate::LinkEstimate;
use crate::source::request_cost;

/// The limits of a [`Source`](crate::Source), and its prices.
///
/// The price of one more round trip and of one more range belong to the transport: a vector read of
/// 1,000 pieces costs one round trip, 1,000 single GETs cost many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of ranges in one request; at least 1.
    pub max_ranges: usize,
    /// Maximum length of the text of the ranges in bytes, as [`Limits::range_text_bytes`] counts
    /// them.
    pub max_header_bytes: usize,
    /// Maximum number of bytes in one range.
    pub max_range_bytes: u64,
    /// Maximum number of bytes in one request.
    pub max_total_bytes: u64,
    /// Cost of one more range, in bytes on the wire, both directions added: its framing in a
    /// request that holds many, all of the request where that holds only one.
    pub range_cost_bytes: u64,
}

impl Limits {
    /// No limits, free ranges: memory and local files.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self {
            max_ranges: usize::MAX,
            max_header_bytes: usize::MAX,
            max_range_bytes: u64::MAX,
            max_total_bytes: u64::MAX,
            range_cost_bytes: 0,
        }
    }

    /// These limits, with the cost of a request on this path where one more range is one more
    /// request: `at_once` may be in flight.
    #[must_use]
    pub fn priced(mut self, link: &LinkEstimate, at_once: usize) -> Self {
        if self.is_single()
            && let Some(cost) = request_cost::in_bytes(link, at_once)
        {
            self.range_cost_bytes = self.range_cost_bytes.max(cost);
        }
        self
    }

    /// Returns true if one more range is one more request.
    #[must_use]
    pub const fn is_single(&self) -> bool {
        self.max_ranges <= 1
    }

    /// Returns true if one request may hold these ranges.
    #[must_use]
    pub fn allow(&self, ranges: &[std::ops::Range<u64>]) -> bool {
        ranges.len() <= self.max_ranges
            && ranges.iter().map(Self::range_text_bytes).sum::<usize>() <= self.max_header_bytes
            && ranges.iter().all(|range| crate::range::len(range) <= self.max_range_bytes)
            && crate::range::total_bytes(ranges) <= self.max_total_bytes
    }

    /// The length in bytes of `range` in the text of a request: both positions in decimal, `-` and
    /// `,` (RFC 9110 section 14.1.2).
    #[must_use]
    pub fn range_text_bytes(range: &std::ops::Range<u64>) -> usize {
        digits(range.start) + digits(range.end.saturating_sub(1)) + 2
    }
}

fn digits(n: u64) -> usize {
    n.checked_ilog10().map_or(1, |log| log as usize + 1)
}
