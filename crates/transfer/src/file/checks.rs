//! The checksums of a file that is copied: those computed while bytes pass, those that servers and
//! a catalogue state, and the damaged blocks.
//!
//! Where a catalogue states checksums of pieces, each block is compared as soon as it is whole
//! ([`FileChecks::compare_block`]). The pieces that differ are fetched again. Pieces that fit no
//! blocks are compared when the file is complete ([`FileChecks::compare_late`]).

pub(crate) mod prefix_sum;

use crate::file::blocks::block_map::{BlockChecksums, BlockMap};
use crate::file::blocks::piece_buffer::WriteBatch;
use crate::file::checks::prefix_sum::PrefixSum;
use crate::file::target::partial_file::PartialFile;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::replica_set::PieceChecksums;
use hither_core::sync::lock;
use hither_core::{ReplicaSet, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// The number of times that one block may arrive damaged.
const MAX_REJECTIONS: u32 = 4;
/// The largest block, in bytes, that is made as large as a piece.
const MAX_BLOCK_BYTES: u64 = 64 << 20;

/// A pending request for a server's checksum of a file.
pub(crate) type ChecksumTask = JoinHandle<Result<Option<Checksum>>>;

/// The checksums of one file.
#[derive(Debug)]
pub(crate) struct FileChecks {
    /// The algorithm of the whole file; none if nothing is computed.
    algorithm: Option<Algorithm>,
    /// The checksum of the file, where it has to be computed in order while the bytes pass.
    chain: Option<Mutex<Hasher>>,
    /// The checksum of the file, where the bytes come in any order.
    prefix: Option<PrefixSum>,
    /// Checksums of pieces, by which blocks are compared.
    pieces: Option<Arc<PieceChecksums>>,
    /// Checksums of pieces that fit no blocks.
    late: Option<Arc<PieceChecksums>>,
    /// An earlier attempt has left bytes, which are not compared again.
    is_resumed: bool,
    /// The number of times that blocks arrived damaged, by their starts.
    rejections: Mutex<BTreeMap<u64, u32>>,
    /// Bytes of such blocks that progress still counts as done.
    rejected_bytes: AtomicU64,
    /// The pending request for the server's checksum.
    checksum_task: Mutex<Option<ChecksumTask>>,
    /// The checksum that the server has stated.
    stated: Mutex<Option<Checksum>>,
}

/// The order in which the bytes of a file come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    /// From the first to the last.
    InOrder,
    /// In any order.
    Any,
}

/// A piece whose bytes are not those that the catalogue states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrongPiece {
    pub(crate) range: Range<u64>,
    pub(crate) seen: Checksum,
    pub(crate) expected: Checksum,
}

/// A block of which some pieces are wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongBlock {
    /// The pieces that are right, with the checksums of the file.
    pub(crate) right: Vec<(Range<u64>, BlockChecksums)>,
    pub(crate) wrong: Vec<WrongPiece>,
}

/// The size of blocks that hold whole pieces, near `bytes`; `bytes` if pieces are too large.
pub(crate) fn block_bytes(bytes: u64, pieces: Option<&PieceChecksums>) -> u64 {
    let piece = pieces.map(|pieces| pieces.piece_bytes);
    let piece = piece.filter(|piece| (1..=MAX_BLOCK_BYTES).contains(piece));
    piece.map_or(bytes, |piece| piece * (bytes / piece).max(1))
}

impl FileChecks {
    /// The checksums of a file of these `blocks`.
    pub(crate) fn new(
        algorithm: Option<Algorithm>,
        order: ByteOrder,
        pieces: Option<Arc<PieceChecksums>>,
        blocks: &BlockMap,
    ) -> Self {
        let chained = algorithm.filter(|algorithm| !algorithm.is_combinable());
        let is_in_order = order == ByteOrder::InOrder;
        let fits =
            |pieces: &Arc<PieceChecksums>| blocks.block_bytes().is_multiple_of(pieces.piece_bytes);
        let (pieces, late) =
            if pieces.as_ref().is_none_or(fits) { (pieces, None) } else { (None, pieces) };
        Self {
            algorithm,
            chain: chained.filter(|_| is_in_order).map(|it| Mutex::new(Hasher::new(it))),
            prefix: chained.filter(|_| !is_in_order).map(PrefixSum::new),
            pieces,
            late,
            is_resumed: blocks.written_bytes() > 0,
            rejections: Mutex::default(),
            rejected_bytes: AtomicU64::new(0),
            checksum_task: Mutex::default(),
            stated: Mutex::default(),
        }
    }

    /// The algorithm of the whole file; none if nothing is computed.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.algorithm
    }

    /// The checksums of bytes in a row, as blocks need them.
    pub(crate) fn of<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> BlockChecksums {
        BlockChecksums::of(pieces, self.with_adler32())
    }

    fn with_adler32(&self) -> bool {
        self.algorithm == Some(Algorithm::Adler32)
    }

    /// Adds the next bytes of a file that come in order.
    pub(crate) fn chain(&self, batch: &WriteBatch) {
        if let Some(chain) = &self.chain {
            let mut chain = lock(chain);
            batch.pieces.iter().for_each(|piece| chain.update(piece));
        }
    }

    /// The checksum of the bytes that have passed in order, where it is computed so.
    pub(crate) fn chained(&self) -> Option<Checksum> {
        Some(lock(self.chain.as_ref()?).clone().finish())
    }

    /// Begins again, as the file is fetched again.
    pub(crate) fn restart(&self) {
        if let Some(chain) = &self.chain {
            let mut chain = lock(chain);
            *chain = Hasher::new(chain.algorithm());
        }
    }

    /// The sum of bytes that come in any order, where one is needed.
    pub(crate) fn prefix(&self) -> Option<&PrefixSum> {
        self.prefix.as_ref()
    }

    /// The checksum that the catalogue states of a file whose pieces were all compared, by the same
    /// algorithm: reading it all once more would show nothing new.
    pub(crate) fn known_by_pieces(&self, replicas: &dyn ReplicaSet) -> Option<Checksum> {
        let stated = replicas.expected_checksum()?;
        let pieces = self.pieces.as_ref().filter(|_| !self.is_resumed)?;
        let algorithm = pieces.checksums.first()?.algorithm();
        (Some(algorithm) == self.algorithm && algorithm == stated.algorithm()).then_some(stated)
    }

    /// Compares the pieces of a batch. Returns the first that is wrong.
    pub(crate) fn compare_batch(&self, batch: &WriteBatch) -> Option<WrongPiece> {
        let pieces = self.pieces.as_ref()?;
        pieces.within(batch.range()).find_map(|(range, expected)| {
            let mut hasher = Hasher::new(expected.algorithm());
            batch.slices(&range).for_each(|bytes| hasher.update(bytes));
            wrong(range, hasher.finish(), expected)
        })
    }

    /// Compares a block that is whole with the checksums of its pieces. Returns none if all are
    /// right. Blocks the thread.
    pub(crate) fn compare_block(
        &self,
        part: &PartialFile,
        block: &Range<u64>,
    ) -> Result<Option<WrongBlock>> {
        let Some(pieces) = &self.pieces else { return Ok(None) };
        let mut right = Vec::new();
        let mut all_wrong = Vec::new();
        for (range, expected) in pieces.within(block.clone()) {
            let seen = part.sum(range.clone(), expected.algorithm())?;
            match wrong(range.clone(), seen, expected) {
                Some(wrong) => all_wrong.push(wrong),
                None => right.push(range),
            }
        }
        if all_wrong.is_empty() {
            return Ok(None);
        }
        let right = right.into_iter().map(|range| {
            let checksums = part.checksums(range.clone(), self.with_adler32())?;
            Ok((range, checksums))
        });
        Ok(Some(WrongBlock { right: right.collect::<Result<_>>()?, wrong: all_wrong }))
    }

    /// The checksums of pieces that fit no blocks.
    pub(crate) fn late(&self) -> Option<&PieceChecksums> {
        self.late.as_deref()
    }

    /// Compares the pieces that fit no blocks of a file of `size` bytes that is complete. Returns
    /// the first that is wrong. Blocks the thread.
    pub(crate) fn compare_late(&self, part: &PartialFile, size: u64) -> Result<Option<WrongPiece>> {
        for (range, expected) in self.late().iter().flat_map(|pieces| pieces.within(0..size)) {
            let seen = part.sum(range.clone(), expected.algorithm())?;
            let wrong = wrong(range, seen, expected);
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    /// Counts a damaged block. Returns false if that has happened too often.
    pub(crate) fn may_reject(&self, start: u64) -> bool {
        let mut rejections = lock(&self.rejections);
        let count = rejections.entry(start).or_default();
        *count += 1;
        *count < MAX_REJECTIONS
    }

    /// Adds bytes that are fetched again, and that progress counts as done.
    pub(crate) fn add_rejected(&self, bytes: u64) {
        self.rejected_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes the bytes that progress has to take back.
    pub(crate) fn take_rejected(&self) -> u64 {
        self.rejected_bytes.swap(0, Ordering::Relaxed)
    }

    /// Records the pending request for the server's checksum.
    pub(crate) fn set_checksum_task(&self, checksum_task: ChecksumTask) {
        *lock(&self.checksum_task) = Some(checksum_task);
    }

    /// The pending request, if its result has not been taken yet.
    pub(crate) fn take_checksum_task(&self) -> Option<ChecksumTask> {
        lock(&self.checksum_task).take()
    }

    /// Records the checksum that the server states, or that it states none.
    pub(crate) fn set_stated(&self, stated: Option<Checksum>) {
        *lock(&self.stated) = stated;
    }

    /// The same, unless it is by another algorithm than that of the file.
    pub(crate) fn set_comparable(&self, stated: Option<Checksum>) {
        self.set_stated(stated.filter(|stated| Some(stated.algorithm()) == self.algorithm));
    }

    /// The checksum that the server has stated.
    pub(crate) fn stated(&self) -> Option<Checksum> {
        lock(&self.stated).clone()
    }
}

fn wrong(range: Range<u64>, seen: Checksum, expected: &Checksum) -> Option<WrongPiece> {
    (seen != *expected).then(|| WrongPiece { range, seen, expected: expected.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::group_sync::GroupSync;
    use bytes::Bytes;

    fn batch(offset: u64, pieces: &[&'static [u8]]) -> WriteBatch {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let pieces = pieces.iter().map(|piece| Bytes::from_static(piece)).collect();
        WriteBatch { offset, pieces, bytes }
    }

    fn sum(bytes: &[u8]) -> Checksum {
        Hasher::of(Algorithm::Md5, bytes)
    }

    /// The catalogue of "abcdefgh" in pieces of two bytes.
    fn pieces() -> Option<Arc<PieceChecksums>> {
        let checksums = [b"ab", b"cd", b"ef", b"gh"].map(|bytes| sum(bytes)).to_vec();
        Some(Arc::new(PieceChecksums { piece_bytes: 2, checksums }))
    }

    fn checks(algorithm: Option<Algorithm>, order: ByteOrder, block_bytes: u64) -> FileChecks {
        FileChecks::new(algorithm, order, pieces(), &BlockMap::new(8, block_bytes))
    }

    #[test]
    fn bytes_in_order_are_summed_up_as_they_pass_and_anew_when_fetched_again() {
        let checks = checks(Some(Algorithm::Sha256), ByteOrder::InOrder, 4);
        checks.chain(&batch(0, &[b"wrong"]));
        checks.restart();
        checks.chain(&batch(0, &[b"abc", b"d"]));
        checks.chain(&batch(4, &[b"efgh"]));
        assert_eq!(checks.chained(), Some(Hasher::of(Algorithm::Sha256, b"abcdefgh")));
        assert!(checks.prefix().is_none());
    }

    #[test]
    fn what_needs_an_order_is_summed_up_from_the_file_where_bytes_come_in_any() {
        let checks = checks(Some(Algorithm::Sha256), ByteOrder::Any, 4);
        assert!(checks.prefix().is_some() && checks.chained().is_none());
        // Sums of parts can be put together.
        let combinable = self::checks(Some(Algorithm::Adler32), ByteOrder::InOrder, 4);
        assert!(combinable.prefix().is_none() && combinable.chained().is_none());
        assert!(combinable.of([&b"ab"[..]]).adler32.is_some());
    }

    #[test]
    fn the_first_wrong_piece_of_a_batch_is_found_across_its_parts() {
        let checks = checks(None, ByteOrder::InOrder, 4);
        assert_eq!(checks.compare_batch(&batch(0, &[b"abc", b"d"])), None);
        let wrong = checks.compare_batch(&batch(4, &[b"e", b"Fgh"])).unwrap();
        assert_eq!(wrong, WrongPiece { range: 4..6, seen: sum(b"eF"), expected: sum(b"ef") });
    }

    #[test]
    fn pieces_that_fit_no_blocks_are_compared_when_the_file_is_complete() {
        let unfit = checks(None, ByteOrder::InOrder, 3);
        assert_eq!(unfit.compare_batch(&batch(0, &[b"xxxxxxxx"])), None);
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        let (part, _) = PartialFile::open(&target, ".part", 8, None, None, &[]).unwrap();
        let write = |bytes: &'static [u8]| {
            part.write(0, &[Bytes::from_static(bytes)], &GroupSync::default()).unwrap();
            unfit.compare_late(&part, 8).unwrap()
        };
        assert_eq!(write(b"abcdefgh"), None);
        let wrong = WrongPiece { range: 4..6, seen: sum(b"eF"), expected: sum(b"ef") };
        assert_eq!(write(b"abcdeFgh"), Some(wrong));
        assert!(checks(None, ByteOrder::InOrder, 4).late().is_none());
        assert_eq!(block_bytes(5, pieces().as_deref()), 4);
        assert_eq!(block_bytes(1, pieces().as_deref()), 2);
        assert_eq!(block_bytes(5, None), 5);
    }

    #[test]
    fn of_a_wrong_block_the_right_pieces_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        let (part, _) = PartialFile::open(&target, ".part", 8, None, None, &[]).unwrap();
        part.write(0, &[Bytes::from_static(b"abcXefgh")], &GroupSync::default()).unwrap();
        let checks = checks(Some(Algorithm::Adler32), ByteOrder::Any, 4);
        assert_eq!(checks.compare_block(&part, &(4..8)).unwrap(), None);
        let found = checks.compare_block(&part, &(0..4)).unwrap().unwrap();
        assert_eq!(found.right, [(0..2, BlockChecksums::of([&b"ab"[..]], true))]);
        let ranges: Vec<_> = found.wrong.iter().map(|wrong| wrong.range.clone()).collect();
        assert_eq!(ranges, [2..4]);
    }

    #[test]
    fn a_block_may_come_wrong_three_times() {
        let checks = checks(None, ByteOrder::Any, 4);
        let allowed: Vec<_> = (0..4).map(|_| checks.may_reject(4)).collect();
        assert_eq!(allowed, [true, true, true, false]);
        assert!(checks.may_reject(0));
        checks.add_rejected(3);
        checks.add_rejected(4);
        assert_eq!((checks.take_rejected(), checks.take_rejected()), (7, 0));
    }

    #[test]
    fn a_checksum_of_another_algorithm_is_not_compared() {
        let checks = checks(Some(Algorithm::Md5), ByteOrder::Any, 4);
        checks.set_comparable(Some(sum(b"abcdefgh")));
        assert_eq!(checks.stated(), Some(sum(b"abcdefgh")));
        checks.set_comparable(Some(Hasher::of(Algorithm::Adler32, b"abcdefgh")));
        assert_eq!(checks.stated(), None);
    }
}
