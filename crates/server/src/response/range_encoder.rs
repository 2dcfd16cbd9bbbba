//! Encodes ranges of a file as a response: plain, as `multipart/byteranges`, or in frames.
//!
//! A response is made block by block, and a block in three steps:
//!
//! 1. It is laid out: which ranges of the file it holds, and at which positions, so that every byte
//!    is read to the position from which it is sent.
//! 2. It is read in the order of the file, whatever the order of the response; ranges close to each
//!    other are read as one.
//! 3. Its frames get their checksums.
//!
//! Frames come in the order of the file, since their reader accepts any: then the whole response
//! is read in the order of the disk. Parts come in the order of the request.
//!
//! Data in memory is read in place, without waiting. For data that is not in memory,
//! [`crate::response::readahead`] advises the kernel.

use crate::response::block::ResponseBlock;
use crate::response::body::{BlockSource, BlockTask, DiskWait};
use crate::response::page_cache::is_page_cached;
use crate::response::readahead::FadviseWindow;
use hither_http::multipart::writer::MultipartWriter;
use hither_http::vector::frames;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Reads from which on a block takes longer to make than another thread takes to wake.
const MANY_READS: usize = 16;

/// The encoding of the ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RangeFormat {
    /// The bytes alone.
    Plain,
    /// Each range as a part.
    Parts(MultipartWriter),
    /// Frames, after one with the size of the file.
    Frames {
        /// The size of the file.
        size: u64,
    },
}

impl RangeFormat {
    /// The length of a response with these ranges; frames hold `block` bytes.
    pub(crate) fn total_bytes(&self, ranges: &[Range<u64>], block: u64) -> u64 {
        let data: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let text = match self {
            Self::Plain => 0,
            Self::Parts(parts) => {
                let heads = ranges.iter().map(|range| parts.head_bytes(range) as u64);
                heads.sum::<u64>() + parts.end().len() as u64
            }
            Self::Frames { .. } => {
                let frames = ranges.iter().map(|range| (range.end - range.start).div_ceil(block));
                (1 + frames.sum::<u64>()) * frames::HEADER_BYTES as u64
            }
        };
        data + text
    }
}

/// Ranges of a file and their encoding.
#[derive(Debug)]
pub(crate) struct RangeEncoder {
    file: Arc<File>,
    form: RangeFormat,
    block: u64,
    ranges: Vec<Range<u64>>,
    /// The first range that is not laid out completely, and the offset where it continues.
    at: usize,
    from: u64,
    next: ResponseBlock,
    ahead: FadviseWindow,
    /// Bytes of the ranges in blocks that were taken.
    done: u64,
}

impl RangeEncoder {
    /// Encodes `ranges` of a file, none empty or beyond its end, in blocks of about `block` bytes.
    pub(crate) fn new(
        file: Arc<File>,
        form: RangeFormat,
        ranges: Vec<Range<u64>>,
        block: usize,
    ) -> Self {
        let block = block as u64;
        let from = ranges.first().map_or(0, |range| range.start);
        let next = ResponseBlock::new(Arc::clone(&file), false, block);
        let ahead = FadviseWindow::new(&ranges);
        let mut pieces = Self { file, form, block, ranges, at: 0, from, next, ahead, done: 0 };
        pieces.next = pieces.lay_out(true);
        pieces
    }

    /// The length of the whole response.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.form.total_bytes(&self.ranges, self.block)
    }

    /// Lays out the next block. Ranges are cut at multiples of the block length from their start,
    /// so that the number of frames is known beforehand.
    fn lay_out(&mut self, is_first: bool) -> ResponseBlock {
        let is_framed = matches!(self.form, RangeFormat::Frames { .. });
        let mut block = ResponseBlock::new(Arc::clone(&self.file), is_framed, self.block);
        if let (true, RangeFormat::Frames { size }) = (is_first, &self.form) {
            block.text(frames::preamble(*size).to_vec());
        }
        while let Some(range) = self.ranges.get(self.at) {
            let end = range.end.min(self.from.saturating_add(self.block));
            let head = match &self.form {
                RangeFormat::Parts(parts) if self.from == range.start => parts.head_bytes(range),
                RangeFormat::Parts(_) | RangeFormat::Plain => 0,
                RangeFormat::Frames { .. } => frames::HEADER_BYTES,
            };
            let len = usize::try_from(end - self.from).unwrap_or(usize::MAX);
            let room = self.block.saturating_sub(block.bytes() as u64);
            if !block.reads().is_empty() && (head as u64).saturating_add(end - self.from) > room {
                return block;
            }
            match &self.form {
                RangeFormat::Parts(parts) if head > 0 => {
                    block.text(parts.head(range).into_bytes());
                    block.piece(0, self.from, len);
                }
                _ => block.piece(head, self.from, len),
            }
            self.from = end;
            if end == range.end {
                self.at += 1;
                self.from = self.ranges.get(self.at).map_or(u64::MAX, |range| range.start);
            }
        }
        if let (RangeFormat::Parts(parts), false) = (&self.form, self.from == END) {
            self.from = END;
            block.text(parts.end().into_bytes());
        }
        block
    }

    /// Returns the next block, and lays out the one after it.
    fn following(&mut self) -> ResponseBlock {
        let following = self.lay_out(false);
        self.done += self.next.reads().iter().map(|read| read.len as u64).sum::<u64>();
        std::mem::replace(&mut self.next, following)
    }
}

/// The value of `from` when everything is laid out, including the text after the last part.
const END: u64 = u64::MAX - 1;

impl BlockSource for RangeEncoder {
    fn next_bytes(&self) -> usize {
        self.next.bytes()
    }

    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.ahead.advise(&self.file, &self.ranges, self.done)?;
        self.following().make(buffer, DiskWait::Yes)
    }

    fn is_page_cached(&self) -> bool {
        let first = self.next.reads().first();
        !self.ahead.is_on() && first.is_none_or(|read| is_page_cached(&self.file, read.offset))
    }

    fn take(&mut self) -> Option<Box<dyn BlockTask>> {
        Some(Box::new(self.following()))
    }

    fn set_block_bytes(&mut self, bytes: usize) {
        // The number of frames is announced with the length of the response.
        if !matches!(self.form, RangeFormat::Frames { .. }) {
            self.block = bytes as u64;
        }
    }

    fn is_expensive(&self) -> bool {
        self.next.reads().len() >= MANY_READS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hither_http::vector::frames::{FrameEvent, FrameReader};
    use hither_http::{MultipartEvent as PartEvent, MultipartReader};
    use proptest::prelude::*;
    use std::io::Write;
    use std::sync::LazyLock;

    const SIZE: usize = 100_000;

    fn content() -> &'static [u8] {
        static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
            (0..SIZE).map(|n| u8::try_from((n * n / 7 + n) % 251).unwrap()).collect()
        });
        &CONTENT
    }

    fn file() -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content()).unwrap();
        Arc::new(file)
    }

    /// The whole response, made in a buffer that is never clean.
    fn whole(mut pieces: RangeEncoder) -> Vec<u8> {
        let total = pieces.total_bytes();
        let mut buffer = vec![0xee; 10_000];
        let mut body = Vec::new();
        while pieces.next_bytes() > 0 {
            let expected = pieces.next_bytes();
            let filled = pieces.fill(&mut buffer).unwrap();
            assert_eq!(filled, expected);
            body.extend_from_slice(&buffer[..filled]);
        }
        assert_eq!(body.len() as u64, total, "the announced length");
        body
    }

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        let range = (0..SIZE as u64 - 1, 1..9_000u64);
        let range = range.prop_map(|(start, len)| start..(start + len).min(SIZE as u64));
        prop::collection::vec(range, 1..30)
    }

    proptest! {
        #[test]
        fn parts_come_in_the_order_of_the_request(ranges in ranges(), block in 500..20_000usize) {
            let parts = MultipartWriter::new(7, "application/octet-stream", SIZE as u64);
            let body = whole(RangeEncoder::new(file(), RangeFormat::Parts(parts), ranges.clone(), block));
            let mut parser = MultipartReader::new(b"0000000000000007").unwrap();
            let mut body = Bytes::from(body);
            let mut received = Vec::new();
            while let Some(event) = parser.next(&mut body).unwrap() {
                match event {
                    PartEvent::PartStart { range, .. } => received.push(range),
                    PartEvent::Data { offset, bytes } => {
                        let from = usize::try_from(offset).unwrap();
                        prop_assert!(bytes == content()[from..from + bytes.len()]);
                    }
                    _ => {}
                }
            }
            parser.finish().unwrap();
            prop_assert_eq!(received, ranges);
        }

        #[test]
        fn frames_hold_the_requested_ranges(ranges in ranges(), block in 500..20_000usize) {
            let form = RangeFormat::Frames { size: SIZE as u64 };
            let body = whole(RangeEncoder::new(file(), form, ranges.clone(), block));
            let mut frames = FrameReader::default();
            let mut body = Bytes::from(body);
            let mut received = 0;
            while let Some(event) = frames.next(&mut body).unwrap() {
                if let FrameEvent::Data { offset, bytes } = event {
                    let from = usize::try_from(offset).unwrap();
                    prop_assert!(bytes == content()[from..from + bytes.len()]);
                    received += bytes.len() as u64;
                }
            }
            frames.finish().unwrap();
            prop_assert_eq!(received, ranges.iter().map(|range| range.end - range.start).sum::<u64>());
        }

        #[test]
        fn one_range_is_sent_plain(start in 0..SIZE as u64 - 1, len in 1..SIZE as u64, block in 500..20_000usize) {
            let range = start..(start + len).min(SIZE as u64);
            let body = whole(RangeEncoder::new(file(), RangeFormat::Plain, vec![range.clone()], block));
            let from = usize::try_from(range.start).unwrap();
            let to = usize::try_from(range.end).unwrap();
            prop_assert!(body == content()[from..to]);
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let file = file();
        let mut pieces =
            RangeEncoder::new(Arc::clone(&file), RangeFormat::Plain, vec![0..SIZE as u64], 4096);
        file.set_len(5_000).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(pieces.fill(&mut buffer).unwrap(), 4096);
        assert_eq!(pieces.fill(&mut buffer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn no_ranges_make_an_empty_response() {
        assert_eq!(whole(RangeEncoder::new(file(), RangeFormat::Plain, vec![], 4096)), b"");
        let frames =
            whole(RangeEncoder::new(file(), RangeFormat::Frames { size: 5 }, vec![], 4096));
        assert_eq!(frames, frames::preamble(5));
    }
}
