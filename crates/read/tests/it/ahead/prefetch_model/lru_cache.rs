//! The modelled cache: fetched pieces, their times of arrival, and whether they were read.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

/// The unit of eviction: as in the cache, reading a part of an extent keeps all of it.
const EXTENT: u64 = 128 << 10;

#[derive(Debug, Clone, Copy)]
struct Piece {
    end: u64,
    arrives: Duration,
    /// Prefetched and not read yet.
    ahead: bool,
}

/// The pieces of a file that are in memory or in flight.
///
/// Invariants: pieces are disjoint and none crosses a multiple of [`EXTENT`]; `used` and `by_use`
/// agree on each extent with pieces; `bytes` and `ahead_bytes` are the sums of the pieces.
#[derive(Debug)]
pub(super) struct LruCache {
    most: u64,
    pieces: BTreeMap<u64, Piece>,
    /// The last use of an extent, as a value of `count`.
    used: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    count: u64,
    bytes: u64,
    ahead_bytes: u64,
    wasted_bytes: u64,
}

impl LruCache {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            pieces: BTreeMap::new(),
            used: HashMap::new(),
            by_use: BTreeMap::new(),
            count: 0,
            bytes: 0,
            ahead_bytes: 0,
            wasted_bytes: 0,
        }
    }

    pub(super) fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    pub(super) fn wasted_bytes(&self) -> u64 {
        self.wasted_bytes
    }

    /// The pieces that overlap a range, by their starts.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &Piece)> {
        let first = self.pieces.range(..=range.start).next_back().map_or(range.start, |it| *it.0);
        let from = range.start;
        let pieces = self.pieces.range(first..range.end.max(first));
        pieces.filter(move |(_, piece)| piece.end > from).map(|(start, piece)| (*start, piece))
    }

    /// The parts of a range that are neither in memory nor in flight.
    pub(super) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        for (start, piece) in self.within(range) {
            if start > at {
                missing.push(at..start);
            }
            at = at.max(piece.end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    /// The time at which the last present part of a range arrives.
    pub(super) fn arrives(&self, range: &Range<u64>) -> Duration {
        self.within(range).map(|(_, piece)| piece.arrives).max().unwrap_or_default()
    }

    /// Adds a range of which nothing is present, and evicts the least recently used extents to make
    /// room.
    pub(super) fn add(&mut self, range: &Range<u64>, arrives: Duration, ahead: bool) {
        let mut start = range.start;
        while start < range.end {
            let end = ((start / EXTENT + 1) * EXTENT).min(range.end);
            self.insert(start, Piece { end, arrives, ahead });
            self.touch(start);
            start = end;
        }
        while self.bytes > self.most && self.by_use.len() > 1 {
            let Some((_, extent)) = self.by_use.pop_first() else { return };
            self.drop_extent(extent);
        }
    }

    fn drop_extent(&mut self, extent: u64) {
        self.used.remove(&extent);
        let within = extent * EXTENT..(extent + 1) * EXTENT;
        let starts: Vec<u64> = self.pieces.range(within).map(|(start, _)| *start).collect();
        for start in starts {
            if let Some(piece) = self.remove(start)
                && piece.ahead
            {
                self.wasted_bytes += piece.end - start;
            }
        }
    }

    /// Marks a range as read.
    pub(super) fn read(&mut self, range: &Range<u64>) {
        let touched: Vec<u64> = self.within(range).map(|(start, _)| start).collect();
        for start in touched {
            self.touch(start);
            let Some(piece) = self.remove(start) else { continue };
            if piece.ahead {
                // Only this part is read: the rest stays unread.
                if start < range.start {
                    self.insert(start, Piece { end: range.start, ..piece });
                }
                if range.end < piece.end {
                    self.insert(range.end, piece);
                }
                let start = start.max(range.start);
                let end = piece.end.min(range.end);
                self.insert(start, Piece { end, ahead: false, ..piece });
            } else {
                self.insert(start, piece);
            }
        }
    }

    fn touch(&mut self, position: u64) {
        let extent = position / EXTENT;
        self.count += 1;
        if let Some(before) = self.used.insert(extent, self.count) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.count, extent);
    }

    fn insert(&mut self, start: u64, piece: Piece) {
        self.bytes += piece.end - start;
        self.ahead_bytes += if piece.ahead { piece.end - start } else { 0 };
        self.pieces.insert(start, piece);
    }

    fn remove(&mut self, start: u64) -> Option<Piece> {
        let piece = self.pieces.remove(&start)?;
        self.bytes -= piece.end - start;
        self.ahead_bytes -= if piece.ahead { piece.end - start } else { 0 };
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_of_a_piece_is_not_ahead_any_more() {
        let mut store = LruCache::new(1000);
        store.add(&(100..200), Duration::from_secs(1), true);
        assert_eq!(store.missing(&(50..250)), [50..100, 200..250]);
        store.read(&(120..130));
        assert_eq!((store.ahead_bytes(), store.wasted_bytes()), (90, 0));
        assert_eq!(store.missing(&(100..200)), []);
        assert_eq!(store.arrives(&(150..160)), Duration::from_secs(1));
    }

    #[test]
    fn the_extent_unused_for_longest_is_dropped_and_counted_where_unread() {
        let mut store = LruCache::new(110);
        store.add(&(0..50), Duration::ZERO, true);
        store.add(&(EXTENT - 25..EXTENT + 25), Duration::ZERO, true);
        store.read(&(0..10));
        store.add(&(9 * EXTENT..9 * EXTENT + 30), Duration::ZERO, false);
        assert_eq!(store.missing(&(EXTENT - 25..EXTENT + 25)), [EXTENT..EXTENT + 25]);
        store.add(&(10 * EXTENT..10 * EXTENT + 60), Duration::ZERO, false);
        assert_eq!((store.wasted_bytes(), store.ahead_bytes()), (25 + 40 + 25, 0));
    }
}
