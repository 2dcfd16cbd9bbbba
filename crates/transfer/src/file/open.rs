//! Opening of a file to be copied: its version, its target, and the bytes already there.
//!
//! The metadata of a listed file are those of its entry. For a file that was named by its URL, the
//! first bytes are requested instead: the response shows the size and the version as a HEAD would,
//! and contains all of a small file.

use crate::copy::resources::CopyResources;
use crate::copy::small_slot::SmallSlot;
use crate::destination::Target;
use crate::file::blocks::FileBlocks;
use crate::file::blocks::block_map::BlockMap;
use crate::file::checks::{self, ByteOrder, FileChecks};
use crate::file::existing::is_to_be_skipped;
use crate::file::identify::{identify, unknown_size};
use crate::file::item::CopyItem;
use crate::file::source::{FileSource, Replicas};
use crate::file::target::partial_file::{self, PartialFile};
use crate::file::target::sequencer::Sequencer;
use crate::file::target::{FileTarget, Sink};
use crate::file::version::FileVersion;
use crate::file::{FileCopy, upload_sink, write};
use crate::journal::Known;
use crate::options::Verify;
use hither_checksum::{Algorithm, Checksum};
use hither_core::{Error, ErrorKind, PieceChecksums, PutOptions, ReplicaSet, Result};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::task::spawn_blocking;
use tracing::debug;

/// Result of opening a file.
pub(crate) enum OpenResult {
    /// The file is to be copied.
    File(Arc<FileCopy>),
    /// The existing target is kept. Its size in bytes.
    Skipped(u64),
}

/// Workers that read ahead for a target that takes blocks in order: enough to hide a round trip.
const READ_AHEAD: usize = 16;

/// Opens a file. A small one has a slot.
pub(crate) async fn open(
    resources: &Arc<CopyResources>,
    item: CopyItem,
    slot: Option<SmallSlot>,
) -> Result<OpenResult> {
    let CopyResources { options, journal, progress, results, .. } = &**resources;
    let key = item.target.name();
    let known = journal.as_ref().and_then(|journal| journal.take(&key));
    let replicas = Replicas::of(&item)?;
    let (mut version, head) = identify(&options.retry, &item, &replicas, known.as_ref()).await?;
    let size = version.size.ok_or_else(|| unknown_size(&item.name))?;
    if item.backoff.failures() == 0 && !item.restarted {
        progress.found_bytes(size.saturating_sub(item.counted_bytes()));
    }
    if is_to_be_skipped(options.existing, &item, &version, known.as_ref()).await? {
        debug!(file = item.name, bytes = size, "file skipped");
        return Ok(OpenResult::Skipped(size));
    }
    if let Some(all) = replicas.all() {
        of_replicas(&**all, &mut version, known.as_ref()).await;
    }
    let known = known.filter(|known| known.version.is_surely(&version));
    // Where the checksum decided, the replicas may have new tags.
    if let (Some(all), Some(known), None) = (replicas.all(), &known, &version.checksum) {
        all.bind_validators(&known.version.replicas);
    }
    let catalogued = replicas.all().and_then(|all| all.expected_checksum());
    let algorithm = algorithm(resources, &item, size, catalogued.as_ref());
    let pieces = replicas.all().and_then(|all| all.pieces());
    check_pieces(pieces.as_deref(), size, &item.name)?;
    let block_bytes = checks::block_bytes(options.block_bytes, pieces.as_deref());
    let (sink, mut blocks, is_new) =
        sink(resources, &item, &version, known, algorithm, block_bytes).await?;
    let mut abilities = sink.abilities(&item, algorithm.is_some()).await;
    // Pieces are compared in whole blocks.
    abilities.takes_any_bytes &= pieces.is_none();
    let is_chained = algorithm.is_some_and(|algorithm| !algorithm.is_combinable());
    let is_ordered = abilities.parallel == 1 || is_chained && !matches!(sink, Sink::Part(_));
    let max_pieces = if is_ordered {
        read_ahead(options.budget_bytes, blocks.block_bytes())
    } else {
        abilities.parallel.max(1)
    };
    let arrived_bytes = head.as_ref().map_or(0, |head| head.bytes);
    if let Some(limiter) = &options.bandwidth {
        limiter.take(arrived_bytes, item.directions());
    }
    let byte_order = if is_ordered { ByteOrder::InOrder } else { ByteOrder::Any };
    let checks = FileChecks::new(algorithm, byte_order, pieces, &blocks);
    let token = abilities.token.clone();
    // An upload may take only whole blocks.
    let fits =
        abilities.takes_any_bytes || !matches!(sink, Sink::Upload(_)) || arrived_bytes == size;
    let order = is_ordered.then(|| Sequencer::new(blocks.first_missing()));
    let target = FileTarget::new(sink, abilities, order, item.is_small);
    let head = head.filter(|head| fits && blocks.written_bytes() == 0 && head.bytes > 0);
    results.note_arrived(arrived_bytes, head.as_ref().map_or(0, |head| head.bytes));
    // Written below.
    head.iter().for_each(|head| blocks.take_exactly(&head.range()));
    log_begin(&item.name, size, blocks.written_bytes());
    let file = Arc::new(FileCopy {
        resources: Arc::clone(resources),
        key,
        source: FileSource::new(&item, replicas, version, size),
        blocks: FileBlocks::new(blocks, max_pieces, target.is_exact()),
        target,
        checks,
        is_journaled: size > options.block_bytes,
        journaled: Mutex::default(),
        slot: Mutex::new(slot),
        item,
    });
    // Also of an upload that leaves no whole block behind: the next attempt replaces what this one
    // has sent, instead of leaving it at the server.
    let journal = match file.target.upload() {
        Some(_) => resources.journal.as_ref(),
        None => file.journal(),
    };
    if is_new && let (Some(journal), Some(part)) = (journal, token) {
        journal.file(&file.key, file.source.version(), Some(&part));
    }
    if let Some(head) = head {
        file.hold(head.bytes);
        write::write(Arc::clone(&file), head).await?;
    }
    ask_for_checksum(&file);
    Ok(OpenResult::File(file))
}

/// The pieces that are read ahead for a target that takes blocks in order.
fn read_ahead(budget_bytes: u64, block_bytes: u64) -> usize {
    let room = budget_bytes / (2 * block_bytes);
    usize::try_from(room).unwrap_or(READ_AHEAD).clamp(1, READ_AHEAD)
}

fn log_begin(file: &str, bytes: u64, resumed: u64) {
    match resumed {
        0 => debug!(file, bytes, "file begun"),
        _ => debug!(file, bytes, resumed, "file resumed"),
    }
}

/// Completes the version of a file with replicas by what does not depend on the one that responded
/// first. If that does not show that an earlier attempt (`known`) was of the same version, but its
/// checksum is known, the checksums of the servers are requested.
async fn of_replicas(replicas: &dyn ReplicaSet, version: &mut FileVersion, known: Option<&Known>) {
    version.replicas.extend(replicas.validators());
    let sum = |sum: Checksum| Some(sum.to_string());
    version.checksum = replicas.expected_checksum().and_then(sum);
    let Some(known) = known.filter(|known| !known.version.is_surely(version)) else { return };
    let stated = known.version.checksum.as_ref().and_then(|sum| sum.parse::<Checksum>().ok());
    if let (Some(stated), None) = (stated, &version.checksum) {
        replicas.ask_checksums(stated.algorithm()).await;
        version.checksum = replicas.agreed_checksum().and_then(sum);
    }
}

/// Fails if a catalogue states checksums for a number of pieces that is not that of the file: a
/// defect of the catalogue must not disable the comparison.
fn check_pieces(pieces: Option<&PieceChecksums>, size: u64, name: &str) -> Result<()> {
    let Some(pieces) = pieces.filter(|pieces| !pieces.covers(size)) else { return Ok(()) };
    let PieceChecksums { piece_bytes, checksums } = pieces;
    let what = format!(
        "{name} has {size} bytes, and the catalogue states {} checksums of pieces of {piece_bytes} \
         bytes: they do not cover it",
        checksums.len()
    );
    Err(Error::new(ErrorKind::Corrupt, what))
}

/// The checksum to compute; none if nothing could be compared with it and none was requested. The
/// checksum of a `catalogue` costs no request.
fn algorithm(
    resources: &CopyResources,
    item: &CopyItem,
    size: u64,
    catalogue: Option<&Checksum>,
) -> Option<Algorithm> {
    let verify = &resources.options.verify;
    if let (Verify::Automatic, Some(catalogue), false) =
        (verify, catalogue, matches!(item.target, Target::Discard))
    {
        return Some(catalogue.algorithm());
    }
    let no_checksum_expected = match &item.target {
        Target::Discard => true,
        Target::Local(_) => item.local.is_some(),
        Target::Remote(..) | Target::Output => false,
    };
    let small = size < resources.options.block_bytes;
    verify.algorithm().filter(|_| verify.is_explicit() || !no_checksum_expected && !small)
}

/// The sink, the blocks already there, and true if the journal needs a record of a new file.
async fn sink(
    resources: &CopyResources,
    item: &CopyItem,
    version: &FileVersion,
    known: Option<Known>,
    algorithm: Option<Algorithm>,
    block_bytes: u64,
) -> Result<(Sink, BlockMap, bool)> {
    let size = version.size.unwrap_or_default();
    let blocks = BlockMap::new(size, block_bytes);
    match &item.target {
        Target::Output => Ok((Sink::Output, blocks, false)),
        Target::Discard => Ok((Sink::Discard, blocks, false)),
        Target::Local(path) => {
            let name = PartialFile::name(path, &resources.job);
            let bits = item.local.as_ref().and_then(|path| partial_file::mode_of(path));
            let mode = bits.or(item.mode).map(|bits| resources.file_mode(bits));
            if item.is_small {
                let part = PartialFile::small(path, &name, size, mode, version.modified());
                return Ok((Sink::Part(part), blocks, false));
            }
            let known = known.filter(|known| known.part.as_ref() == Some(&name));
            let noted = noted(&blocks, known.unwrap_or_default());
            let path = path.clone();
            let with_adler32 = algorithm == Some(Algorithm::Adler32);
            let is_new = noted.is_empty();
            let from = item.local.clone().filter(|_| algorithm.is_none());
            let opened = spawn_blocking(move || {
                let open = |path: PathBuf| {
                    File::open(&path)
                        .map_err(|error| partial_file::failed("cannot open", &path, error))
                };
                let from = from.map(open).transpose()?;
                let kept: Vec<_> = noted.iter().map(|(range, _)| range.clone()).collect();
                let (part, is_shared) =
                    PartialFile::open(&path, &name, size, mode, from.as_ref(), &kept)?;
                if is_shared {
                    return Ok((Sink::Part(part), blocks.all_present(), false));
                }
                let blocks = verified(&part, blocks, noted, with_adler32);
                Ok((Sink::Part(part), blocks, is_new))
            });
            let died =
                |error| Err(Error::new(ErrorKind::Local, "a thread panicked").with_source(error));
            let opened = opened.await.unwrap_or_else(died)?;
            match opened.1.written_bytes() {
                bytes if is_new => {
                    resources.results.note_arrived(bytes, bytes);
                    resources.progress.done_bytes(bytes);
                }
                bytes => resources.results.note_resumed(bytes),
            }
            Ok(opened)
        }
        Target::Remote(storage, path) => {
            // Without a journal, nothing keeps another process from doing the same; and an upload
            // of the version before may still reach the server.
            let partial = resources
                .journal
                .as_ref()
                .filter(|_| !item.restarted)
                .map(|_| PartialFile::name(Path::new(&item.target.name()), &resources.job));
            let options = PutOptions {
                size,
                overwrite: resources.options.existing.replaces(),
                expected: resources.options.expected.clone(),
                resume: None,
                modified: version.modified(),
                partial,
                is_looked_at: item.is_small && item.directory.is_some(),
                read_back: resources.options.verify.is_explicit(),
            };
            if let Some(part) = &item.range {
                let block_bytes = resources.options.block_bytes;
                return upload_sink::range(&**storage, path, options, part, block_bytes).await;
            }
            let checked = (algorithm, block_bytes);
            upload_sink::whole(resources, item, &**storage, path, options, known, checked).await
        }
    }
}

/// The blocks of the file that the journal has noted, in order, with their crc32c.
fn noted(blocks: &BlockMap, known: Known) -> Vec<(Range<u64>, Checksum)> {
    let noted = known.blocks.into_iter();
    let noted = noted.map(|(at, (bytes, crc32c))| (at..at.saturating_add(bytes), crc32c));
    let is_block = |range: &Range<u64>| {
        range.end <= blocks.size() && blocks.within_blocks(range.clone()).eq([range.clone()])
    };
    noted.filter(|(range, _)| is_block(range)).collect()
}

/// The blocks of the partial file whose checksums are as `noted`.
fn verified(
    part: &PartialFile,
    mut blocks: BlockMap,
    noted: Vec<(Range<u64>, Checksum)>,
    with_adler32: bool,
) -> BlockMap {
    for (range, crc32c) in noted {
        // What cannot be read is fetched again.
        if let Ok(checksums) = part.checksums(range.clone(), with_adler32)
            && checksums.crc32c == crc32c
        {
            blocks.present(range, checksums);
        }
    }
    blocks
}

/// Requests the checksum from the server, while the bytes move.
fn ask_for_checksum(file: &Arc<FileCopy>) {
    let options = &file.resources.options;
    let given = matches!(options.verify, Verify::Value(_));
    let wants_checksum = file.item.local.is_none() && !given && file.item.range.is_none();
    let Some(algorithm) = file.checks.algorithm().filter(|_| wants_checksum) else {
        return;
    };
    if let Some(replicas) = file.source.replicas() {
        let is_catalogued = replicas.expected_checksum().is_some();
        if is_catalogued && file.source.size() < options.block_bytes {
            return;
        }
        let replicas = Arc::clone(replicas);
        let asked = Arc::downgrade(file);
        file.checks.set_checksum_task(tokio::spawn(async move {
            replicas.ask_checksums(algorithm).await;
            // The replica that differs is excluded as soon as it is known.
            let agreed = replicas.agreed_checksum();
            if let Some(file) = asked.upgrade() {
                file.checks.set_stated(agreed.clone());
                file.note_version();
            }
            Ok(agreed)
        }));
        return;
    }
    let storage = Arc::clone(&file.item.storage);
    let path = file.item.path.clone();
    file.checks
        .set_checksum_task(tokio::spawn(async move { storage.checksum(&path, algorithm).await }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_checksum::Hasher;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pieces_are_read_ahead_within_half_of_the_memory() {
        for (budget, block, pieces) in [
            (256 * MIB, 4 * MIB, READ_AHEAD),
            (64 * MIB, 4 * MIB, 8),
            (4 * MIB, 4 * MIB, 1),
            (0, 4 * MIB, 1),
            (u64::MAX, 1, READ_AHEAD),
        ] {
            assert_eq!(read_ahead(budget, block), pieces, "{budget} {block}");
        }
    }

    #[test]
    fn a_catalogue_has_to_state_the_checksums_of_all_pieces() {
        let of = |pieces| PieceChecksums {
            piece_bytes: 4,
            checksums: vec![Hasher::of(Algorithm::Crc32c, b"piece"); pieces],
        };
        assert!(check_pieces(None, 10, "file").is_ok());
        assert!(check_pieces(Some(&of(3)), 10, "file").is_ok());
        for pieces in [0, 2, 4] {
            let error = check_pieces(Some(&of(pieces)), 10, "file").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn records_of_a_journal_are_taken_that_lie_in_one_block() {
        let blocks = BlockMap::new(10, 4);
        let taken = |at: u64, bytes: u64| {
            let crc32c = Hasher::of(Algorithm::Crc32c, b"block");
            let known = Known { blocks: [(at, (bytes, crc32c))].into(), ..Known::default() };
            noted(&blocks, known).into_iter().map(|(range, _)| range).next()
        };
        for (at, bytes) in [(0, 4), (4, 4), (8, 2), (0, 3), (5, 1)] {
            assert_eq!(taken(at, bytes), Some(at..at + bytes));
        }
        for (at, bytes) in [(0, 8), (2, 4), (8, 4), (12, 4), (4, u64::MAX)] {
            assert_eq!(taken(at, bytes), None, "{at} {bytes}");
        }
    }
}
