//! Delivery of a response in the parts that arrive together.

use bytes::Bytes;
use hither_core::{Part, PartSink};
use std::collections::VecDeque;
use std::ops::Range;

/// The bytes of a response, in order.
pub(super) struct Parts<'a> {
    pub(super) bytes: &'a Bytes,
    pub(super) ranges: VecDeque<Range<u64>>,
}

impl Parts<'_> {
    /// Delivers the next `count` bytes.
    pub(super) fn take(&mut self, mut count: u64, sink: &mut PartSink) {
        while count > 0
            && let Some(range) = self.ranges.front_mut()
        {
            let end = range.end.min(range.start + count);
            let place = usize::try_from(range.start).ok().zip(usize::try_from(end).ok());
            // The ranges were checked before sending.
            if let Some((start, end)) = place.filter(|(_, end)| *end <= self.bytes.len()) {
                sink(Part { offset: range.start, bytes: self.bytes.slice(start..end) });
            }
            count -= end - range.start;
            range.start = end;
            if range.start == range.end {
                self.ranges.pop_front();
            }
        }
    }
}
