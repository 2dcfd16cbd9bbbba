//! Bytes waiting to be written to a connection.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Payloads of at least this size stay separate pieces. Smaller ones are appended to a buffer, so
/// that thousands of requests become a few pieces.
const OWN_PIECE_BYTES: usize = 8 * 1024;

/// Bytes waiting to be written, in order. It is a [`Buf`]: write from [`Buf::chunk`] or
/// [`Buf::chunks_vectored`], and [`Buf::advance`] by the number of bytes written; `write_buf` of
/// asynchronous writers does exactly that.
///
/// Its size is bounded by the amount that the driver submits before it writes.
#[derive(Debug, Default)]
pub struct WriteQueue {
    pieces: VecDeque<Bytes>,
    /// The small payloads after the pieces.
    tail: BytesMut,
    /// All bytes in the pieces and the tail.
    length: usize,
}

impl WriteQueue {
    /// Appends a few bytes by copying.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.tail.put_slice(bytes);
        self.length += bytes.len();
    }

    /// Appends bytes, without a copy if they are many.
    pub(crate) fn put_bytes(&mut self, bytes: Bytes) {
        if bytes.len() < OWN_PIECE_BYTES {
            self.put(&bytes);
            return;
        }
        self.seal();
        self.length += bytes.len();
        self.pieces.push_back(bytes);
    }

    /// Takes everything as one piece: a copy if there are several.
    pub fn take_all(&mut self) -> Bytes {
        self.copy_to_bytes(self.length)
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
    }
}

impl Buf for WriteQueue {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&self.tail, |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pieces = self.pieces.iter().map(AsRef::as_ref).chain([self.tail.as_ref()]);
        let mut used = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces.filter(|piece| !piece.is_empty())) {
            *slice = IoSlice::new(piece);
            used += 1;
        }
        used
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.length, "advance by {count} bytes of {}", self.length);
        self.length -= count;
        while count > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                self.tail.advance(count);
                return;
            };
            let step = count.min(piece.len());
            piece.advance(step);
            count -= step;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        if self.pieces.is_empty() && length <= self.tail.len() {
            self.length -= length;
            return self.tail.split_to(length).freeze();
        }
        if self.pieces.front().is_some_and(|piece| piece.len() == length) {
            self.length -= length;
            return self.pieces.pop_front().unwrap_or_default();
        }
        let mut copied = BytesMut::with_capacity(length);
        copied.put(self.take(length));
        copied.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_any_pieces(
            sizes in prop::collection::vec(prop_oneof![0..100_usize, 8_000..9_000_usize], 0..20),
            steps in prop::collection::vec(1..5_000_usize, 1..100),
        ) {
            let mut outgoing = WriteQueue::default();
            let mut expected = Vec::new();
            for (number, size) in sizes.iter().enumerate() {
                let bytes: Vec<u8> = (0..*size).map(|at| ((at + number) % 256).try_into().unwrap()).collect();
                expected.extend_from_slice(&bytes);
                outgoing.put_bytes(bytes.into());
            }
            let mut seen = Vec::new();
            for step in steps.iter().cycle() {
                prop_assert_eq!(outgoing.remaining(), expected.len() - seen.len());
                if !outgoing.has_remaining() {
                    break;
                }
                let mut slices = [IoSlice::new(&[]); 4];
                let used = outgoing.chunks_vectored(&mut slices);
                prop_assert_eq!(&*slices[0], outgoing.chunk());
                let there: Vec<u8> =
                    slices[..used].iter().flat_map(|slice| slice.iter().copied()).collect();
                let step = there.len().min(*step);
                seen.extend_from_slice(&there[..step]);
                outgoing.advance(step);
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
