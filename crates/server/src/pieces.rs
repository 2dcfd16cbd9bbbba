//! The bytes of a file in the form of an answer: as they are, as parts of `multipart/byteranges`, or as frames.
//!
//! The answer is made block by block, and a block in three steps. It is laid out: which pieces of the file it holds and
//! where they stand in it, so that every byte is read to where it is sent from. It is read, in the order of the file,
//! whatever the order of the answer is; pieces that lie close together are read as one. And the frames among it get their
//! sums. If the first piece is not in memory, the kernel is told of all the others, and of those of the next block, before
//! any is waited for: the disk sees them together.
//!
//! Frames come in the order of the file, since their reader does not care: then the order of the disk is that of the answer
//! over all blocks. Parts come in the order in which they were asked for.
//!
//! What is in memory is read without waiting, on the spot; one range as it is goes past this memory, if it is in the
//! kernel's. Of a long range that is not, the kernel is told some blocks before they are read: a disk that is asked for one
//! block at a time does nothing while that is handed on.

use crate::body::Supply;
use crate::shortcut::{self, is_near, reach};
use hither_http::byteranges::Byteranges;
use hither_http::vector::frames;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes between two pieces that are read along rather than read around.
const GAP_BYTES: u64 = 8 << 10;
/// Less than that is sooner copied than sent past memory.
const LEAST_PIECE_BYTES: u64 = 32 << 10;
/// Bytes of a range that the kernel is told of before they are read.
const AHEAD_BYTES: u64 = 4 << 20;

/// How the bytes are wrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Plain,
    /// Each range as a part.
    Parts(Byteranges),
    /// In frames, after one that tells the size of the file.
    Frames {
        /// The size of the file.
        size: u64,
    },
}

/// What of a file is sent, and how.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: Arc<File>,
    form: Form,
    block: u64,
    ranges: Vec<Range<u64>>,
    /// The first range that is not laid out, and where it goes on.
    at: usize,
    from: u64,
    next: Block,
    /// Up to where the kernel has been told of a range.
    told: u64,
    scratch: Vec<u8>,
}

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Yes,
    No,
}

/// A block that is laid out.
#[derive(Debug, Default)]
struct Block {
    bytes: usize,
    texts: Vec<(usize, Vec<u8>)>,
    reads: Vec<Read>,
}

/// A piece of the file and its place in the block.
#[derive(Debug, Clone, Copy)]
struct Read {
    to: usize,
    len: usize,
    offset: u64,
}

impl Read {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

impl Pieces {
    /// `ranges` of a file, none of them empty or beyond its end, in blocks of some `block` bytes.
    pub(crate) fn new(file: File, form: Form, ranges: Vec<Range<u64>>, block: usize) -> Self {
        let block = block as u64;
        let from = ranges.first().map_or(0, |range| range.start);
        let (file, next, scratch) = (Arc::new(file), Block::default(), Vec::new());
        let mut pieces = Self { file, form, block, ranges, at: 0, from, next, told: 0, scratch };
        pieces.next = pieces.lay_out(true);
        pieces
    }

    /// The length of the whole answer.
    pub(crate) fn total_bytes(&self) -> u64 {
        let data: u64 = self.ranges.iter().map(|range| range.end - range.start).sum();
        let text = match &self.form {
            Form::Plain => 0,
            Form::Parts(parts) => {
                let heads = self.ranges.iter().map(|range| parts.head_bytes(range) as u64);
                heads.sum::<u64>() + parts.end().len() as u64
            }
            Form::Frames { .. } => {
                let frames = self.ranges.iter();
                let frames = frames.map(|range| (range.end - range.start).div_ceil(self.block));
                (1 + frames.sum::<u64>()) * frames::HEADER_BYTES as u64
            }
        };
        data + text
    }

    /// The next block. Pieces are cut at multiples of the block from the start of their range, so that the number of frames
    /// is known beforehand.
    fn lay_out(&mut self, is_first: bool) -> Block {
        let mut block = Block::default();
        if let (true, Form::Frames { size }) = (is_first, &self.form) {
            block.text(frames::preamble(*size).to_vec());
        }
        while let Some(range) = self.ranges.get(self.at) {
            let end = range.end.min(self.from.saturating_add(self.block));
            let head = match &self.form {
                Form::Parts(parts) if self.from == range.start => parts.head_bytes(range),
                Form::Parts(_) | Form::Plain => 0,
                Form::Frames { .. } => frames::HEADER_BYTES,
            };
            let len = usize::try_from(end - self.from).unwrap_or(usize::MAX);
            let room = self.block.saturating_sub(block.bytes as u64);
            if !block.reads.is_empty() && (head as u64).saturating_add(end - self.from) > room {
                return block;
            }
            match &self.form {
                Form::Parts(parts) if head > 0 => block.text(parts.head(range).into_bytes()),
                _ => block.bytes += head,
            }
            block.reads.push(Read { to: block.bytes, len, offset: self.from });
            block.bytes += len;
            self.from = end;
            if end == range.end {
                self.at += 1;
                self.from = self.ranges.get(self.at).map_or(u64::MAX, |range| range.start);
            }
        }
        if let (Form::Parts(parts), false) = (&self.form, self.from == END) {
            self.from = END;
            block.text(parts.end().into_bytes());
        }
        block
    }

    fn read(&mut self, block: &Block, buffer: &mut [u8], wait: Wait) -> io::Result<()> {
        let mut reads = block.reads.clone();
        reads.sort_unstable_by_key(|read| read.offset);
        if wait == Wait::Yes {
            self.announce(&reads)?;
        }
        let mut rest = reads.as_slice();
        while let Some(first) = rest.first() {
            let mut end = first.end();
            let mut count = 1;
            for read in rest.iter().skip(1) {
                let close = read.offset <= end.saturating_add(GAP_BYTES);
                if !close || read.end().saturating_sub(first.offset) > self.block {
                    break;
                }
                end = end.max(read.end());
                count += 1;
            }
            let (group, after) = rest.split_at_checked(count).ok_or_else(misplaced)?;
            self.read_group(group, first.offset..end, buffer, wait)?;
            rest = after;
        }
        Ok(())
    }

    fn read_group(
        &mut self,
        group: &[Read],
        span: Range<u64>,
        buffer: &mut [u8],
        wait: Wait,
    ) -> io::Result<()> {
        if let [read] = group {
            return read_at(&self.file, slot(buffer, read.to, read.len)?, read.offset, wait);
        }
        let len = usize::try_from(span.end - span.start).map_err(|_| misplaced())?;
        if self.scratch.len() < len {
            self.scratch.resize(len, 0);
        }
        let scratch = self.scratch.get_mut(..len).ok_or_else(misplaced)?;
        read_at(&self.file, scratch, span.start, wait)?;
        for read in group {
            let from = usize::try_from(read.offset - span.start).map_err(|_| misplaced())?;
            let bytes = scratch.get(from..from + read.len).ok_or_else(misplaced)?;
            slot(buffer, read.to, read.len)?.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Tells the kernel what will be read, if it is not in memory.
    fn announce(&mut self, reads: &[Read]) -> io::Result<()> {
        let will_need = |file: &File, start: u64, end: u64| {
            fadvise(file, start, NonZeroU64::new(end.saturating_sub(start)), Advice::WillNeed)
        };
        let Some(first) = reads.first() else { return Ok(()) };
        if self.form == Form::Plain {
            let end = self.ranges.first().map_or(0, |range| range.end);
            let ahead = first.end().saturating_add(AHEAD_BYTES).min(end);
            if ahead > self.told.saturating_add(AHEAD_BYTES / 2)
                || (ahead == end && self.told < end)
            {
                will_need(&self.file, self.told.max(first.offset), ahead)?;
                self.told = ahead;
            }
        } else if reads.len() > 1 && !is_near(&self.file, first.offset) {
            for read in reads.iter().chain(&self.next.reads) {
                will_need(&self.file, read.offset, read.end())?;
            }
        }
        Ok(())
    }

    /// Makes a block, without waiting if so told: then an error of the kind `WouldBlock` says that it would have to.
    fn make(&mut self, block: &Block, buffer: &mut Vec<u8>, wait: Wait) -> io::Result<()> {
        if buffer.len() < block.bytes {
            buffer.resize(block.bytes, 0);
        }
        for (to, text) in &block.texts {
            slot(buffer, *to, text.len())?.copy_from_slice(text);
        }
        self.read(block, buffer, wait)?;
        match self.form {
            Form::Frames { .. } => Self::seal(block, buffer),
            Form::Plain | Form::Parts(_) => Ok(()),
        }
    }

    /// Writes the header of each frame before its data.
    fn seal(block: &Block, buffer: &mut [u8]) -> io::Result<()> {
        for read in &block.reads {
            let start = read.to.checked_sub(frames::HEADER_BYTES).ok_or_else(misplaced)?;
            let frame = slot(buffer, start, frames::HEADER_BYTES + read.len)?;
            let (head, data) = frame.split_at_mut(frames::HEADER_BYTES);
            let length = u32::try_from(read.len).map_err(|_| misplaced())?;
            head.copy_from_slice(&frames::header(read.offset, length, data));
        }
        Ok(())
    }
}

/// In place of where a range goes on: all is laid out, the text after the last part too.
const END: u64 = u64::MAX - 1;

impl Block {
    fn text(&mut self, text: Vec<u8>) {
        let to = self.bytes;
        self.bytes += text.len();
        self.texts.push((to, text));
    }
}

impl Supply for Pieces {
    fn next_bytes(&self) -> usize {
        self.next.bytes
    }

    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let following = self.lay_out(false);
        let block = std::mem::replace(&mut self.next, following);
        self.make(&block, buffer, Wait::Yes)?;
        Ok(block.bytes)
    }

    fn is_near(&self) -> bool {
        self.next.reads.first().is_none_or(|read| is_near(&self.file, read.offset))
    }

    fn fill_now(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let block = std::mem::take(&mut self.next);
        match self.make(&block, buffer, Wait::No) {
            Ok(()) => {
                self.next = self.lay_out(false);
                Ok(Some(block.bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.next = block;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn piece(&mut self) -> Option<(Arc<File>, Range<u64>)> {
        let (Form::Plain, [range], [read]) = (&self.form, &*self.ranges, &*self.next.reads) else {
            return None;
        };
        let end = range.end.min(read.offset.saturating_add(shortcut::MOST_BYTES as u64));
        if end - read.offset < LEAST_PIECE_BYTES {
            return None;
        }
        let reach = reach(&self.file, &(read.offset..end));
        if reach < read.end() {
            return None;
        }
        let piece = read.offset..reach;
        (self.at, self.from) = if reach < range.end { (0, reach) } else { (1, u64::MAX) };
        self.next = self.lay_out(false);
        Some((Arc::clone(&self.file), piece))
    }
}

/// Reads all of `buffer`.
fn read_at(file: &File, mut buffer: &mut [u8], mut offset: u64, wait: Wait) -> io::Result<()> {
    if wait == Wait::Yes {
        return file.read_exact_at(buffer, offset);
    }
    while !buffer.is_empty() {
        let slices = &mut [IoSliceMut::new(buffer)];
        let read = retry_on_intr(|| preadv2(file, slices, offset, ReadWriteFlags::NOWAIT));
        match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = buffer.get_mut(count..).unwrap_or_default();
                offset = offset.saturating_add(count as u64);
            }
            // This file system always waits.
            Err(Errno::OPNOTSUPP) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn slot(buffer: &mut [u8], to: usize, len: usize) -> io::Result<&mut [u8]> {
    buffer.get_mut(to..to + len).ok_or_else(misplaced)
}

/// The layout is wrong: a fault of this file.
fn misplaced() -> io::Error {
    io::Error::other("a piece of the answer has no place in its block")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hither_http::vector::frames::{Event, Frames};
    use hither_http::{Event as PartEvent, Multipart};
    use proptest::prelude::*;
    use std::io::Write;

    const SIZE: usize = 100_000;

    fn content() -> Vec<u8> {
        (0..SIZE).map(|n| u8::try_from((n * n / 7 + n) % 251).unwrap()).collect()
    }

    fn file() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content()).unwrap();
        file
    }

    /// The whole answer, through a buffer that is never clean.
    fn whole(mut pieces: Pieces) -> Vec<u8> {
        let total = pieces.total_bytes();
        let mut buffer = vec![0xee; 10_000];
        let mut body = Vec::new();
        while pieces.next_bytes() > 0 {
            let expected = pieces.next_bytes();
            let filled = pieces.fill(&mut buffer).unwrap();
            assert_eq!(filled, expected);
            body.extend_from_slice(&buffer[..filled]);
        }
        assert_eq!(body.len() as u64, total, "the length was told before");
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
            let parts = Byteranges::new(7, "application/octet-stream", SIZE as u64);
            let body = whole(Pieces::new(file(), Form::Parts(parts), ranges.clone(), block));
            let mut parser = Multipart::new(b"0000000000000007").unwrap();
            let (mut body, mut came) = (Bytes::from(body), Vec::new());
            while let Some(event) = parser.next(&mut body).unwrap() {
                match event {
                    PartEvent::PartStart { range, .. } => came.push(range),
                    PartEvent::Data { offset, bytes } => {
                        let from = usize::try_from(offset).unwrap();
                        prop_assert!(bytes == content()[from..from + bytes.len()]);
                    }
                    _ => {}
                }
            }
            parser.finish().unwrap();
            prop_assert_eq!(came, ranges);
        }

        #[test]
        fn frames_hold_what_was_asked_for(ranges in ranges(), block in 500..20_000usize) {
            let form = Form::Frames { size: SIZE as u64 };
            let body = whole(Pieces::new(file(), form, ranges.clone(), block));
            let (mut frames, mut body, mut came) = (Frames::default(), Bytes::from(body), 0);
            while let Some(event) = frames.next(&mut body).unwrap() {
                if let Event::Data { offset, bytes } = event {
                    let from = usize::try_from(offset).unwrap();
                    prop_assert!(bytes == content()[from..from + bytes.len()]);
                    came += bytes.len() as u64;
                }
            }
            frames.finish().unwrap();
            prop_assert_eq!(came, ranges.iter().map(|range| range.end - range.start).sum::<u64>());
        }

        #[test]
        fn one_range_comes_as_it_is(start in 0..SIZE as u64 - 1, len in 1..SIZE as u64, block in 500..20_000usize) {
            let range = start..(start + len).min(SIZE as u64);
            let body = whole(Pieces::new(file(), Form::Plain, vec![range.clone()], block));
            let (from, to) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
            prop_assert!(body == content()[from..to]);
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_not_other_bytes() {
        let file = file();
        let mut pieces =
            Pieces::new(file.try_clone().unwrap(), Form::Plain, vec![0..SIZE as u64], 4096);
        file.set_len(5_000).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(pieces.fill(&mut buffer).unwrap(), 4096);
        assert_eq!(pieces.fill(&mut buffer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(whole(Pieces::new(file(), Form::Plain, vec![], 4096)), b"");
        let frames = whole(Pieces::new(file(), Form::Frames { size: 5 }, vec![], 4096));
        assert_eq!(frames, frames::preamble(5));
    }
}
