//! The blocks of a file that is copied: the bytes that no worker has taken, those in flight, and
//! those that are written.
//!
//! Workers [take](FileBlocks::take) pieces. An idle worker for which none is left gets the later
//! half of the [slowest one](FileBlocks::split_slowest). The file is complete once all blocks are
//! written and no piece is in flight; the worker that completes it then finishes it. Blocks whose
//! checksums are wrong are taken back, and fetched again.

pub(crate) mod block_map;
pub(crate) mod piece;
pub(crate) mod piece_buffer;

use crate::file::blocks::block_map::{BlockChecksums, BlockMap, Whole};
use crate::file::blocks::piece::Piece;
use hither_checksum::Checksum;
use hither_core::endpoint::RangeSupport;
use hither_core::range;
use hither_core::sync::lock;
use hither_load::straggler::SplitRule;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The smallest rest of a piece, in bytes, that is taken from a slow replica.
const MIN_TAKEN_BYTES: u64 = 16 << 10;
/// Factor by which a replica must be slower than a new request to lose the whole rest of its piece.
const MUCH_SLOWER: f64 = 4.0;

/// The blocks of one file.
#[derive(Debug)]
pub(crate) struct FileBlocks {
    /// Most pieces in flight.
    max_pieces: usize,
    /// Pieces are cut nowhere but at the ends of blocks.
    is_exact: bool,
    state: Mutex<BlocksState>,
}

#[derive(Debug)]
struct BlocksState {
    map: BlockMap,
    running: Vec<Arc<Piece>>,
    /// Nothing more is fetched.
    over: bool,
    /// Checksums of the blocks as first received, when the file is fetched again because its
    /// checksum was wrong.
    before: Option<BTreeMap<u64, Checksum>>,
    /// Blocks with different checksums the second time.
    damaged: Vec<u64>,
}

/// An idle worker that asks for a part of a piece of another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleWorker {
    pub(crate) number: usize,
    /// The time, by the clock of the source.
    pub(crate) now: Duration,
    /// The latency by which pieces are balanced.
    pub(crate) rtt: Duration,
    /// The rate of the fastest replica, in bytes per second, if there are several.
    pub(crate) best_speed: Option<f64>,
}

impl FileBlocks {
    pub(crate) fn new(map: BlockMap, max_pieces: usize, is_exact: bool) -> Self {
        let state = BlocksState {
            map,
            running: Vec::new(),
            over: false,
            before: None,
            damaged: Vec::new(),
        };
        Self { max_pieces, is_exact, state: Mutex::new(state) }
    }

    /// Most pieces in flight.
    pub(crate) fn max_pieces(&self) -> usize {
        self.max_pieces
    }

    /// The next piece for `worker` to fetch at `now`, if one is left. Where pieces can be cut
    /// anywhere, it is at most as large as `share` returns for the bytes that have not arrived.
    pub(crate) fn take(
        &self,
        worker: usize,
        now: Duration,
        ranges: RangeSupport,
        share: impl FnOnce(u64) -> u64,
    ) -> Option<Arc<Piece>> {
        let mut state = self.state();
        if state.over || state.running.len() >= self.max_pieces {
            return None;
        }
        let range = match ranges {
            // A server without ranges sends the whole file for every request: there must be only
            // one.
            RangeSupport::Whole => state.map.take_rest(),
            _ if self.is_exact => state.map.take(u64::MAX),
            _ => {
                let max_bytes = share(state.missing_bytes());
                state.map.take(max_bytes)
            }
        };
        range.map(|range| state.start(Piece::new(worker, range, now, Duration::ZERO)))
    }

    /// Splits off the later half of the slowest piece for an idle worker, by [`SplitRule::COPY`].
    /// All that is missing of it is taken if its replica is much slower than the others.
    ///
    /// A piece that was taken from a silent one may be silent for twice as long. Otherwise, where a
    /// queue on the path is longer than the measured latency, idle workers would take the same
    /// bytes from each other for ever, each before its first byte has arrived.
    pub(crate) fn split_slowest(&self, idle: IdleWorker) -> Option<Arc<Piece>> {
        let IdleWorker { number, now, rtt, best_speed } = idle;
        let rule = match best_speed {
            Some(_) => SplitRule { min_bytes: MIN_TAKEN_BYTES, ..SplitRule::COPY },
            None => SplitRule::COPY,
        };
        let mut state = self.state();
        if self.is_exact || state.over || !state.map.all_taken() {
            return None;
        }
        let pieces = state.running.iter().filter(|piece| piece.is_judged(now));
        let pieces = pieces.map(|piece| (piece.progress(), piece));
        let slowest = rule.slowest(pieces, now, rtt)?;
        let is_slow =
            best_speed.is_some_and(|rate| slowest.is_slower_than(rate / MUCH_SLOWER, now));
        let silence_limit = slowest.silence_limit_of_next(now);
        let given = slowest.buffer.give(if is_slow { 0.0 } else { 0.5 });
        if given.is_empty() {
            return None;
        }
        slowest.cut_off.wake();
        Some(state.start(Piece::new(number, given, now, silence_limit)))
    }

    /// Takes the missing parts of the pieces of workers above `workers` back, for others to fetch.
    /// This closes their connections, and frees their share of the path at once.
    pub(crate) fn take_back(&self, workers: usize) {
        if self.is_exact {
            return;
        }
        let mut state = self.state();
        let BlocksState { map, running, .. } = &mut *state;
        for piece in running.iter().filter(|piece| piece.worker() > workers) {
            map.put_back(piece.buffer.give(0.0));
            piece.cut_off.wake();
        }
    }

    /// Records that a piece is complete. Returns true if that made the file complete: the caller
    /// then has to finish it.
    pub(crate) fn ended(&self, piece: &Arc<Piece>) -> bool {
        let mut state = self.state();
        state.running.retain(|running| !Arc::ptr_eq(running, piece));
        state.claim()
    }

    /// Returns true if the file is complete and no worker finishes it yet; the caller then has to.
    pub(crate) fn is_to_be_finished(&self) -> bool {
        self.state().claim()
    }

    /// Ends fetching, because the file has failed. Returns true the first time.
    pub(crate) fn give_up(&self) -> bool {
        !std::mem::replace(&mut self.state().over, true)
    }

    /// Returns true if nothing more is fetched.
    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Returns true if a worker has a piece.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.state().running.is_empty()
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.state().map.block_bytes()
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.state().map.written_bytes()
    }

    /// [`BlockMap::written_from`].
    pub(crate) fn written_from(&self, at: u64) -> (u64, u64) {
        self.state().map.written_from(at)
    }

    /// The written blocks: length and crc32c, by their start.
    pub(crate) fn whole_blocks(&self) -> BTreeMap<u64, (u64, Checksum)> {
        self.state().map.whole_blocks()
    }

    /// The checksums of the whole file, as far as they were computed while bytes arrived.
    pub(crate) fn checksums(&self) -> Option<BlockChecksums> {
        self.state().map.checksums()
    }

    /// The parts of `range` that lie within one block each.
    pub(crate) fn within_blocks(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.state().map.within_blocks(range).collect()
    }

    /// Notes that parts of blocks were written after this number of requests had failed.
    pub(crate) fn note_interruptions(&self, parts: &[Range<u64>], interruptions: u64) {
        let mut state = self.state();
        parts.iter().for_each(|part| state.map.note_interruptions(part, interruptions));
    }

    /// [`BlockMap::take_unverified`].
    pub(crate) fn take_unverified(&self, interruptions: u64) -> BTreeMap<u64, (u64, Checksum)> {
        self.state().map.take_unverified(interruptions)
    }

    /// Notes that a part of a block is written. Returns the block if that made it whole.
    pub(crate) fn written(&self, part: Range<u64>, checksums: BlockChecksums) -> Option<Whole> {
        self.state().map.written(part, checksums)
    }

    /// Records bytes that were discarded on arrival: they count as written.
    pub(crate) fn dropped(&self, range: Range<u64>) {
        for part in self.within_blocks(range) {
            self.written(part, BlockChecksums::of([], false));
        }
    }

    /// Compares a block with the same block as first received, if there is one.
    pub(crate) fn compare(&self, whole: &Whole) {
        let mut state = self.state();
        let before = state.before.as_ref().and_then(|known| known.get(&whole.range.start));
        if before.is_some_and(|before| *before != whole.checksums.crc32c) {
            state.damaged.push(whole.range.start);
        }
    }

    /// Takes back a block that is wrong but for its `right` parts, which stay.
    pub(crate) fn reject(&self, start: u64, right: Vec<(Range<u64>, BlockChecksums)>) {
        let mut state = self.state();
        state.map.reopen(start);
        for (part, checksums) in right {
            state.map.present(part, checksums);
        }
    }

    /// Takes back a block. Returns its bytes, which are to be fetched again.
    pub(crate) fn reopen(&self, start: u64) -> u64 {
        self.state().map.reopen(start).map_or(0, |(block, _)| range::len(&block))
    }

    /// Continues with a file that was complete.
    pub(crate) fn go_on(&self) {
        self.state().over = false;
    }

    /// Takes back the `wanted` blocks, to be compared when they arrive again. Returns the number of
    /// their bytes. If there are some, `prepare` is called before a worker can take them.
    pub(crate) fn fetch_blocks_again(
        &self,
        mut wanted: impl FnMut(&Range<u64>) -> bool,
        prepare: impl FnOnce(),
    ) -> u64 {
        let mut state = self.state();
        let mut bytes = 0;
        for (start, (length, _)) in state.map.whole_blocks() {
            if wanted(&(start..start.saturating_add(length)))
                && let Some((block, crc32c)) = state.map.reopen(start)
            {
                bytes += range::len(&block);
                state.before.get_or_insert_default().insert(start, crc32c);
            }
        }
        if bytes > 0 {
            state.damaged.clear();
            state.over = false;
            prepare();
        }
        bytes
    }

    /// Discards all blocks and begins again. Returns false if that was done before. Otherwise
    /// `prepare` is called before a worker can take a piece.
    pub(crate) fn fetch_all_again(&self, prepare: impl FnOnce()) -> bool {
        let mut state = self.state();
        if state.before.is_some() {
            return false;
        }
        let before = state.map.begin_again();
        state.before = Some(before);
        state.over = false;
        prepare();
        true
    }

    /// Blocks that came differently the second time, if there was one.
    pub(crate) fn damaged(&self) -> Option<Vec<u64>> {
        let state = self.state();
        state.before.is_some().then(|| state.damaged.clone())
    }

    fn state(&self) -> MutexGuard<'_, BlocksState> {
        lock(&self.state)
    }
}

impl BlocksState {
    /// Bytes that have not arrived.
    fn missing_bytes(&self) -> u64 {
        let in_flight: u64 = self.running.iter().map(|piece| piece.buffer.progress().1).sum();
        self.map.untaken_bytes() + in_flight
    }

    fn start(&mut self, piece: Piece) -> Arc<Piece> {
        let piece = Arc::new(piece);
        self.running.push(Arc::clone(&piece));
        piece
    }

    fn claim(&mut self) -> bool {
        let complete = !self.over && self.running.is_empty() && self.map.is_complete();
        self.over |= complete;
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hither_core::Part;

    const MIB: u64 = 1 << 20;
    const RTT: Duration = Duration::from_millis(50);
    const SECOND: Duration = Duration::from_secs(1);
    const START: Duration = Duration::ZERO;

    /// A file of 16 MiB in blocks of 4 MiB.
    fn blocks(max_pieces: usize, is_exact: bool) -> FileBlocks {
        FileBlocks::new(BlockMap::new(16 * MIB, 4 * MIB), max_pieces, is_exact)
    }

    fn take(blocks: &FileBlocks, worker: usize) -> Option<Arc<Piece>> {
        blocks.take(worker, START, RangeSupport::Single, |_| u64::MAX)
    }

    fn take_all(blocks: &FileBlocks) -> Vec<Arc<Piece>> {
        (1..).map_while(|worker| take(blocks, worker)).collect()
    }

    fn arrive(piece: &Piece, bytes: u64) {
        let bytes = Bytes::from(vec![7; usize::try_from(bytes).unwrap()]);
        piece.buffer.accept(&Part { offset: piece.buffer.missing().start, bytes }, true);
    }

    /// Brings and writes the rest of a piece. Returns true if the file is complete.
    fn complete(blocks: &FileBlocks, piece: &Arc<Piece>) -> bool {
        arrive(piece, range::len(&piece.buffer.missing()));
        let batch = piece.buffer.take(1, false).unwrap();
        for part in blocks.within_blocks(batch.range()) {
            blocks.written(part, BlockChecksums::of([], false));
        }
        blocks.ended(piece)
    }

    fn idle(now: Duration) -> IdleWorker {
        IdleWorker { number: 9, now, rtt: RTT, best_speed: None }
    }

    #[test]
    fn pieces_are_blocks_as_many_as_may_be_in_flight() {
        let blocks = blocks(3, true);
        let pieces = take_all(&blocks);
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.buffer.missing()).collect();
        assert_eq!(ranges, [0..4 * MIB, 4 * MIB..8 * MIB, 8 * MIB..12 * MIB]);
        assert!(blocks.is_under_way());
        assert!(!complete(&blocks, &pieces[0]));
        assert_eq!(take(&blocks, 1).unwrap().buffer.missing(), 12 * MIB..16 * MIB);
    }

    #[test]
    fn a_piece_is_the_share_of_what_has_not_arrived() {
        let blocks = blocks(usize::MAX, false);
        let half =
            |worker| blocks.take(worker, START, RangeSupport::Single, |left| left / 8).unwrap();
        let first = half(1);
        assert_eq!(first.buffer.missing(), 0..2 * MIB);
        arrive(&first, 2 * MIB);
        assert_eq!(half(2).buffer.missing(), 2 * MIB..15 * MIB / 4);
        // Where pieces are whole blocks, `share` is not called.
        let exact = self::blocks(usize::MAX, true);
        let piece = exact.take(1, START, RangeSupport::Single, |_| 1).unwrap();
        assert_eq!(piece.buffer.missing(), 0..4 * MIB);
    }

    #[test]
    fn a_server_without_ranges_is_asked_once() {
        let blocks = blocks(usize::MAX, false);
        let all = blocks.take(1, START, RangeSupport::Whole, |_| 1).unwrap();
        assert_eq!(all.buffer.missing(), 0..16 * MIB);
        assert!(blocks.take(2, START, RangeSupport::Whole, |_| 1).is_none());
    }

    #[test]
    fn an_idle_worker_takes_the_later_half_of_the_slowest_piece() {
        let blocks = blocks(usize::MAX, false);
        let pieces = take_all(&blocks);
        for (piece, mib) in pieces.iter().zip([3, 3, 1, 3]) {
            arrive(piece, mib * MIB);
        }
        let taken = blocks.split_slowest(idle(SECOND)).unwrap();
        assert_eq!(taken.buffer.missing(), 21 * MIB / 2..12 * MIB);
        assert_eq!(pieces[2].buffer.missing(), 9 * MIB..21 * MIB / 2);
        assert_eq!((taken.worker(), taken.sent), (9, SECOND));
    }

    #[test]
    fn nothing_is_split_while_there_is_more_to_take_or_a_request_costs_more() {
        let blocks = blocks(4, false);
        let first = take(&blocks, 1).unwrap();
        arrive(&first, MIB);
        assert!(blocks.split_slowest(idle(SECOND)).is_none(), "more to take");
        for piece in &take_all(&blocks) {
            arrive(piece, 4 * MIB - 1);
        }
        arrive(&first, 3 * MIB - (64 << 10));
        assert!(blocks.split_slowest(idle(SECOND)).is_none(), "too few bytes");
        let exact = self::blocks(4, true);
        take_all(&exact).iter().for_each(|piece| arrive(piece, MIB));
        assert!(exact.split_slowest(idle(SECOND)).is_none(), "whole blocks only");
    }

    #[test]
    fn a_replica_much_slower_than_the_best_loses_the_whole_rest() {
        let blocks = blocks(usize::MAX, false);
        let pieces = take_all(&blocks);
        for (piece, mib) in pieces.iter().zip([4, 4, 1, 4]) {
            arrive(piece, mib * MIB);
        }
        // Half as fast: half of the rest. Ten times: all of it.
        let best = |rate| IdleWorker { best_speed: Some(rate), ..idle(SECOND) };
        let half = blocks.split_slowest(best(2e6)).unwrap();
        assert_eq!(range::len(&half.buffer.missing()), 3 * MIB / 2);
        arrive(&half, 3 * MIB / 2);
        let all = blocks.split_slowest(best(1e7)).unwrap();
        assert_eq!(all.buffer.missing(), 9 * MIB..21 * MIB / 2);
        assert!(pieces[2].buffer.may_be_cut_off());
    }

    #[test]
    fn a_silent_piece_is_taken_over_by_one_that_may_be_silent_for_twice_as_long() {
        let blocks = FileBlocks::new(BlockMap::new(4 * MIB, 4 * MIB), 8, false);
        take(&blocks, 1).unwrap();
        assert!(blocks.split_slowest(idle(RTT)).is_none());
        let second = blocks.split_slowest(idle(4 * RTT)).unwrap();
        arrive(&take_first(&blocks), 2 * MIB);
        assert!(blocks.split_slowest(idle(12 * RTT - RTT / 2)).is_none());
        let third = blocks.split_slowest(idle(12 * RTT)).unwrap();
        assert_eq!(third.buffer.missing().end, 4 * MIB);
        assert!(second.buffer.missing().end < 4 * MIB);
    }

    /// The first piece in flight.
    fn take_first(blocks: &FileBlocks) -> Arc<Piece> {
        Arc::clone(blocks.state().running.first().unwrap())
    }

    #[test]
    fn pieces_of_parked_workers_are_taken_back_for_others() {
        let blocks = blocks(usize::MAX, false);
        let pieces = take_all(&blocks);
        arrive(&pieces[3], MIB);
        blocks.take_back(3);
        assert!(pieces[3].buffer.may_be_cut_off());
        assert_eq!(take(&blocks, 1).unwrap().buffer.missing(), 13 * MIB..16 * MIB);
        assert!(take(&blocks, 2).is_none());
        let exact = self::blocks(usize::MAX, true);
        take_all(&exact);
        exact.take_back(0);
        assert!(take(&exact, 1).is_none());
    }

    #[test]
    fn one_worker_finishes_the_file() {
        let blocks = blocks(usize::MAX, false);
        let pieces = take_all(&blocks);
        assert!(!blocks.is_to_be_finished());
        let finished = pieces.iter().filter(|piece| complete(&blocks, piece)).count();
        assert_eq!((finished, blocks.is_over()), (1, true));
        assert!(!blocks.is_to_be_finished() && !blocks.is_under_way());
    }

    #[test]
    fn of_a_file_that_has_failed_nothing_is_fetched_or_finished() {
        let blocks = blocks(usize::MAX, false);
        let pieces = take_all(&blocks);
        assert!(blocks.give_up() && !blocks.give_up());
        assert!(!pieces.iter().any(|piece| complete(&blocks, piece)));
        assert!(blocks.split_slowest(idle(SECOND)).is_none());
    }

    #[test]
    fn a_wrong_block_is_fetched_again_but_for_its_right_parts() {
        let blocks = blocks(usize::MAX, false);
        take_all(&blocks).iter().for_each(|piece| assert!(piece.buffer.missing().end > 0));
        for part in blocks.within_blocks(0..16 * MIB) {
            blocks.written(part, BlockChecksums::of([], false));
        }
        blocks.reject(4 * MIB, vec![(5 * MIB..6 * MIB, BlockChecksums::of([], false))]);
        assert_eq!(blocks.written_bytes(), 13 * MIB);
        let again = [take(&blocks, 1), take(&blocks, 2), take(&blocks, 3)];
        let ranges = again.map(|piece| piece.map(|piece| piece.buffer.missing()));
        assert_eq!(ranges, [Some(4 * MIB..5 * MIB), Some(6 * MIB..8 * MIB), None]);
    }

    #[test]
    fn blocks_that_come_differently_the_second_time_are_damaged() {
        let blocks = FileBlocks::new(BlockMap::new(8, 4), 8, false);
        let write = |start: u64, bytes: &[u8]| {
            let part = start..start + bytes.len() as u64;
            let whole = blocks.written(part, BlockChecksums::of([bytes], false)).unwrap();
            blocks.compare(&whole);
        };
        let fetch = || {
            take_all(&blocks).iter().for_each(|piece| {
                blocks.ended(piece);
            })
        };
        fetch();
        write(0, b"abcd");
        write(4, b"efgh");
        assert!(blocks.is_to_be_finished());
        assert_eq!(blocks.damaged(), None);
        assert_eq!(blocks.fetch_blocks_again(|block| block.start == 4, || {}), 4);
        fetch();
        write(4, b"eFgh");
        assert_eq!(blocks.damaged(), Some(vec![4]));
        // Other replicas are tried: their blocks are compared again.
        assert_eq!(blocks.fetch_blocks_again(|block| block.start == 0, || {}), 4);
        assert_eq!(blocks.damaged(), Some(Vec::new()));
        assert!(!blocks.fetch_all_again(|| unreachable!("once only")));
    }

    #[test]
    fn all_is_fetched_again_once() {
        let blocks = FileBlocks::new(BlockMap::new(8, 4), 8, false);
        take_all(&blocks).iter().for_each(|piece| {
            blocks.ended(piece);
        });
        blocks.dropped(0..8);
        assert!(blocks.is_to_be_finished());
        // No worker takes a piece before all is prepared.
        assert!(blocks.fetch_all_again(|| assert!(blocks.state.try_lock().is_err())));
        assert!(!blocks.fetch_all_again(|| unreachable!("once only")));
        assert_eq!((blocks.written_bytes(), blocks.is_over()), (0, false));
        assert_eq!(take_all(&blocks).len(), 2);
    }
}
