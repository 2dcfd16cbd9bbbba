//! Map of a file's blocks: which bytes are missing, which blocks are complete, and their checksums.
//!
//! A file is cut into blocks of one size. A block is the unit of the journal, and so the most that
//! an interruption can cost each worker. Workers fetch *pieces*: at most a block, less where a part
//! of it is written already, more only from a server without ranges. Bytes arrive in any order.
//! Each written run has its checksums, and neighbouring runs are joined, so that in the end one run
//! is left, with the checksums of the file.

use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::range;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The checksums of a run of bytes: always crc32c, which the journal keeps, and adler32 if it is
/// wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockChecksums {
    pub(crate) crc32c: Checksum,
    pub(crate) adler32: Option<Checksum>,
}

impl BlockChecksums {
    /// Of several pieces in a row.
    pub(crate) fn of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, with_adler32: bool) -> Self {
        let mut crc32c = Hasher::new(Algorithm::Crc32c);
        let mut adler32 = with_adler32.then(|| Hasher::new(Algorithm::Adler32));
        for piece in pieces {
            crc32c.update(piece);
            if let Some(adler32) = &mut adler32 {
                adler32.update(piece);
            }
        }
        Self { crc32c: crc32c.finish(), adler32: adler32.map(Hasher::finish) }
    }

    fn followed_by(&self, next: &Self, next_bytes: u64) -> Option<Self> {
        let crc32c = self.crc32c.followed_by(&next.crc32c, next_bytes)?;
        let adler32 = match (&self.adler32, &next.adler32) {
            (Some(first), Some(next)) => Some(first.followed_by(next, next_bytes)?),
            _ => None,
        };
        Some(Self { crc32c, adler32 })
    }
}

/// A block that has become whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) range: Range<u64>,
    pub(crate) checksums: BlockChecksums,
}

#[derive(Debug, Clone)]
struct Run {
    end: u64,
    checksums: BlockChecksums,
}

/// The blocks of one file.
#[derive(Debug)]
pub(crate) struct BlockMap {
    size: u64,
    block_bytes: u64,
    /// Invariant: disjoint; none of it taken or written.
    todo: VecDeque<Range<u64>>,
    /// Written runs by their start. Invariant: disjoint; runs meet at the ends of blocks only.
    runs: BTreeMap<u64, Run>,
    written_bytes: u64,
    /// Times that blocks were taken back.
    taken_back: u64,
    /// Requests to the server of an upload that had failed before each block was written here, by
    /// the starts of the blocks.
    interruptions: BTreeMap<u64, u64>,
}

impl BlockMap {
    /// A file of `size` bytes, none of which is written.
    pub(crate) fn new(size: u64, block_bytes: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        let mut todo = VecDeque::new();
        if size > 0 {
            todo.push_back(0..size);
        }
        let runs = BTreeMap::new();
        let interruptions = BTreeMap::new();
        Self { size, block_bytes, todo, runs, written_bytes: 0, taken_back: 0, interruptions }
    }

    /// The blocks of a file of which only `range` is to be fetched here: the rest counts as
    /// written, and [`BlockMap::checksums`] are those of the range.
    pub(crate) fn of_range(size: u64, block_bytes: u64, range: Range<u64>) -> Self {
        let mut blocks = Self::new(size, block_bytes);
        let range = range.start.min(size)..range.end.min(size);
        blocks.written_bytes = size - range::len(&range);
        blocks.todo = VecDeque::from([range]);
        blocks
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Bytes that are written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Returns how often blocks were taken back, and where the bytes end that are written
    /// from `at` on; `at` if there are none.
    pub(crate) fn written_from(&self, at: u64) -> (u64, u64) {
        let mut end = at;
        while let Some((_, run)) = self.runs.range(..=end).next_back()
            && run.end > end
        {
            end = run.end;
        }
        (self.taken_back, end)
    }

    /// Returns true if all bytes are taken or written.
    pub(crate) fn all_taken(&self) -> bool {
        self.todo.is_empty()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.written_bytes == self.size
    }

    /// Bytes that are neither taken nor written.
    pub(crate) fn untaken_bytes(&self) -> u64 {
        self.todo.iter().map(range::len).sum()
    }

    /// The first byte that is neither written nor taken.
    pub(crate) fn first_missing(&self) -> u64 {
        self.todo.front().map_or(self.size, |first| first.start)
    }

    /// The next piece to fetch: the rest of a block, or `max_bytes` of it.
    pub(crate) fn take(&mut self, max_bytes: u64) -> Option<Range<u64>> {
        let first = self.todo.pop_front()?;
        let most = first.start.saturating_add(max_bytes.max(1));
        let end = first.end.min(self.block_end(first.start)).min(most);
        if end < first.end {
            self.todo.push_front(end..first.end);
        }
        Some(first.start..end)
    }

    /// Gives back a taken range that has not arrived, to be fetched again.
    pub(crate) fn put_back(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            let at = self.todo.partition_point(|it| it.start < range.start);
            self.todo.insert(at, range);
        }
    }

    /// Everything that is left, as one piece, for a source that sends one stream. Written blocks in
    /// between are received again.
    pub(crate) fn take_rest(&mut self) -> Option<Range<u64>> {
        let first = self.todo.pop_front()?;
        let end = self.todo.drain(..).next_back().map_or(first.end, |last| last.end);
        let mut between = self.runs.split_off(&first.start);
        self.runs.append(&mut between.split_off(&end));
        self.taken_back += u64::from(!between.is_empty());
        self.written_bytes -= between.iter().map(|(start, run)| run.end - start).sum::<u64>();
        Some(first.start..end)
    }

    /// Takes this piece.
    pub(crate) fn take_exactly(&mut self, piece: &Range<u64>) {
        let all: Vec<_> = self.todo.drain(..).collect();
        let rest = range::difference(&range::merged(&all, 0), std::slice::from_ref(piece));
        self.todo.extend(rest);
    }

    /// Records that `range` was written by an earlier attempt: it is not fetched.
    pub(crate) fn present(&mut self, range: Range<u64>, checksums: BlockChecksums) {
        let all: Vec<_> = self.todo.drain(..).collect();
        let all = range::merged(&all, 0);
        if !range::difference(std::slice::from_ref(&range), &all).is_empty() {
            self.todo.extend(all);
            return;
        }
        self.todo.extend(range::difference(&all, std::slice::from_ref(&range)));
        self.written(range, checksums);
    }

    /// Notes that a part of a block was written after this number of requests had failed.
    pub(crate) fn note_interruptions(&mut self, part: &Range<u64>, interruptions: u64) {
        let block = part.start - part.start % self.block_bytes;
        let known = self.interruptions.entry(block).or_insert(interruptions);
        *known = interruptions.min(*known);
    }

    /// Takes the whole blocks that the server of an upload may have lost: those of an earlier
    /// attempt, and those after which requests have failed, `interruptions` of them so far. Returns
    /// length and crc32c by their start; none the second time.
    pub(crate) fn take_unverified(&mut self, interruptions: u64) -> BTreeMap<u64, (u64, Checksum)> {
        let mut blocks = self.whole_blocks();
        blocks.retain(|start, _| {
            self.interruptions.insert(*start, interruptions) != Some(interruptions)
        });
        blocks
    }

    /// The same file with all bytes written, and no checksums.
    pub(crate) fn all_present(mut self) -> Self {
        let whole = self.take_rest().unwrap_or_default();
        let ranges: Vec<_> = self.within_blocks(whole).collect();
        for range in ranges {
            self.written(range, BlockChecksums::of([], false));
        }
        self
    }

    /// Notes that `range`, which lies within one block and was taken, is written. The block, if
    /// that made it whole.
    pub(crate) fn written(
        &mut self,
        range: Range<u64>,
        checksums: BlockChecksums,
    ) -> Option<Whole> {
        self.written_bytes += range::len(&range);
        let block = range.start - range.start % self.block_bytes..self.block_end(range.start);
        let mut start = range.start;
        let mut run = Run { end: range.end, checksums };
        if let Some((&before, _)) = self.runs.range(block.start..start).next_back()
            && self.runs.get(&before).is_some_and(|known| known.end == start)
            && let Some(known) = self.runs.remove(&before)
        {
            let bytes = run.end - start;
            run.checksums =
                known.checksums.followed_by(&run.checksums, bytes).unwrap_or(run.checksums);
            start = before;
        }
        if run.end < block.end
            && let Some(next) = self.runs.remove(&run.end)
        {
            let bytes = next.end - run.end;
            run.checksums =
                run.checksums.followed_by(&next.checksums, bytes).unwrap_or(run.checksums);
            run.end = next.end;
        }
        let whole = ((start..run.end) == block)
            .then(|| Whole { range: block.clone(), checksums: run.checksums.clone() });
        self.runs.insert(start, run);
        whole
    }

    /// The pieces of `range` that lie within one block each.
    pub(crate) fn within_blocks(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let size = self.size;
        let block_bytes = self.block_bytes;
        let mut at = range.start;
        std::iter::from_fn(move || {
            let end = block_end(at, block_bytes, size).min(range.end);
            let piece = (at < end).then_some(at..end);
            at = end;
            piece
        })
    }

    /// The sums of the whole file, once it is complete.
    pub(crate) fn checksums(&self) -> Option<BlockChecksums> {
        if !self.is_complete() {
            return None;
        }
        let mut total =
            BlockChecksums::of([], self.runs.values().all(|run| run.checksums.adler32.is_some()));
        for (start, run) in &self.runs {
            total = total.followed_by(&run.checksums, run.end - start)?;
        }
        Some(total)
    }

    /// The written blocks: length and crc32c, by their start.
    pub(crate) fn whole_blocks(&self) -> BTreeMap<u64, (u64, Checksum)> {
        let blocks = self.runs.iter().filter(|(start, run)| {
            **start % self.block_bytes == 0 && run.end == self.block_end(**start)
        });
        let blocks =
            blocks.map(|(start, run)| (*start, (run.end - start, run.checksums.crc32c.clone())));
        blocks.collect()
    }

    /// Takes back the written bytes of the block at `start`, to be fetched again. Returns its range
    /// and its crc32c; none if it is not whole.
    pub(crate) fn reopen(&mut self, start: u64) -> Option<(Range<u64>, Checksum)> {
        let whole = start..self.block_end(start);
        if self.runs.get(&start).is_none_or(|run| run.end != whole.end) {
            return None;
        }
        let run = self.runs.remove(&start)?;
        self.written_bytes -= range::len(&whole);
        self.taken_back += 1;
        self.put_back(whole.clone());
        Some((whole, run.checksums.crc32c))
    }

    /// Discards all blocks and begins again. Returns the crc32c of every block, by its start, to be
    /// compared.
    pub(crate) fn begin_again(&mut self) -> BTreeMap<u64, Checksum> {
        let before = std::mem::take(&mut self.runs);
        let taken_back = self.taken_back + 1;
        *self = Self { taken_back, ..Self::new(self.size, self.block_bytes) };
        before.into_iter().map(|(start, run)| (start, run.checksums.crc32c)).collect()
    }

    fn block_end(&self, at: u64) -> u64 {
        block_end(at, self.block_bytes, self.size)
    }
}

fn block_end(at: u64, block_bytes: u64, size: u64) -> u64 {
    (at - at % block_bytes).saturating_add(block_bytes).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checksums(bytes: &[u8]) -> BlockChecksums {
        BlockChecksums::of([bytes], true)
    }

    fn slice(bytes: &[u8], range: &Range<u64>) -> Vec<u8> {
        let at = |n: u64| usize::try_from(n).unwrap();
        bytes[at(range.start)..at(range.end)].to_vec()
    }

    #[test]
    fn a_stream_of_the_rest_brings_what_is_there_in_between_again() {
        let mut blocks = BlockMap::new(14, 4);
        for (range, bytes) in [(0..4, b"abcd"), (8..12, b"ijkl")] {
            blocks.present(range, checksums(bytes));
        }
        assert_eq!((blocks.first_missing(), blocks.take_rest()), (4, Some(4..14)));
        assert_eq!((blocks.written_bytes(), blocks.written_from(0)), (4, (1, 4)));
        for (range, bytes) in [(4..8, &b"efgh"[..]), (8..12, b"ijkl"), (12..14, b"mn")] {
            blocks.written(range, checksums(bytes));
        }
        assert_eq!(blocks.checksums(), Some(checksums(b"abcdefghijklmn")));
    }

    #[test]
    fn pieces_end_where_blocks_end() {
        let mut blocks = BlockMap::new(10, 4);
        blocks.present(1..3, checksums(b"ab"));
        let pieces: Vec<_> = std::iter::from_fn(|| blocks.take(u64::MAX)).collect();
        assert_eq!(pieces, [0..1, 3..4, 4..8, 8..10]);
        assert!(blocks.all_taken() && !blocks.is_complete());
    }

    #[test]
    fn an_empty_file_is_complete() {
        let mut blocks = BlockMap::new(0, 4);
        assert!(blocks.is_complete() && blocks.take(1).is_none());
        assert_eq!(blocks.checksums().unwrap().adler32.unwrap().hex(), "00000001");
    }

    #[test]
    fn blocks_are_doubtful_once_if_requests_failed_after_them() {
        let mut blocks = BlockMap::new(16, 4);
        blocks.present(0..4, checksums(b"abcd"));
        for (part, interruptions) in [(4..6, 0), (6..8, 1), (8..12, 1), (12..16, 2)] {
            blocks.take_exactly(&part);
            blocks.note_interruptions(&part, interruptions);
            blocks.written(part.clone(), checksums(&slice(b"abcdefghijklmnop", &part)));
        }
        assert!(blocks.take_unverified(2).into_keys().eq([0, 4, 8]));
        assert!(blocks.take_unverified(2).is_empty());
        assert!(blocks.take_unverified(3).into_keys().eq([0, 4, 8, 12]));
    }

    #[test]
    fn of_a_range_nothing_else_is_fetched_and_summed() {
        let mut blocks = BlockMap::of_range(10, 4, 4..99);
        let pieces: Vec<_> = std::iter::from_fn(|| blocks.take(u64::MAX)).collect();
        assert_eq!(pieces, [4..8, 8..10]);
        assert!(!blocks.is_complete());
        for piece in pieces.into_iter().rev() {
            let sums = checksums(&slice(b"abcdefghij", &piece));
            blocks.written(piece, sums);
        }
        assert_eq!(blocks.checksums(), Some(checksums(b"efghij")));
    }

    #[test]
    fn blocks_claimed_twice_or_beyond_the_end_count_once() {
        let mut blocks = BlockMap::new(6, 4);
        blocks.present(0..4, checksums(b"abcd"));
        blocks.present(0..4, checksums(b"abcd"));
        blocks.present(4..9, checksums(b"efghi"));
        assert_eq!(blocks.written_bytes(), 4);
        assert_eq!(blocks.take(1), Some(4..5));
        assert_eq!((blocks.untaken_bytes(), blocks.take(9)), (1, Some(5..6)));
    }

    #[test]
    fn bytes_are_written_from_a_place_on_until_the_first_gap() {
        let mut blocks = BlockMap::new(20, 4);
        for range in [0..4, 4..8, 8..10, 12..16] {
            blocks.take_exactly(&range);
            blocks.written(range, checksums(b"ab"));
        }
        let ends = [0, 3, 8, 10, 11, 12, 16].map(|at| blocks.written_from(at));
        assert_eq!(ends.map(|(_, end)| end), [10, 10, 10, 10, 11, 16, 16]);
        blocks.reopen(4).unwrap();
        assert_eq!(blocks.written_from(0), (1, 4));
        blocks.begin_again();
        assert_eq!(blocks.written_from(0), (2, 0));
    }

    #[test]
    fn a_reopened_block_is_fetched_again() {
        let mut blocks = BlockMap::new(10, 4);
        assert_eq!(blocks.reopen(4), None);
        while let Some(piece) = blocks.take(u64::MAX) {
            let sums = checksums(&slice(b"abcdefghij", &piece));
            blocks.written(piece, sums);
        }
        assert!(blocks.whole_blocks().into_keys().eq([0, 4, 8]));
        let (range, crc) = blocks.reopen(4).unwrap();
        assert_eq!((range, &crc), (4..8, &checksums(b"efgh").crc32c));
        assert_eq!(blocks.written_bytes(), 6);
        assert!(blocks.whole_blocks().into_keys().eq([0, 8]));
        assert_eq!(blocks.take(u64::MAX), Some(4..8));
        blocks.written(4..8, checksums(b"efgh"));
        assert_eq!(blocks.checksums(), Some(checksums(b"abcdefghij")));
    }

    #[test]
    fn what_was_put_back_is_taken_again_in_its_order() {
        let mut blocks = BlockMap::new(12, 4);
        while blocks.take(u64::MAX).is_some() {}
        blocks.put_back(10..12);
        blocks.put_back(2..4);
        blocks.put_back(8..8);
        assert_eq!(blocks.untaken_bytes(), 4);
        assert_eq!(blocks.take(u64::MAX), Some(2..4));
        assert_eq!(blocks.take(u64::MAX), Some(10..12));
        assert_eq!(blocks.take(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn any_order_of_writes_gives_the_checksums_of_the_file(
            bytes in prop::collection::vec(any::<u8>(), 0..500),
            block_bytes in 1_u64..90,
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 1_u64..60), 0..40),
        ) {
            let mut blocks = BlockMap::new(bytes.len() as u64, block_bytes);
            let mut pieces: Vec<Range<u64>> = std::iter::from_fn(|| blocks.take(u64::MAX)).collect();
            for (index, at) in cuts {
                if pieces.is_empty() { break; }
                let n = index.index(pieces.len());
                let piece = pieces.swap_remove(n);
                let cut = (piece.start + at).min(piece.end);
                pieces.push(piece.start..cut);
                if cut < piece.end { pieces.push(cut..piece.end); }
            }
            let mut whole = Vec::new();
            for piece in pieces {
                let checksums = checksums(&slice(&bytes, &piece));
                whole.extend(blocks.written(piece, checksums));
            }
            prop_assert!(blocks.is_complete());
            prop_assert_eq!(blocks.checksums(), Some(checksums(&bytes)));
            prop_assert_eq!(whole.len() as u64, (bytes.len() as u64).div_ceil(block_bytes));
            for block in whole {
                prop_assert_eq!(block.checksums, checksums(&slice(&bytes, &block.range)));
            }
        }
    }
}
