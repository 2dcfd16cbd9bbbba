//! Bytes that are not delivered before the rest of their response confirms them.
//!
//! A response may contradict itself: it is complete by its framing, and has less data than its
//! label, as where a proxy has put an error page in place of the data. If its head states the
//! length, this shows at once; if not, when its end or the delimiter of the part has come. Bytes
//! that were delivered count as those of the file, and cannot be taken back. So they are held until
//! then, and dropped with a response that contradicts itself.
//!
//! A connection that breaks contradicts nothing: what had arrived is delivered.

use crate::http::delivery::Delivery;
use bytes::Bytes;
use hither_core::error::{Error, Failure};

/// The most bytes of one response that are held. A request of a reader has a quarter of it, a block
/// of a copy no more.
pub(super) const MAX_HELD_BYTES: u64 = 64 << 20;

/// Bytes of one response, with their positions, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct HeldBytes {
    pieces: Vec<(u64, Bytes)>,
    bytes: u64,
}

impl HeldBytes {
    /// The number of bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes at `offset`.
    pub(super) fn hold(&mut self, offset: u64, bytes: Bytes) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.pieces.push((offset, bytes));
    }

    /// Adds those of `other`, which is empty then.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        other.bytes = 0;
        self.pieces.append(&mut other.pieces);
    }

    /// Delivers all of them.
    pub(super) fn deliver(&mut self, delivery: &mut Delivery<'_>) {
        self.bytes = 0;
        for (offset, bytes) in self.pieces.drain(..) {
            delivery.deliver(offset, bytes);
        }
    }

    /// The offset of the first byte, and a copy of all of them, which are adjacent.
    pub(super) fn joined(&self) -> Option<(u64, Bytes)> {
        let (offset, _) = self.pieces.first()?;
        let pieces: Vec<_> = self.pieces.iter().map(|(_, bytes)| bytes.as_ref()).collect();
        Some((*offset, pieces.concat().into()))
    }
}

/// Returns true for the error of a connection that broke, or fell silent, in the middle of a
/// response.
pub(super) fn is_interrupted(error: &Error) -> bool {
    matches!(error.failure(), Failure::Interrupted(_))
}
