//! Reader of traces.

use super::format::{
    ADJACENT, ALL_ABSENT, AT_ONCE, Before, FOUND, HEAD_BYTES, HEADER_BYTES, MAGIC, MAX_NAME_BYTES,
    MAX_PAYLOAD_BYTES, MAX_RANGES, NAMES, ONE_RANGE, READS, SAME_FILE, SAME_THREAD, VERSION,
    checksum, header,
};
use super::{ReadEvent, ReadTimes, varint};
use crate::CacheStatus;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::range;
use std::io::{self, Read};
use std::ops::Range;
use std::time::Duration;

/// A recorded read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedRead {
    /// Index into [`TraceReader::names`].
    pub file: u32,
    /// As in [`ReadEvent`].
    pub thread: u32,
    /// As in [`ReadEvent`].
    pub ranges: Vec<Range<u64>>,
    /// As in [`ReadEvent`].
    pub times: ReadTimes,
    /// As in [`ReadEvent`].
    pub found: CacheStatus,
    /// As in [`ReadEvent`].
    pub absent_bytes: u64,
}

impl TracedRead {
    /// The read as an event, borrowed.
    #[must_use]
    pub fn event(&self) -> ReadEvent<'_> {
        ReadEvent {
            file: self.file,
            thread: self.thread,
            ranges: &self.ranges,
            times: self.times,
            found: self.found,
            absent_bytes: self.absent_bytes,
        }
    }

    /// Sum of the lengths of its ranges, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        range::total_bytes(&self.ranges)
    }
}

/// Reads a trace, block by block: an iterator over the reads in the order in which they were
/// recorded. It buffers one block of at most 4 MiB, and the names.
///
/// A truncated trace ends with its last complete block, and [`TraceReader::cut_bytes`] reports the
/// rest. Only damage that truncation cannot cause is an error.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: R,
    names: Vec<String>,
    payload: Vec<u8>,
    /// Number of decoded bytes of the payload.
    taken: usize,
    before: Before,
    cut_bytes: u64,
    ended: bool,
}

/// Content at the position of a block.
enum Block {
    /// A complete block of this kind.
    Whole(u8),
    /// The end of the input.
    None,
    /// This many bytes that are not a complete block.
    Cut(u64),
}

impl<R: Read> TraceReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the input is not a trace, [`ErrorKind::Unsupported`] for a later
    /// version, [`ErrorKind::Local`] if the input fails.
    pub fn new(mut input: R) -> Result<Self> {
        let mut head = Vec::with_capacity(HEADER_BYTES);
        fill(&mut input, HEADER_BYTES, &mut head)?;
        if !head.starts_with(&MAGIC) {
            return Err(corrupt("not a trace: the first bytes are not those of one"));
        }
        if head != header() {
            let version = head.get(8..12).and_then(|bytes| bytes.try_into().ok());
            let version = version.map_or(VERSION, u32::from_le_bytes);
            if version == VERSION {
                return Err(corrupt("the header of the trace is damaged"));
            }
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the trace has version {version}, expected {VERSION}"),
            ));
        }
        Ok(Self {
            input,
            names: Vec::new(),
            payload: Vec::new(),
            taken: 0,
            before: Before::default(),
            cut_bytes: 0,
            ended: false,
        })
    }

    /// The names of the files, as far as the trace has been read; [`TracedRead::file`] is an index
    /// into this slice.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of bytes at the end of the trace that are not a complete block; known once the whole
    /// trace has been read. More than 0 if the writing program was killed, or the end of the file
    /// was damaged.
    #[must_use]
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// Reads the next record; `None` at the end.
    fn read(&mut self) -> Result<Option<TracedRead>> {
        while self.taken >= self.payload.len() {
            match self.next_block()? {
                Block::Whole(NAMES) => self.take_names()?,
                Block::Whole(_) => self.begin_reads()?,
                Block::None => return Ok(None),
                Block::Cut(bytes) => {
                    self.cut_bytes = bytes;
                    return Ok(None);
                }
            }
        }
        let mut bytes = self.payload.get(self.taken..).unwrap_or_default();
        let read = take_read(&mut bytes, &mut self.before)
            .filter(|read| (read.file as usize) < self.names.len())
            .ok_or_else(|| corrupt("the trace contains an invalid record"))?;
        self.taken = self.payload.len() - bytes.len();
        Ok(Some(read))
    }

    /// Reads the next block into `payload`, of which no byte is decoded yet.
    fn next_block(&mut self) -> Result<Block> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        fill(&mut self.input, HEAD_BYTES, &mut head)?;
        self.payload.clear();
        self.taken = 0;
        let cut = |seen: usize| Ok(Block::Cut(seen as u64));
        let &[kind, a, b, c, d, ref sum @ ..] = head.as_slice() else {
            return if head.is_empty() { Ok(Block::None) } else { cut(head.len()) };
        };
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if sum.len() != 4 || length > MAX_PAYLOAD_BYTES {
            return cut(head.len());
        }
        fill(&mut self.input, length, &mut self.payload)?;
        let seen = HEAD_BYTES + self.payload.len();
        if self.payload.len() < length || checksum(&head[..5], &self.payload).to_le_bytes() != *sum
        {
            self.payload.clear();
            return cut(seen);
        }
        match kind {
            NAMES | READS => Ok(Block::Whole(kind)),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format!("the trace contains a block of kind {kind}, expected {NAMES} or {READS}"),
            )),
        }
    }

    fn take_names(&mut self) -> Result<()> {
        let mut bytes = self.payload.as_slice();
        while !bytes.is_empty() {
            let name = take_name(&mut bytes, self.names.len() as u64)
                .ok_or_else(|| corrupt("the trace contains an invalid name"))?;
            self.names.push(name);
        }
        self.taken = self.payload.len();
        Ok(())
    }

    fn begin_reads(&mut self) -> Result<()> {
        let mut bytes = self.payload.as_slice();
        let submitted = varint::take(&mut bytes)
            .ok_or_else(|| corrupt("the trace contains a block without a time"))?;
        self.before = Before { submitted, ..Before::default() };
        self.taken = self.payload.len() - bytes.len();
        Ok(())
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<TracedRead>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read().transpose();
        self.ended = !matches!(read, Some(Ok(_)));
        read
    }
}

fn take_name(bytes: &mut &[u8], expected: u64) -> Option<String> {
    varint::take(bytes).filter(|number| *number == expected)?;
    let length = usize::try_from(varint::take(bytes)?).ok()?;
    if length > MAX_NAME_BYTES {
        return None;
    }
    let (name, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(name.to_vec()).ok()
}

fn take_read(bytes: &mut &[u8], before: &mut Before) -> Option<TracedRead> {
    let (&flags, rest) = bytes.split_first()?;
    *bytes = rest;
    let found = match flags & FOUND {
        0 => CacheStatus::Hit,
        1 => CacheStatus::InFlight,
        2 => CacheStatus::Miss,
        _ => return None,
    };
    let mut small = |same: bool, as_before: u32| {
        if same { Some(as_before) } else { u32::try_from(varint::take(bytes)?).ok() }
    };
    let file = small(flags & SAME_FILE != 0, before.file)?;
    let thread = small(flags & SAME_THREAD != 0, before.thread)?;
    let submitted = before.submitted.checked_add_signed(varint::take_signed(bytes)?)?;
    let mut completed = submitted;
    let mut consumed = submitted;
    if flags & AT_ONCE == 0 {
        completed = submitted.checked_add(varint::take(bytes)?)?;
        consumed = completed.checked_add(varint::take(bytes)?)?;
    }
    let count = match flags & ONE_RANGE {
        0 => usize::try_from(varint::take(bytes)?).ok().filter(|count| *count <= MAX_RANGES)?,
        _ => 1,
    };
    let mut ranges = Vec::with_capacity(count.min(bytes.len()));
    let mut end = before.end;
    for index in 0..count {
        if index > 0 || flags & ADJACENT == 0 {
            end = end.wrapping_add_signed(varint::take_signed(bytes)?);
        }
        let start = end;
        end = start.checked_add(varint::take(bytes)?)?;
        ranges.push(start..end);
    }
    let absent_bytes = match (found, flags & ALL_ABSENT) {
        (CacheStatus::Miss, 0) => varint::take(bytes)?,
        (CacheStatus::Miss, _) => range::total_bytes(&ranges),
        _ => 0,
    };
    *before = Before { file, thread, submitted, end };
    let times = ReadTimes {
        submitted: Duration::from_nanos(submitted),
        completed: Duration::from_nanos(completed),
        consumed: Duration::from_nanos(consumed),
    };
    Some(TracedRead { file, thread, ranges, times, found, absent_bytes })
}

/// Appends the next `bytes` of `input`, or fewer at its end. Allocates only for the bytes that
/// arrive.
fn fill(input: &mut impl Read, bytes: usize, into: &mut Vec<u8>) -> Result<()> {
    input.take(bytes as u64).read_to_end(into).map(drop).map_err(|error: io::Error| {
        Error::new(ErrorKind::Local, format!("cannot read the trace: {error}"))
    })
}

fn corrupt(message: &str) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests;
