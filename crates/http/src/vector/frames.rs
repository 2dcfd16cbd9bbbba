//! Reader and writer of the frames that the [module above](super) describes.
//!
//! Data is returned when its frame is complete and its checksum is correct: at most one frame is
//! incomplete, kept as slices of the pieces that were fed.

use super::MAX_FRAME_BYTES;
use bytes::Bytes;

/// Size of the header of a frame.
pub const HEADER_BYTES: usize = 16;

/// An event of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameEvent {
    /// The size of the file in bytes: the first event.
    Size(u64),
    /// Bytes of the file; never empty, the pieces of a frame in ascending order.
    Data {
        /// Their offset in the file.
        offset: u64,
        /// A slice of the piece that was fed.
        bytes: Bytes,
    },
}

/// A body that is not a valid framed response. The reader returns the same error again if it is fed
/// more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Bytes or their position were damaged.
    #[error(
        "the frame of {length} bytes at {offset} has the crc32c {computed:08x}, expected {stated:08x}"
    )]
    Damaged {
        /// The stated offset, which may be damaged.
        offset: u64,
        /// The stated length, which may be damaged.
        length: u32,
        /// The stated checksum.
        stated: u32,
        /// The computed checksum.
        computed: u32,
    },
    /// A frame is empty or too large, or lies beyond the end of the file.
    #[error(
        "a frame of {length} bytes at {offset} in a file of {size}, expected 1 to 1048576 in it"
    )]
    OutOfBounds {
        /// The offset of its data.
        offset: u64,
        /// The length of its data.
        length: u32,
        /// The size of the file.
        size: u64,
    },
    /// The first frame does not state the size of the file.
    #[error(
        "the response begins with a frame of {length} bytes, expected one that states the size"
    )]
    NoSize {
        /// The length of its data.
        length: u32,
    },
    /// The body ended within a frame.
    #[error("the response ended within a frame, {missing} bytes before its end")]
    Truncated {
        /// Number of missing bytes.
        missing: usize,
    },
}

/// The first frame of a response.
#[must_use]
pub fn preamble(size: u64) -> [u8; HEADER_BYTES] {
    header(size, 0, &[])
}

/// The header of a frame with `data` at `offset`; `length` is that of `data` (at most
/// [`MAX_FRAME_BYTES`]).
#[must_use]
pub fn header(offset: u64, length: u32, data: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (place, sum) = header.split_at_mut(12);
    place.copy_from_slice(&place_of(offset, length));
    sum.copy_from_slice(&crc32c::crc32c_append(crc32c::crc32c(place), data).to_be_bytes());
    header
}

fn place_of(offset: u64, length: u32) -> [u8; 12] {
    let mut place = [0; 12];
    let (first, second) = place.split_at_mut(8);
    first.copy_from_slice(&offset.to_be_bytes());
    second.copy_from_slice(&length.to_be_bytes());
    place
}

/// A frame that has not arrived completely.
#[derive(Debug)]
struct OpenFrame {
    offset: u64,
    length: u32,
    stated: u32,
    /// Checksum of the bytes that arrived.
    computed: u32,
    missing: usize,
    pieces: Vec<Bytes>,
}

/// The reader of one response.
#[derive(Debug, Default)]
pub struct FrameReader {
    size: Option<u64>,
    /// The bytes of a header that arrived in an earlier piece.
    header: Vec<u8>,
    frame: Option<OpenFrame>,
    /// Pieces of a complete frame that have not been returned, the last one first.
    ready: Vec<(u64, Bytes)>,
    failed: Option<FrameError>,
}

impl FrameReader {
    /// Takes the next event off the front of `piece`; `None` when the piece is used up.
    ///
    /// Call it until it returns `None`, then with the next piece, in the order of arrival.
    ///
    /// # Errors
    /// The body is not a valid framed response, or is damaged. Events returned before remain valid.
    pub fn next(&mut self, piece: &mut Bytes) -> Result<Option<FrameEvent>, FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let event = self.advance(piece);
        if let Err(error) = &event {
            self.failed = Some(error.clone());
        }
        event
    }

    /// Checks that the body ended between two frames, after the last piece.
    ///
    /// # Errors
    /// [`FrameError::Truncated`], or the error that reading ended with.
    pub fn finish(&self) -> Result<(), FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let missing = match (&self.frame, self.size) {
            (Some(frame), _) => frame.missing,
            (None, Some(_)) if self.header.is_empty() => return Ok(()),
            (None, _) => HEADER_BYTES.saturating_sub(self.header.len()),
        };
        Err(FrameError::Truncated { missing })
    }

    fn advance(&mut self, piece: &mut Bytes) -> Result<Option<FrameEvent>, FrameError> {
        loop {
            if let Some((offset, bytes)) = self.ready.pop() {
                return Ok(Some(FrameEvent::Data { offset, bytes }));
            }
            if piece.is_empty() {
                return Ok(None);
            }
            match self.frame.take() {
                Some(frame) => self.data(frame, piece)?,
                None => {
                    let Some((offset, length, stated)) = self.place(piece) else { return Ok(None) };
                    if let Some(size) = self.begin(offset, length, stated)? {
                        return Ok(Some(FrameEvent::Size(size)));
                    }
                }
            }
        }
    }

    /// The header of a frame, once it is complete.
    fn place(&mut self, piece: &mut Bytes) -> Option<(u64, u32, u32)> {
        let taken = piece.split_to((HEADER_BYTES - self.header.len()).min(piece.len()));
        self.header.extend_from_slice(&taken);
        let (offset, rest) = self.header.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (sum, _) = rest.split_first_chunk::<4>()?;
        let place =
            (u64::from_be_bytes(*offset), u32::from_be_bytes(*length), u32::from_be_bytes(*sum));
        self.header.clear();
        Some(place)
    }

    fn begin(&mut self, offset: u64, length: u32, stated: u32) -> Result<Option<u64>, FrameError> {
        let computed = crc32c::crc32c(&place_of(offset, length));
        let Some(size) = self.size else {
            if length > 0 {
                return Err(FrameError::NoSize { length });
            }
            if computed != stated {
                return Err(FrameError::Damaged { offset, length, stated, computed });
            }
            self.size = Some(offset);
            return Ok(Some(offset));
        };
        let inside = offset.checked_add(u64::from(length)).is_some_and(|end| end <= size);
        if length == 0 || length > MAX_FRAME_BYTES || !inside {
            return Err(FrameError::OutOfBounds { offset, length, size });
        }
        let missing = usize::try_from(length).unwrap_or(usize::MAX);
        self.frame =
            Some(OpenFrame { offset, length, stated, computed, missing, pieces: Vec::new() });
        Ok(None)
    }

    fn data(&mut self, mut frame: OpenFrame, piece: &mut Bytes) -> Result<(), FrameError> {
        let bytes = piece.split_to(frame.missing.min(piece.len()));
        frame.computed = crc32c::crc32c_append(frame.computed, &bytes);
        frame.missing -= bytes.len();
        frame.pieces.push(bytes);
        if frame.missing > 0 {
            self.frame = Some(frame);
            return Ok(());
        }
        let OpenFrame { offset, length, stated, computed, pieces, .. } = frame;
        if stated != computed {
            return Err(FrameError::Damaged { offset, length, stated, computed });
        }
        let mut at = offset;
        for bytes in pieces {
            let next = at.saturating_add(bytes.len() as u64);
            self.ready.push((at, bytes));
            at = next;
        }
        self.ready.reverse();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(offset: u64, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap();
        [&header(offset, length, data)[..], data].concat()
    }

    /// The result of a body that arrives in pieces of `step` bytes.
    fn read(body: &[u8], step: usize) -> Result<Vec<FrameEvent>, FrameError> {
        let mut frames = FrameReader::default();
        let mut events = Vec::new();
        for piece in body.chunks(step) {
            let mut piece = Bytes::copy_from_slice(piece);
            while let Some(event) = frames.next(&mut piece)? {
                events.push(event);
            }
            assert!(piece.is_empty());
        }
        frames.finish().map(|()| events)
    }

    #[test]
    fn one_flipped_bit_anywhere_is_seen() {
        let body = [preamble(100).to_vec(), frame(7, b"hello"), frame(90, b"you")].concat();
        for bit in 0..body.len() * 8 {
            let mut damaged = body.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged, 1000).is_err(), "bit {bit}");
        }
        for length in 0..body.len() {
            let cut = [HEADER_BYTES, HEADER_BYTES + 21];
            assert_eq!(
                read(&body[..length], 1000).is_ok(),
                cut.contains(&length),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn frames_beyond_their_bounds_are_refused() {
        let body = [preamble(10).to_vec(), frame(9, b"ab")].concat();
        assert_eq!(read(&body, 5), Err(FrameError::OutOfBounds { offset: 9, length: 2, size: 10 }));
        let body = [preamble(10).to_vec(), preamble(10).to_vec()].concat();
        assert_eq!(
            read(&body, 5),
            Err(FrameError::OutOfBounds { offset: 10, length: 0, size: 10 })
        );
        assert_eq!(read(&frame(0, b"a"), 5), Err(FrameError::NoSize { length: 1 }));
        let large = vec![0; 1 + usize::try_from(MAX_FRAME_BYTES).unwrap()];
        let body = [preamble(1 << 30).to_vec(), frame(0, &large)].concat();
        assert!(matches!(read(&body, 4096), Err(FrameError::OutOfBounds { .. })));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_cut(
            sent in prop::collection::vec((0..1u64 << 40, prop::collection::vec(any::<u8>(), 1..60)), 0..8),
            step in 1..70usize,
        ) {
            let mut body = preamble(1 << 41).to_vec();
            for (offset, data) in &sent {
                body.extend(frame(*offset, data));
            }
            let mut events = read(&body, step).unwrap().into_iter();
            prop_assert_eq!(events.next(), Some(FrameEvent::Size(1 << 41)));
            for (offset, data) in sent {
                let mut came = Vec::new();
                while came.len() < data.len() {
                    let Some(FrameEvent::Data { offset: at, bytes }) = events.next() else { panic!("no data") };
                    prop_assert_eq!(at, offset + came.len() as u64);
                    came.extend_from_slice(&bytes);
                }
                prop_assert_eq!(came, data);
            }
            prop_assert_eq!(events.next(), None);
        }
    }
}
