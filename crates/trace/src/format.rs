//! File format of a trace.
//!
//! A header, then consecutive blocks, without an index and without an end mark: the file of a
//! program that was killed is readable up to its last complete block.
//!
//! ```text
//! header   8 bytes  89 "HTRACE" 0A
//!          u32      version, 1
//!          u32      CRC-32C of the twelve bytes before
//! block    u8       kind: 1 names, 2 reads
//!          u32      length of the payload, at most 4 MiB
//!          u32      CRC-32C of kind, length and payload
//!          ...      payload
//! ```
//!
//! Integers of fixed size are little-endian. All others have variable length, with seven bits per
//! byte; signed ones have the sign in the lowest bit. Times are in nanoseconds since the start of
//! the trace.
//!
//! A block of names contains, up to its end: number of the file, length of its name, name (UTF-8).
//! Numbers start at 0 without gaps, and the name of a file precedes its reads. A block of reads
//! contains a time, then, up to its end:
//!
//! ```text
//! u8       bits 0-1  presence of the bytes: 0 present, 1 in flight, 2 absent
//!          bit 2     same file as the read before; else: number of the file
//!          bit 3     same thread as the read before; else: number of the thread
//! signed   submitted, since the submission of the read before, at first since the block's time
//!          bit 5     completed and consumed at once; else: time to completion, and from there to
//!                    consumption
//!          bit 4     one range; else: number of ranges
//!          bit 6     begins where the last range before ended, at first at 0; else: signed,
//!                    distance from there
//!          length of the first range; of each further range, signed, distance from the end of the
//!          one before; its length
//!          bit 7     all of it was absent; else, if the status is 2: number of absent bytes
//! ```
//!
//! Blocks do not depend on earlier blocks, except for the names: the first read of a block is
//! encoded relative to a read of file 0 by thread 0 that ended at offset 0.

/// The first bytes of a trace.
pub(super) const MAGIC: [u8; 8] = *b"\x89HTRACE\n";

/// The version that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;

/// Length of the header in bytes.
pub(super) const HEADER_BYTES: usize = 16;

/// Length of the bytes before a payload.
pub(super) const HEAD_BYTES: usize = 9;

/// Maximum size of a payload, in bytes.
pub(super) const MAX_PAYLOAD_BYTES: usize = 4 << 20;

/// Maximum number of ranges of one record. A read with more is recorded as several.
pub(super) const MAX_RANGES: usize = 1 << 16;

/// Maximum length of the name of a file, in bytes. Longer names are truncated.
pub(super) const MAX_NAME_BYTES: usize = 1 << 16;

/// Kinds of blocks.
pub(super) const NAMES: u8 = 1;
/// See [`NAMES`].
pub(super) const READS: u8 = 2;

/// Bits of a record's first byte.
pub(super) const FOUND: u8 = 0b11;
/// See [`FOUND`].
pub(super) const SAME_FILE: u8 = 1 << 2;
/// See [`FOUND`].
pub(super) const SAME_THREAD: u8 = 1 << 3;
/// See [`FOUND`].
pub(super) const ONE_RANGE: u8 = 1 << 4;
/// See [`FOUND`].
pub(super) const AT_ONCE: u8 = 1 << 5;
/// See [`FOUND`].
pub(super) const ADJACENT: u8 = 1 << 6;
/// See [`FOUND`].
pub(super) const ALL_ABSENT: u8 = 1 << 7;

/// The previous record, against which the next one is encoded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    pub(super) file: u32,
    pub(super) thread: u32,
    /// In nanoseconds.
    pub(super) submitted: u64,
    /// The end of the last range.
    pub(super) end: u64,
}

/// The header of a trace.
pub(super) fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let sum = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The checksum of a block.
pub(super) fn checksum(kind_and_length: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(kind_and_length), payload)
}
