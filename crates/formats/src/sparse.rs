//! The bytes of a file that have been fetched, and the ranges that a reader still needs.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// The result of a reader: the value, or the ranges to fetch first.
#[derive(Debug)]
pub enum DecodeResult<T> {
    /// Fetch these ranges, add them to the [`SparseBytes`], and call again.
    NeedsData(NeededRanges),
    /// The value.
    Data(T),
}

/// Byte ranges that a reader needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeededRanges {
    /// The reader cannot continue without these.
    pub required: Vec<Range<u64>>,
    /// Also required: the last `tail` bytes of a file whose size is not known yet; 0 for none.
    pub tail: u64,
    /// Likely to be needed next; worth fetching together with the others if that costs no round
    /// trip.
    pub prefetch: Vec<Range<u64>>,
}

/// A file with holes: the pieces of it that have been fetched. Pieces never overlap; adjacent
/// pieces are joined only when a read spans them.
#[derive(Debug, Clone, Default)]
pub struct SparseBytes {
    size: Option<u64>,
    pieces: BTreeMap<u64, Bytes>,
}

impl SparseBytes {
    /// Creates a file of which no bytes are present.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a small file of which all bytes are present.
    #[must_use]
    pub fn whole(bytes: Bytes) -> Self {
        let mut all = Self { size: Some(bytes.len() as u64), pieces: BTreeMap::new() };
        all.insert(0, bytes);
        all
    }

    /// The size of the file, once a response has stated it.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Stores the size of the file.
    pub fn set_size(&mut self, size: u64) {
        self.size = Some(size);
    }

    /// Adds bytes at `offset`. Bytes that are present already are kept, so that pieces never
    /// overlap.
    pub fn insert(&mut self, offset: u64, bytes: Bytes) {
        let end = offset.saturating_add(bytes.len() as u64);
        let mut at = offset;
        let mut fresh = Vec::new();
        let start = self.pieces.range(..=offset).next_back().map_or(offset, |(&o, _)| o);
        for (&o, known) in self.pieces.range(start..end) {
            let known_end = o + known.len() as u64;
            if o > at {
                fresh.push(at..o);
            }
            at = at.max(known_end);
        }
        if at < end {
            fresh.push(at..end);
        }
        for hole in fresh {
            if let (Ok(a), Ok(b)) =
                (usize::try_from(hole.start - offset), usize::try_from(hole.end - offset))
            {
                self.pieces.insert(hole.start, bytes.slice(a..b));
            }
        }
    }

    /// Returns the bytes of `range` if all of them are present. Copies only if the range spans
    /// several pieces.
    #[must_use]
    pub fn get(&self, range: Range<u64>) -> Option<Bytes> {
        if range.start >= range.end {
            return Some(Bytes::new());
        }
        let (&o, first) = self.pieces.range(..=range.start).next_back()?;
        let from = usize::try_from(range.start - o).ok()?;
        let len = usize::try_from(range.end - range.start).ok()?;
        if from >= first.len() {
            return None;
        }
        if first.len() - from >= len {
            return Some(first.slice(from..from + len));
        }
        let mut missing_from = o + first.len() as u64;
        for (&next, piece) in self.pieces.range(o + 1..range.end) {
            if next != missing_from {
                return None;
            }
            missing_from = next + piece.len() as u64;
        }
        if missing_from < range.end {
            return None;
        }
        let mut joined = Vec::with_capacity(len);
        joined.extend_from_slice(&first[from..]);
        for piece in self.pieces.range(o + 1..range.end).map(|(_, piece)| piece) {
            let take = piece.len().min(len - joined.len());
            joined.extend_from_slice(&piece[..take]);
        }
        Some(joined.into())
    }

    /// The pieces in order of offset.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &Bytes)> {
        self.pieces.iter().map(|(&offset, bytes)| (offset, bytes))
    }
}
