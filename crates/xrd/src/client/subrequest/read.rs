//! A range without checksums.

use super::{Emptiness, Sink};
use crate::wire::{FileHandle, Request, WireError};
use bytes::Bytes;
use std::ops::Range;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::client) struct Read {
    /// The range still to arrive. Invariant: at most 2 GiB.
    left: Range<u64>,
    frames: Emptiness,
}

impl Read {
    /// Maximum range of one request.
    pub(in crate::client) const MAX_BYTES: u64 = 1 << 30;

    pub(in crate::client) fn new(range: Range<u64>) -> Self {
        Self { left: range, frames: Emptiness::default() }
    }

    pub(super) fn request(&self, handle: FileHandle) -> Request {
        let length = self.left.end.saturating_sub(self.left.start).min(Self::MAX_BYTES);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Request::Read { handle, offset: self.left.start, length }
    }

    pub(super) fn data(&mut self, bytes: Bytes, sink: &mut Sink<'_>) -> Result<(), WireError> {
        self.frames.data();
        let length = bytes.len() as u64;
        let wanted = self.left.end.saturating_sub(self.left.start);
        if length > wanted {
            return Err(WireError::TooLarge {
                what: "answer to a read in bytes",
                seen: length,
                limit: wanted,
            });
        }
        sink.data(self.left.start, bytes);
        self.left.start += length;
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), WireError> {
        self.frames.end()
    }

    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        if self.left.is_empty() { Vec::new() } else { vec![self.left.clone()] }
    }
}
