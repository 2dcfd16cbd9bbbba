//! End of a file's copy, between the last byte and the final name: checksums are compared, and the
//! file is renamed.
//!
//! A file whose checksum is wrong is fetched again, whole, block by block: blocks that differ the
//! second time were damaged in transit. If the checksum is still wrong, the source is damaged, or
//! the checksum that it was compared with is wrong; then no file gets the final name.

use crate::copy::resources::unseen::UnseenName;
use crate::destination::Target;
use crate::file::FileCopy;
use crate::file::blocks::block_map::BlockChecksums;
use crate::file::checks::WrongPiece;
use crate::file::target::Sink;
use crate::file::target::partial_file::PartialFile;
use crate::file::upload_sink;
use crate::file::version::FileVersion;
use crate::file::write::over;
use crate::options::Verify;
use crate::summary::FileChecksum;
use hither_checksum::{Algorithm, Checksum};
use hither_core::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, warn};

/// Outcome of finishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    Done,
    /// This number of bytes of it has to be fetched once more.
    Again(u64),
}

/// The time to wait for the checksums of further replicas once one has answered.
const CHECKSUM_GRACE: Duration = Duration::from_secs(1);

/// Finishes a file that is complete.
pub(crate) async fn finish(file: &Arc<FileCopy>) -> Result<Finished> {
    check_local_source(file).await?;
    let again = match upload_sink::verify_unverified(file).await {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            file.abandon().await;
            return Err(error);
        }
        again => again?,
    };
    if again > 0 {
        return Ok(Finished::Again(again));
    }
    if file.item.range.is_some() {
        return finish_range(file).await;
    }
    let began = file.source.now();
    let checksum = computed(file).await?;
    let computed_at = file.source.now();
    let expected = expected(file).await?;
    let verify = &file.resources.progress.verify;
    verify.busy(computed_at.saturating_sub(began));
    verify.blocked(file.source.now().saturating_sub(computed_at));
    if let Some(wrong) = wrong(file, checksum.as_ref(), expected.as_ref()).await? {
        if let Some(bytes) = fetch_again(file) {
            let error = wrong.error(file);
            warn!(file = file.item.name, %error, "fetching again");
            return Ok(Finished::Again(bytes));
        }
        file.note_replicas();
        file.abandon().await;
        return Err(wrong.error(file));
    }
    if let (Some(checksum), Some(_)) = (&checksum, &expected) {
        debug!(file = file.item.name, %checksum, "file verified");
    }
    let damaged = file.blocks.damaged();
    conclude_replicas(file);
    if let Some(damaged) = damaged {
        let blocks = match damaged.len() {
            1 => "1 damaged block was".to_owned(),
            number => format!("{number} damaged blocks were"),
        };
        let notice = format!("{}: {blocks} fetched again", file.item.name);
        file.resources.results.note(notice);
    }
    // The storage compares its target with what arrived. Of a file of a server, the first half of
    // the path is not covered by that.
    let is_target_compared = give_name(file, checksum.as_ref()).await?;
    let explicit = file.resources.options.verify.is_explicit();
    if let Some(checksum) = checksum.filter(|_| explicit || expected.is_some()) {
        let compared = expected.is_some() || is_target_compared && file.item.local.is_some();
        let target = file.key.clone();
        file.resources.results.note_checksum(FileChecksum { target, checksum, compared });
    }
    Ok(Finished::Done)
}

/// A checksum that is not the expected one.
enum WrongChecksum {
    /// Of the file: the computed one, and the expected one.
    File(Checksum, Checksum),
    Piece(WrongPiece),
}

impl WrongChecksum {
    fn error(&self, file: &FileCopy) -> Error {
        match self {
            Self::File(seen, expected) => {
                Error::new(ErrorKind::Corrupt, mismatch(file, seen, expected))
            }
            Self::Piece(wrong) => file.source.wrong_piece(wrong),
        }
    }
}

/// Compares the checksum of a file; if there is none, those of pieces that fit no blocks. Where
/// such pieces cannot be read at the target, a notice says that they are not compared.
async fn wrong(
    file: &Arc<FileCopy>,
    computed: Option<&Checksum>,
    expected: Option<&Checksum>,
) -> Result<Option<WrongChecksum>> {
    if let (Some(computed), Some(expected)) = (computed, expected) {
        let wrong = || WrongChecksum::File(computed.clone(), expected.clone());
        return Ok((computed != expected).then(wrong));
    }
    let Some(pieces) = file.checks.late() else { return Ok(None) };
    if file.target.part().is_some() {
        let compare = |file: &FileCopy| match file.target.part() {
            Some(part) => file.checks.compare_late(part, file.source.size()),
            None => Ok(None),
        };
        return Ok(file.blocking(compare).await?.map(WrongChecksum::Piece));
    }
    if !file.target.discards() {
        let FileCopy { item, resources, .. } = &**file;
        let bytes = pieces.piece_bytes;
        let notice =
            format!("{}: checksums of pieces of {bytes} bytes are not compared", item.name);
        resources.results.note(notice);
    }
    Ok(None)
}

/// Fetches the file again, because its checksum was wrong: from single replicas, or once as a
/// whole. Returns the number of bytes; none if that was done before.
fn fetch_again(file: &FileCopy) -> Option<u64> {
    if file.target.part().is_some()
        && let Some(bytes) = file.source.try_next_replica(&file.blocks)
    {
        return Some(bytes);
    }
    let can_again = file.target.can_begin_again() && !file.source.has_tried_replicas();
    let begin = || {
        file.target.advance(|| 0);
        file.checks.restart();
    };
    (can_again && file.blocks.fetch_all_again(begin)).then(|| file.source.size())
}

/// Excludes replicas that have sent wrong bytes, and notes the exclusions.
fn conclude_replicas(file: &FileCopy) {
    file.source.conclude(&file.blocks.damaged().unwrap_or_default());
    file.note_replicas();
}

/// Puts a range on the disk. The process that began its file commits it.
async fn finish_range(file: &Arc<FileCopy>) -> Result<Finished> {
    if let Some(upload) = file.target.upload() {
        upload.write().await.take().ok_or_else(over)?.sync().await?;
    }
    conclude_replicas(file);
    if let Some(BlockChecksums { crc32c, adler32 }) = file.blocks.checksums() {
        for checksum in [Some(crc32c), adler32].into_iter().flatten() {
            let target = file.key.clone();
            let checked = FileChecksum { target, checksum, compared: false };
            file.resources.results.note_checksum(checked);
        }
    }
    Ok(Finished::Done)
}

fn mismatch(file: &FileCopy, checksum: &Checksum, expected: &Checksum) -> String {
    let stated_by = match file.resources.options.verify {
        Verify::Value(_) => "given by the user",
        _ if file.source.replicas().is_some_and(|it| it.expected_checksum().is_some()) => {
            "stated by the catalogue"
        }
        _ => "stated by the server",
    };
    let again = match file.blocks.damaged() {
        None => String::new(),
        Some(blocks) if blocks.is_empty() => ", and fetching again gave the same bytes".to_owned(),
        Some(blocks) => format!(", and {} blocks differed when fetched again", blocks.len()),
    };
    format!("{}: received {checksum}, expected {expected} ({stated_by}){again}", file.item.name)
}

/// A local source has no validator that would show a change while it is read.
async fn check_local_source(file: &FileCopy) -> Result<()> {
    if file.item.local.is_none() {
        return Ok(());
    }
    let now = FileVersion::of(&file.item.storage.stat(&file.item.path).await?);
    if now != *file.source.version() {
        file.abandon().await;
        let message = format!("{} changed while it was copied", file.item.name);
        return Err(Error::new(ErrorKind::Changed, message));
    }
    Ok(())
}

/// The checksum of what was written.
async fn computed(file: &Arc<FileCopy>) -> Result<Option<Checksum>> {
    let Some(algorithm) = file.checks.algorithm() else { return Ok(None) };
    match algorithm {
        Algorithm::Crc32c => Ok(file.blocks.checksums().map(|checksums| checksums.crc32c)),
        Algorithm::Adler32 => Ok(file.blocks.checksums().and_then(|checksums| checksums.adler32)),
        _ => match file.checks.chained().or_else(|| file.known_by_pieces()) {
            Some(known) => Ok(Some(known)),
            None => file.blocking(summed_up).await,
        },
    }
}

/// The checksum of bytes that came in any order; sums up the rest. Blocks the thread.
fn summed_up(file: &FileCopy) -> Result<Option<Checksum>> {
    let (Some(prefix), Some(part)) = (file.checks.prefix(), file.target.part()) else {
        return Ok(None);
    };
    prefix.finish(|at| file.blocks.written_from(at), part).map(Some)
}

/// The expected checksum, if the user or the server gave one.
async fn expected(file: &FileCopy) -> Result<Option<Checksum>> {
    let verify = &file.resources.options.verify;
    if let Verify::Value(value) = verify {
        return Ok(Some(value.clone()));
    }
    if let Some(replicas) = file.source.replicas() {
        let mut is_left_out = false;
        if let (Some(mut task), Some(algorithm)) =
            (file.checks.take_checksum_task(), file.checks.algorithm())
        {
            // Once one has responded, the others get a moment more: one of them may be down.
            while tokio::time::timeout(CHECKSUM_GRACE, &mut task).await.is_err()
                && replicas.agreed_checksum().is_none()
            {}
            is_left_out = replicas.check_stated(algorithm).await?;
        }
        file.checks.set_comparable(replicas.agreed_checksum());
        if is_left_out && file.checks.stated().is_none() && !verify.is_explicit() {
            let name = &file.item.name;
            file.resources.results.note(format!(
                "{name}: not compared with a checksum: the server states those of other files, and \
                 none of this one"
            ));
        }
    } else if let Some(task) = file.checks.take_checksum_task() {
        // Most servers state no checksum, which is not a failure.
        file.checks.set_comparable(task.await.ok().and_then(Result::ok).flatten());
    }
    Ok(file.checks.stated())
}

/// Returns true if the target's storage has compared the checksum.
async fn give_name(file: &Arc<FileCopy>, checksum: Option<&Checksum>) -> Result<bool> {
    let mut is_compared = false;
    let seen = match file.target.sink() {
        Sink::Output | Sink::Discard => return Ok(false),
        Sink::Part(part) => {
            put_on_disk(file, part).await?;
            let seen = file.blocking(|file| {
                let Some(part) = file.target.part() else { return Ok(None) };
                let replace = file.resources.options.existing.replaces();
                part.finish(file.source.version().modified(), replace)?;
                crate::file::existing::local_version(part.target())
            });
            let seen = seen.await?;
            debug!(file = file.item.name, "file renamed to its target");
            seen
        }
        Sink::Upload(upload) => {
            let upload = upload.write().await.take().ok_or_else(over)?;
            let done = upload.commit(checksum.cloned()).await?;
            debug!(file = file.item.name, is_seen = done.is_seen, "upload committed");
            is_compared = done.is_compared;
            if done.may_have_lost_bytes {
                upload_sink::confirm(file).await?;
            }
            let version = FileVersion::of(&done.entry);
            file.resources.results.note_uploaded(done.entry);
            note_unseen(file, done.is_seen);
            done.is_seen.then_some(version)
        }
    };
    if let (Some(journal), Some(seen)) = (&file.resources.journal, seen) {
        journal.done(&file.key, &file.version_now(), &seen);
    }
    Ok(is_compared)
}

/// Records an upload that has its name, and whose size, or an unusual name, is not confirmed yet.
fn note_unseen(file: &FileCopy, has_size: bool) {
    let Target::Remote(storage, path) = &file.item.target else { return };
    let results = &file.resources.results;
    let source = file.item.name.clone();
    let seen = Some((file.version_now(), file.source.size()));
    if !has_size {
        let key = file.key.clone();
        let unseen = UnseenName { source, key, path: path.clone(), file: seen, has_size };
        results.note_unseen(storage, unseen);
    } else if file.item.is_of_tree {
        results.note_name(&file.item.target, source, seen);
    }
}

/// Returns when a small file is on the disk, with others that wait for that.
async fn put_on_disk(file: &Arc<FileCopy>, part: &PartialFile) -> Result<()> {
    if part.device().is_some() && file.source.size() == 0 {
        let create = file.blocking(|file| match file.target.part() {
            Some(part) => part.write(0, &[], &file.resources.group_sync),
            None => Ok(()),
        });
        create.await?;
    }
    let Some(device) = part.device() else { return Ok(()) };
    file.free_slot();
    file.resources.group_sync.sync(device, Some(part.part())).await
}

/// Leaves the written bytes to the next attempt, and frees the disk space that was reserved for the
/// rest. Returns the error, which states what stays if the disk is full.
pub(crate) async fn leave(file: &Arc<FileCopy>, error: Error) -> Error {
    let first = error.clone();
    let left = file.blocking(move |file| {
        let Some(part) = file.target.part() else { return Ok(error) };
        let blocks = file.blocks.whole_blocks();
        let kept: Vec<_> = blocks.iter().map(|(at, (bytes, _))| *at..*at + *bytes).collect();
        Ok(part.leave(error, &kept))
    });
    left.await.unwrap_or(first)
}

#[cfg(test)]
mod tests;
