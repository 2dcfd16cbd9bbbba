//! Delivery of a response in parts that arrive together.

use bytes::Bytes;
use hither_core::{Part, PartSink};
use std::collections::VecDeque;
use std::ops::Range;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The bytes of a file.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Bytes(Bytes),
    Zeros(u64),
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(size) => *size,
        }
    }

    /// A non-empty beginning of a range within the file.
    fn beginning(&self, range: &Range<u64>) -> Bytes {
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        match self {
            Self::Bytes(bytes) => bytes.slice(index(range.start)..index(range.end)),
            Self::Zeros(_) => {
                let length = index(range.end - range.start).min(ZEROS.len());
                Bytes::from_static(&ZEROS).slice(..length)
            }
        }
    }
}

/// The bytes of a response, in order.
pub(super) struct Parts<'a> {
    pub(super) content: &'a Content,
    /// Invariant: not empty, and within the file.
    pub(super) ranges: VecDeque<Range<u64>>,
}

impl Parts<'_> {
    /// Delivers the next `count` bytes.
    pub(super) fn take(&mut self, mut count: u64, sink: &mut PartSink) {
        while count > 0
            && let Some(range) = self.ranges.front_mut()
        {
            let end = range.end.min(range.start + count);
            let bytes = self.content.beginning(&(range.start..end));
            let length = bytes.len() as u64;
            sink(Part { offset: range.start, bytes });
            count -= length;
            range.start += length;
            if range.start == range.end {
                self.ranges.pop_front();
            }
        }
    }
}
