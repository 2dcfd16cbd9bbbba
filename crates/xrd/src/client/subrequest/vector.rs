//! A vector read. The response states the element of each piece, so their order is free.

use super::{Emptiness, Sink};
use crate::wire::{FileHandle, Request, SEGMENT_BYTES, Segment, WireError};
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// One element.
#[derive(Debug)]
struct Element {
    /// The part of it still to arrive.
    left: Range<u64>,
    /// Its data has begun to arrive.
    begun: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(in crate::client) struct Vector {
    handle: FileHandle,
    /// The elements in the order of the request.
    elements: Vec<Element>,
    /// Index before which all elements have begun: the search starts here.
    next: usize,
    /// The incomplete head of a segment. Invariant: fewer than [`SEGMENT_BYTES`].
    head: BytesMut,
    /// The element that the data belongs to, and the number of bytes still to arrive.
    current: Option<(usize, u64)>,
    frames: Emptiness,
}

impl Vector {
    pub(in crate::client) fn new(ranges: Vec<Range<u64>>) -> Self {
        let elements = ranges.into_iter().map(|left| Element { left, begun: false }).collect();
        Self {
            handle: FileHandle::default(),
            elements,
            next: 0,
            head: BytesMut::new(),
            current: None,
            frames: Emptiness::default(),
        }
    }

    pub(super) fn request(&mut self, handle: FileHandle) -> Request {
        let left = self.missing();
        *self = Self { handle, ..Self::new(left) };
        let segments = self.elements.iter().map(|element| Segment {
            handle,
            // VectorLimits keeps elements below 2 MiB.
            length: u32::try_from(element.left.end - element.left.start).unwrap_or(u32::MAX),
            offset: element.left.start,
        });
        Request::ReadVector(segments.collect())
    }

    pub(super) fn data(&mut self, mut bytes: Bytes, sink: &mut Sink<'_>) -> Result<(), WireError> {
        self.frames.data();
        while !bytes.is_empty() {
            if let Some((index, left)) = self.current {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let piece = bytes.split_to(count);
                let left = left - piece.len() as u64;
                self.current = (left > 0).then_some((index, left));
                if let Some(element) = self.elements.get_mut(index) {
                    let offset = element.left.start;
                    element.left.start += piece.len() as u64;
                    sink.data(offset, piece);
                }
                continue;
            }
            let count = (SEGMENT_BYTES - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes.split_to(count));
            if let Some(head) = self.head.first_chunk() {
                let segment = Segment::decode(head)?;
                self.head.clear();
                self.place(&segment)?;
            }
        }
        Ok(())
    }

    /// Finds the element of a segment of the response.
    fn place(&mut self, segment: &Segment) -> Result<(), WireError> {
        let length = u64::from(segment.length);
        let requested = |element: &Element| {
            let begins = !element.begun && element.left.start == segment.offset;
            begins.then_some(element.left.end - element.left.start)
        };
        // Of several elements that begin there, the one with the same length; a shorter segment
        // belongs to a range beyond the end of the file.
        let is_whole = |element: &Element| requested(element) == Some(length);
        let is_part = |element: &Element| requested(element).is_some_and(|all| length < all);
        let next = self.next;
        let in_order = self.elements.get(next).is_some_and(is_whole);
        let search = || {
            let mut elements = self.elements.iter();
            elements.position(is_whole).or_else(|| self.elements.iter().position(is_part))
        };
        let found = if in_order { Some(next) } else { search() };
        let unasked = || {
            let Segment { handle, length, offset } = segment;
            let seen = format!("{length} bytes at {offset} of {handle:?}");
            WireError::number("a segment of a vector read", seen, "one that was asked for")
        };
        let index = found.filter(|_| segment.handle == self.handle).ok_or_else(unasked)?;
        if let Some(element) = self.elements.get_mut(index) {
            element.begun = true;
        }
        while self.elements.get(self.next).is_some_and(|element| element.begun) {
            self.next += 1;
        }
        self.current = (length > 0).then_some((index, length));
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), WireError> {
        self.frames.end()
    }

    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        let left = self.elements.iter().map(|element| &element.left);
        left.filter(|left| !left.is_empty()).cloned().collect()
    }

    pub(super) fn finish(&self) -> Result<Vec<Range<u64>>, WireError> {
        if self.current.is_some() || !self.head.is_empty() {
            let seen = "ended amid a segment";
            return Err(WireError::number("the answer to a vector read", seen, "whole segments"));
        }
        Ok(self.missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::event::RequestId;
    use std::collections::VecDeque;

    fn segment(offset: u64, bytes: &[u8]) -> Bytes {
        let length = u32::try_from(bytes.len()).unwrap();
        let head = Segment { handle: FileHandle::default(), length, offset }.encode();
        Bytes::from([&head[..], bytes].concat())
    }

    #[test]
    fn ranges_with_the_same_start_are_distinguished_by_their_lengths() {
        let mut vector = Vector::new(vec![5..9, 5..7, 20..30]);
        let mut events = VecDeque::new();
        let mut sink = Sink { request_id: RequestId(9), events: &mut events };
        for answer in [segment(5, b"56"), segment(20, b"end"), segment(5, b"5678")] {
            vector.data(answer, &mut sink).unwrap();
        }
        assert_eq!(vector.finish().unwrap(), [23..30]);
        assert_eq!(events.len(), 3);
    }
}
