//! Writer of traces.

use super::format::{
    ADJACENT, ALL_ABSENT, AT_ONCE, Before, HEAD_BYTES, MAX_NAME_BYTES, MAX_RANGES, NAMES,
    ONE_RANGE, READS, SAME_FILE, SAME_THREAD, checksum, header,
};
use super::{ReadEvent, varint};
use crate::CacheStatus;
use hither_core::range;
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::time::Duration;

/// Size at which a block is written: it contains several thousand reads.
const BLOCK_BYTES: usize = 32 << 10;

/// Age of its first read at which a block is written when the next read is recorded, so that a
/// killed program loses only the last moments.
const BLOCK_AGE: Duration = Duration::from_secs(1);

/// Writes a trace: [`TraceWriter::number`] names a file, [`TraceWriter::record`] adds a read,
/// [`TraceWriter::flush`] writes the buffered reads. Buffers about 32 KiB.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    output: W,
    numbers: HashMap<String, u32>,
    block: Block,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace: writes its header.
    ///
    /// # Errors
    ///
    /// The errors of `output`.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(&header())?;
        Ok(Self { output, numbers: HashMap::new(), block: Block::new() })
    }

    /// The number of the file with this name. Writes a new name immediately. A name longer than 64
    /// KiB is truncated.
    ///
    /// # Errors
    ///
    /// The errors of the output.
    pub fn number(&mut self, name: &str) -> io::Result<u32> {
        let name = name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default();
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = u32::try_from(self.numbers.len()).map_err(io::Error::other)?;
        let mut block = vec![0; HEAD_BYTES];
        varint::put(&mut block, u64::from(number));
        varint::put(&mut block, name.len() as u64);
        block.extend_from_slice(name.as_bytes());
        seal(&mut block, NAMES);
        self.output.write_all(&block)?;
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Adds a read of a file that [`TraceWriter::number`] has numbered.
    ///
    /// # Errors
    ///
    /// The errors of the output.
    pub fn record(&mut self, event: &ReadEvent<'_>) -> io::Result<()> {
        if event.ranges.len() > MAX_RANGES {
            return self.record_in_pieces(event);
        }
        self.block.push(event);
        let age = event.times.submitted.saturating_sub(self.block.began);
        if self.block.bytes.len() >= BLOCK_BYTES || age >= BLOCK_AGE {
            return self.write_block();
        }
        Ok(())
    }

    /// Adds one record for each [`MAX_RANGES`] ranges, all with the same times.
    fn record_in_pieces(&mut self, event: &ReadEvent<'_>) -> io::Result<()> {
        let mut absent_bytes = event.absent_bytes;
        for ranges in event.ranges.chunks(MAX_RANGES) {
            let absent = absent_bytes.min(range::total_bytes(ranges));
            absent_bytes -= absent;
            self.record(&ReadEvent { ranges, absent_bytes: absent, ..*event })?;
        }
        Ok(())
    }

    /// Writes the buffered reads.
    ///
    /// # Errors
    ///
    /// The errors of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_block()?;
        self.output.flush()
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        seal(&mut self.block.bytes, READS);
        let written = self.output.write_all(&self.block.bytes);
        self.block.clear();
        written
    }
}

/// Fills in the bytes before the payload.
fn seal(block: &mut [u8], kind: u8) {
    let (head, payload) = block.split_at_mut(HEAD_BYTES);
    // At most 32 KiB and one record of the largest size.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    head[0] = kind;
    head[1..5].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&head[..5], payload);
    head[5..].copy_from_slice(&sum.to_le_bytes());
}

/// The encoded reads that are not written yet.
#[derive(Debug)]
struct Block {
    /// Space for the bytes before the payload, then the payload.
    bytes: Vec<u8>,
    /// Time at which the first read was submitted.
    began: Duration,
    before: Before,
}

impl Block {
    fn new() -> Self {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES + 256);
        bytes.resize(HEAD_BYTES, 0);
        Self { bytes, began: Duration::ZERO, before: Before::default() }
    }

    fn clear(&mut self) {
        self.bytes.truncate(HEAD_BYTES);
        self.before = Before::default();
    }

    fn is_empty(&self) -> bool {
        self.bytes.len() == HEAD_BYTES
    }

    fn push(&mut self, event: &ReadEvent<'_>) {
        let submitted = nanoseconds(event.times.submitted);
        if self.is_empty() {
            self.began = event.times.submitted;
            self.before.submitted = submitted;
            varint::put(&mut self.bytes, submitted);
        }
        let start = event.ranges.first().map_or(self.before.end, |range| range.start);
        let total = range::total_bytes(event.ranges);
        let times = event.times;
        let at_once = times.submitted == times.completed && times.completed == times.consumed;
        let mut flags = match event.found {
            CacheStatus::Hit => 0,
            CacheStatus::InFlight => 1,
            CacheStatus::Miss => 2,
        };
        for (flag, holds) in [
            (SAME_FILE, event.file == self.before.file),
            (SAME_THREAD, event.thread == self.before.thread),
            (ONE_RANGE, event.ranges.len() == 1),
            (AT_ONCE, at_once),
            (ADJACENT, start == self.before.end),
            (ALL_ABSENT, event.absent_bytes == total),
        ] {
            flags |= if holds { flag } else { 0 };
        }
        let out = &mut self.bytes;
        out.push(flags);
        if flags & SAME_FILE == 0 {
            varint::put(out, u64::from(event.file));
        }
        if flags & SAME_THREAD == 0 {
            varint::put(out, u64::from(event.thread));
        }
        varint::put_signed(out, difference(submitted, self.before.submitted));
        if !at_once {
            let since = |at: Duration, from: Duration| nanoseconds(at.saturating_sub(from));
            varint::put(out, since(times.completed, times.submitted));
            varint::put(out, since(times.consumed, times.completed));
        }
        if flags & ONE_RANGE == 0 {
            varint::put(out, event.ranges.len() as u64);
        }
        let end = put_ranges(out, event.ranges, flags & ADJACENT != 0, self.before.end);
        if event.found == CacheStatus::Miss && flags & ALL_ABSENT == 0 {
            varint::put(out, event.absent_bytes);
        }
        self.before = Before { file: event.file, thread: event.thread, submitted, end };
    }
}

/// Appends ranges, the first one encoded relative to `end`; returns the end of the last one.
fn put_ranges(out: &mut Vec<u8>, ranges: &[Range<u64>], adjacent: bool, mut end: u64) -> u64 {
    let mut is_adjacent = adjacent;
    for range in ranges {
        if !std::mem::take(&mut is_adjacent) {
            varint::put_signed(out, difference(range.start, end));
        }
        varint::put(out, range::len(range));
        end = range.end.max(range.start);
    }
    end
}

/// `to - from` modulo 2^64: adding it to `from` wraps around to `to`.
fn difference(to: u64, from: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

/// Times beyond 97 years are limited to that: the sum of three of them, or the difference of two,
/// still fits into 63 bits. Recordings of other programs may contain any time.
const MAX_NANOSECONDS: u64 = i64::MAX as u64 / 3;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(MAX_NANOSECONDS)
}
