//! Wrong bytes of a file with several replicas, and which replica sent them.
//!
//! Two checks find them. Where a catalogue states checksums of pieces, each block is compared as
//! soon as it is whole ([`FileCopy::check_pieces`]); the pieces that differ are fetched again, and
//! their sender is excluded.
//!
//! Otherwise the checksum of the whole file says at the end that some bytes are wrong, but not
//! which. Then the file is completed from a single replica, the one that has sent most: only the
//! blocks that others sent are fetched again. If the checksum is right then, the blocks that came
//! differently were wrong, and who had sent them is excluded by name. If not, another replica is
//! tried.

use crate::file::block_map::BlockChecksums;
use crate::file::{FileCopy, Sink};
use crate::options::Verify;
use hither_checksum::{Algorithm, Checksum};
use hither_core::storage::replica_set::PieceChecksums;
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result, range};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracing::warn;

/// Replicas that a file is completed from, one after the other, after its checksum was wrong. Each
/// may cost its whole size.
const MAX_TRIALS: usize = 3;
/// Times that one block may come wrong.
const MAX_REJECTIONS: u32 = 4;
/// The largest block, in bytes, that is made as large as a piece.
const MAX_BLOCK_BYTES: u64 = 64 << 20;

/// Replicas that are still to be tried.
#[derive(Debug)]
pub(crate) struct Trials {
    pending: Vec<usize>,
    /// The senders of the blocks that were fetched again, before that.
    senders: BTreeMap<u64, Vec<usize>>,
}

/// The size of blocks that hold whole pieces, near `bytes`; `bytes` if pieces are too large.
pub(crate) fn block_bytes(bytes: u64, pieces: Option<&PieceChecksums>) -> u64 {
    let piece = pieces.map(|pieces| pieces.piece_bytes);
    let piece = piece.filter(|piece| (1..=MAX_BLOCK_BYTES).contains(piece));
    piece.map_or(bytes, |piece| piece * (bytes / piece).max(1))
}

impl FileCopy {
    /// Compares a block that is whole with the checksums of its pieces. Those that differ are to be
    /// fetched again; returns false then.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if that has happened too often.
    pub(crate) fn check_pieces(&self, block: &Range<u64>) -> Result<bool> {
        let (Some(pieces), Sink::Part(part)) = (&self.pieces, &self.sink) else { return Ok(true) };
        let mut right = Vec::new();
        let mut wrong = None;
        for (piece, expected) in pieces.within(block.clone()) {
            let seen = part.sum(piece.clone(), expected.algorithm())?;
            if seen == *expected {
                right.push(piece);
            } else {
                wrong = Some(self.wrong_piece(&piece, &seen, expected));
            }
        }
        let Some(error) = wrong else { return Ok(true) };
        let with_adler32 = self.algorithm == Some(Algorithm::Adler32);
        let right = right.into_iter().map(|piece| {
            let checksums = part.checksums(piece.clone(), with_adler32)?;
            Ok((piece, checksums))
        });
        self.reject(block, right.collect::<Result<_>>()?, error)?;
        Ok(false)
    }

    /// The checksum that the catalogue states of a file of which every piece came in this run and
    /// was compared, by the same algorithm: to read it all once more would tell nothing new.
    pub(crate) fn known_by_pieces(&self) -> Option<Checksum> {
        let pieces = self.pieces.as_ref().filter(|_| !self.is_resumed)?;
        let was_given = matches!(self.shared.options.verify, Verify::Value(_));
        let stated = self.replicas.as_ref()?.expected_checksum().filter(|_| !was_given)?;
        let algorithm = pieces.checksums.first()?.algorithm();
        (Some(algorithm) == self.algorithm && algorithm == stated.algorithm()).then_some(stated)
    }

    /// Excludes the sender of `piece` if there is another replica. Returns what was wrong.
    pub(crate) fn wrong_piece(
        &self,
        piece: &Range<u64>,
        seen: &Checksum,
        expected: &Checksum,
    ) -> Error {
        let what = format!(
            "bytes {} to {} have {seen}, the catalogue states {expected}",
            piece.start, piece.end
        );
        let mut from = self.item.name.clone();
        if let Some(replicas) = &self.replicas {
            let usable = replicas.usable();
            let senders = replicas.senders(piece);
            let names: Vec<_> = senders.iter().filter_map(|it| usable.get(it).cloned()).collect();
            if let [sender] = senders.as_slice()
                && usable.keys().any(|other| other != sender)
            {
                replicas.exclude(*sender, &what);
            }
            if !names.is_empty() {
                from = names.join(" and ");
            }
        }
        Error::new(ErrorKind::Corrupt, format!("{from}: {what}"))
    }

    /// Takes back a block but for its `right` pieces.
    fn reject(
        &self,
        block: &Range<u64>,
        right: Vec<(Range<u64>, BlockChecksums)>,
        error: Error,
    ) -> Result<()> {
        warn!(file = self.item.name, %error, "wrong pieces of a block fetched again");
        let mut rejections = lock(&self.rejections);
        let count = rejections.entry(block.start).or_default();
        *count += 1;
        if *count >= MAX_REJECTIONS {
            return Err(error);
        }
        drop(rejections);
        let kept_bytes: u64 = right.iter().map(|(piece, _)| range::len(piece)).sum();
        let mut state = self.state();
        state.blocks.reopen(block.start);
        for (piece, checksums) in right {
            state.blocks.present(piece, checksums);
        }
        drop(state);
        let bytes = range::len(block) - kept_bytes;
        self.rejected_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.tally().bytes_resent += bytes;
        Ok(())
    }

    /// Begins to complete the file from a single replica, after its checksum was wrong. Returns the
    /// bytes that are fetched again; none if there is nothing left to try.
    pub(crate) fn try_next_replica(&self) -> Option<u64> {
        let replicas = self.replicas.as_ref()?;
        let usable = replicas.usable();
        let mut trials = lock(&self.trials);
        if trials.is_none() && usable.len() < 2 {
            return None;
        }
        let trials = trials.get_or_insert_with(|| {
            let mut pending: Vec<usize> = usable.keys().copied().collect();
            let reports = replicas.reports();
            let brought = |replica: &usize| reports.get(*replica).map_or(0, |it| it.bytes);
            pending.sort_by_key(|replica| std::cmp::Reverse(brought(replica)));
            pending.truncate(MAX_TRIALS);
            pending.reverse();
            Trials { pending, senders: BTreeMap::new() }
        });
        while let Some(only) = trials.pending.pop() {
            let mut state = self.state();
            let mut bytes = 0;
            for start in state.blocks.whole_blocks().into_keys() {
                let end = start.saturating_add(state.blocks.block_bytes());
                let senders = replicas.senders(&(start..end));
                if senders != [only]
                    && let Some((block, crc32c)) = state.blocks.reopen(start)
                {
                    bytes += range::len(&block);
                    trials.senders.insert(start, senders);
                    state.before.get_or_insert_default().insert(start, crc32c);
                }
            }
            // Otherwise all of it came from this one.
            if bytes > 0 {
                warn!(
                    file = self.item.name,
                    replica = usable.get(&only),
                    bytes,
                    "trying a replica"
                );
                state.damaged.clear();
                state.over = false;
                replicas.use_only(Some(only));
                return Some(bytes);
            }
        }
        None
    }

    /// The checksum is right: excludes the replicas whose blocks differed before, and notes the
    /// exclusions.
    pub(crate) fn conclude_replicas(&self) {
        let Some(replicas) = &self.replicas else { return };
        replicas.use_only(None);
        if let Some(trials) = lock(&self.trials).take() {
            let mut wrong: BTreeMap<usize, usize> = BTreeMap::new();
            for start in &self.state().damaged {
                if let Some([sender]) = trials.senders.get(start).map(Vec::as_slice) {
                    *wrong.entry(*sender).or_default() += 1;
                }
            }
            for (sender, blocks) in wrong {
                replicas.exclude(sender, &format!("sent wrong bytes, in {blocks} blocks"));
            }
        }
        self.note_replicas();
    }

    /// Adds what replicas brought, and why some were excluded, to the summary.
    pub(crate) fn note_replicas(&self) {
        let Some(replicas) = &self.replicas else { return };
        replicas.notices().into_iter().for_each(|notice| self.shared.note_once(notice));
        if replicas.reports().len() > 1 {
            self.shared.note_sources(replicas.server_reports());
        }
    }

    /// The checksums of pieces that fit the file and its blocks.
    pub(crate) fn fitting_pieces(
        pieces: Option<Arc<PieceChecksums>>,
        size: u64,
        block_bytes: u64,
    ) -> Option<Arc<PieceChecksums>> {
        pieces
            .filter(|pieces| pieces.covers(size) && block_bytes.is_multiple_of(pieces.piece_bytes))
    }
}
