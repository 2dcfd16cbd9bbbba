//! One block of a response that the [encoder](crate::response::range_encoder) has laid out. A block
//! is made without the blocks before and after it, so two of one response can be made in parallel.

use crate::response::body::{BlockTask, DiskWait};
use hither_http::vector::frames;
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The gap between two ranges below which they are read as one.
const GAP_BYTES: u64 = 8 << 10;

/// A block: texts, and ranges of a file with their positions.
#[derive(Debug)]
pub(crate) struct ResponseBlock {
    file: Arc<File>,
    /// The maximum number of bytes that one read covers.
    max_read_bytes: u64,
    /// Set if every range follows the header of a frame.
    is_framed: bool,
    bytes: usize,
    texts: Vec<(usize, Vec<u8>)>,
    reads: Vec<Read>,
}

/// A range of the file and its position in the block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) to: usize,
    pub(crate) len: usize,
    pub(crate) offset: u64,
}

impl Read {
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

impl ResponseBlock {
    /// An empty block.
    pub(crate) fn new(file: Arc<File>, is_framed: bool, max_read_bytes: u64) -> Self {
        Self { file, max_read_bytes, is_framed, bytes: 0, texts: Vec::new(), reads: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Appends text.
    pub(crate) fn text(&mut self, text: Vec<u8>) {
        let to = self.bytes;
        self.bytes += text.len();
        self.texts.push((to, text));
    }

    /// Appends `len` bytes of the file, after `head` bytes for the header of their frame.
    pub(crate) fn piece(&mut self, head: usize, offset: u64, len: usize) {
        self.bytes += head;
        self.reads.push(Read { to: self.bytes, len, offset });
        self.bytes += len;
    }

    fn read(&self, buffer: &mut [u8], wait: DiskWait) -> io::Result<()> {
        let mut reads = self.reads.clone();
        reads.sort_unstable_by_key(|read| read.offset);
        let mut rest = reads.as_slice();
        let mut scratch = Vec::new();
        while let Some(first) = rest.first() {
            let mut end = first.end();
            let mut count = 1;
            for read in rest.iter().skip(1) {
                let close = read.offset <= end.saturating_add(GAP_BYTES);
                if !close || read.end().saturating_sub(first.offset) > self.max_read_bytes {
                    break;
                }
                end = end.max(read.end());
                count += 1;
            }
            let (group, after) = rest.split_at_checked(count).ok_or_else(misplaced)?;
            match group {
                [read] => {
                    let slot = slot(buffer, read.to, read.len)?;
                    read_at(&self.file, slot, read.offset, wait)?;
                }
                _ => self.read_group(group, first.offset..end, buffer, &mut scratch, wait)?,
            }
            if self.is_framed {
                // Now, while the bytes are in the processor's cache.
                group.iter().try_for_each(|read| Self::seal(read, buffer))?;
            }
            rest = after;
        }
        Ok(())
    }

    fn read_group(
        &self,
        group: &[Read],
        span: Range<u64>,
        buffer: &mut [u8],
        scratch: &mut Vec<u8>,
        wait: DiskWait,
    ) -> io::Result<()> {
        let len = usize::try_from(span.end - span.start).map_err(|_| misplaced())?;
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let scratch = scratch.get_mut(..len).ok_or_else(misplaced)?;
        read_at(&self.file, scratch, span.start, wait)?;
        for read in group {
            let from = usize::try_from(read.offset - span.start).map_err(|_| misplaced())?;
            let bytes = scratch.get(from..from + read.len).ok_or_else(misplaced)?;
            slot(buffer, read.to, read.len)?.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Writes the header of a frame before its data, with their checksum.
    fn seal(read: &Read, buffer: &mut [u8]) -> io::Result<()> {
        let start = read.to.checked_sub(frames::HEADER_BYTES).ok_or_else(misplaced)?;
        let frame = slot(buffer, start, frames::HEADER_BYTES + read.len)?;
        let (head, data) =
            frame.split_at_mut_checked(frames::HEADER_BYTES).ok_or_else(misplaced)?;
        let length = u32::try_from(read.len).map_err(|_| misplaced())?;
        head.copy_from_slice(&frames::header(read.offset, length, data));
        Ok(())
    }
}

impl BlockTask for ResponseBlock {
    fn make(&self, buffer: &mut Vec<u8>, wait: DiskWait) -> io::Result<usize> {
        if buffer.len() < self.bytes {
            buffer.resize(self.bytes, 0);
        }
        for (to, text) in &self.texts {
            slot(buffer, *to, text.len())?.copy_from_slice(text);
        }
        self.read(buffer, wait)?;
        Ok(self.bytes)
    }
}

/// Fills `buffer` from the file.
fn read_at(file: &File, mut buffer: &mut [u8], mut offset: u64, wait: DiskWait) -> io::Result<()> {
    if wait == DiskWait::Yes {
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
            // This file system cannot read without blocking.
            Err(Errno::OPNOTSUPP) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn slot(buffer: &mut [u8], to: usize, len: usize) -> io::Result<&mut [u8]> {
    buffer.get_mut(to..to + len).ok_or_else(misplaced)
}

/// The error of a wrong layout, which would be a bug of [`crate::response::range_encoder`].
fn misplaced() -> io::Error {
    io::Error::other("the layout of a response block is wrong")
}
