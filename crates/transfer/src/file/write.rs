//! Writing of batches that have arrived.
//!
//! Where writes return at once, as they do while they only reach the page cache, a batch is written
//! by the thread that has received it, while the bytes are in its cache. As soon as one takes
//! longer, the next ones are written away from the threads that drive sockets, until they are quick
//! again ([`FileTarget::note_write`](crate::file::target::FileTarget::note_write), decision 0050).
//!
//! The thread that writes also computes checksums, while the bytes are in its cache. A block that
//! becomes whole is recorded in the journal after it was written, never before.

use crate::file::FileCopy;
use crate::file::blocks::block_map::BlockChecksums;
use crate::file::blocks::piece::Piece;
use crate::file::blocks::piece_buffer::WriteBatch;
use crate::file::checks::WrongBlock;
use crate::file::target::Sink;
use crate::file::target::partial_file::{self, PartialFile};
use hither_core::{Error, ErrorKind, Result, range};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tracing::warn;

/// The most bytes of a file of this machine that are copied between two looks at the limit of
/// bandwidth.
const LIMITED_BYTES: u64 = 1 << 20;

/// Writes a batch where it belongs.
pub(crate) async fn write(file: Arc<FileCopy>, batch: WriteBatch) -> Result<()> {
    let bytes = batch.bytes;
    let result = put(&file, batch).await;
    file.release(bytes);
    let progress = &file.resources.progress;
    progress.done_bytes(bytes);
    progress.undone_bytes(file.checks.take_rejected());
    result
}

/// Copies a piece of a file of this machine, as fast as the limit of bandwidth allows.
pub(crate) async fn copy_piece(file: &Arc<FileCopy>, piece: &Piece) -> Result<()> {
    let missing = piece.buffer.missing();
    let directions = file.item.directions();
    let limiter = file.resources.options.bandwidth.as_ref();
    // A small file is written by one call.
    let most = if limiter.is_some() && !file.is_small() { LIMITED_BYTES } else { u64::MAX };
    let mut at = missing.start;
    loop {
        while let Some(pause) = limiter.and_then(|limiter| limiter.pause(directions)) {
            pause.await;
        }
        let end = missing.end.min(at.saturating_add(most));
        copy_range(file, at..end).await?;
        if let Some(limiter) = limiter {
            limiter.take(end.saturating_sub(at), directions);
        }
        at = end;
        if at >= missing.end {
            return Ok(());
        }
        if file.blocks.is_over() {
            return Err(over());
        }
    }
}

/// Copies a range of a file of this machine.
async fn copy_range(file: &Arc<FileCopy>, range: Range<u64>) -> Result<()> {
    let bytes = range::len(&range);
    let resources = &file.resources;
    let copied = file.blocking(move |file| {
        let (Some(path), Some(part)) = (&file.item.local, file.target.part()) else {
            return Ok(());
        };
        let began = file.source.now();
        let from =
            File::open(path).map_err(|error| partial_file::failed("cannot open", path, error))?;
        part.copy_from((&from, path), range.clone(), &file.resources.group_sync)?;
        let took = file.source.now().saturating_sub(began);
        file.resources.progress.write.busy(took);
        note_copied(file, part, range)
    });
    let copied = copied.await;
    resources.results.note_arrived(bytes, bytes);
    resources.progress.done_bytes(bytes);
    copied
}

async fn put(file: &Arc<FileCopy>, batch: WriteBatch) -> Result<()> {
    let progress = &file.resources.progress;
    let waiting_since = file.source.now();
    file.target.turn(batch.offset).await?;
    // Bytes that are written there cannot be taken back.
    if file.target.is_final()
        && let Some(wrong) = file.checks.compare_batch(&batch)
    {
        return Err(file.source.wrong_piece(&wrong));
    }
    let began = file.source.now();
    progress.write.blocked(began.saturating_sub(waiting_since));
    let mut interruptions = None;
    let batch = match file.target.upload() {
        Some(upload) => {
            let WriteBatch { offset, bytes, .. } = batch;
            let joined = batch.joined();
            let upload = upload.read().await;
            let upload = upload.as_ref().ok_or_else(over)?;
            interruptions = Some(upload.interruptions());
            upload.write(offset, joined.clone()).await?;
            progress.write.busy(file.source.now().saturating_sub(began));
            note_token(file, upload.token());
            WriteBatch { offset, pieces: vec![joined], bytes }
        }
        None => batch,
    };
    let in_place = file.target.writes_in_place();
    let work = move |file: &FileCopy| put_blocking(file, &batch, interruptions);
    if in_place { work(file.as_ref()) } else { file.blocking(work).await }
}

/// Writes a batch on a thread that may block, and records the written ranges.
fn put_blocking(file: &FileCopy, batch: &WriteBatch, interruptions: Option<u64>) -> Result<()> {
    let progress = &file.resources.progress;
    let began = file.source.now();
    match file.target.sink() {
        Sink::Part(part) => part.write(batch.offset, &batch.pieces, &file.resources.group_sync)?,
        Sink::Output => print(batch)?,
        Sink::Upload(_) | Sink::Discard => {}
    }
    let written = file.source.now();
    progress.write.busy(written.saturating_sub(began));
    note_batch(file, batch, interruptions)?;
    sum_up_prefix(file, batch.bytes)?;
    let ended = file.source.now();
    progress.verify.busy(ended.saturating_sub(written));
    file.target.note_write(ended.saturating_sub(began));
    // Bytes of an earlier attempt have no turn.
    file.target.advance(|| file.blocks.written_from(batch.range().end).1);
    Ok(())
}

/// Continues the sum of the contiguous bytes after `bytes` were written: with more than `bytes`, so
/// that the sum keeps up.
fn sum_up_prefix(file: &FileCopy, bytes: u64) -> Result<()> {
    let (Some(prefix), Some(part)) = (file.checks.prefix(), file.target.part()) else {
        return Ok(());
    };
    if file.known_by_pieces().is_some() {
        return Ok(());
    }
    prefix.go_on(2 * bytes, |at| file.blocks.written_from(at), part)
}

/// Records the token that a later attempt resumes the upload with.
fn note_token(file: &FileCopy, token: Option<String>) {
    file.target.note_token(token, |token| {
        if let Some(journal) = file.journal() {
            journal.part(&file.key, token);
        }
    });
}

/// Computes the checksums of written bytes, and records the blocks that they complete.
/// `interruptions` is the number of requests to the server that had failed before the upload of
/// these bytes.
fn note_batch(file: &FileCopy, batch: &WriteBatch, interruptions: Option<u64>) -> Result<()> {
    file.checks.chain(batch);
    let parts = file.blocks.within_blocks(batch.range());
    if let Some(interruptions) = interruptions {
        file.blocks.note_interruptions(&parts, interruptions);
    }
    for part in parts {
        let checksums = file.checks.of(batch.slices(&part));
        note_written(file, part, checksums)?;
    }
    Ok(())
}

/// Records bytes that the kernel has copied. They are read for checksums if a later attempt would
/// compare them.
fn note_copied(file: &FileCopy, target: &PartialFile, range: Range<u64>) -> Result<()> {
    for part in file.blocks.within_blocks(range) {
        let checksums = match file.journal() {
            Some(_) => target.checksums(part.clone(), false)?,
            None => BlockChecksums::of([], false),
        };
        note_written(file, part, checksums)?;
    }
    Ok(())
}

fn note_written(file: &FileCopy, part: Range<u64>, checksums: BlockChecksums) -> Result<()> {
    let Some(whole) = file.blocks.written(part, checksums) else { return Ok(()) };
    if let Some(target) = file.target.part()
        && let Some(wrong) = file.checks.compare_block(target, &whole.range)?
    {
        return reject(file, &whole.range, wrong);
    }
    file.blocks.compare(&whole);
    if let Some(journal) = file.journal() {
        let bytes = range::len(&whole.range);
        journal.block(&file.key, whole.range.start, bytes, &whole.checksums.crc32c);
    }
    Ok(())
}

/// Takes back a block but for its right pieces, and excludes the senders of the others.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`] if that has happened too often.
fn reject(file: &FileCopy, block: &Range<u64>, found: WrongBlock) -> Result<()> {
    let errors: Vec<_> = found.wrong.iter().map(|wrong| file.source.wrong_piece(wrong)).collect();
    let Some(error) = errors.into_iter().next_back() else { return Ok(()) };
    warn!(file = file.item.name, %error, "wrong pieces of a block fetched again");
    if !file.checks.may_reject(block.start) {
        return Err(error);
    }
    let right_bytes: u64 = found.right.iter().map(|(piece, _)| range::len(piece)).sum();
    file.blocks.reject(block.start, found.right);
    let bytes = range::len(block) - right_bytes;
    file.checks.add_rejected(bytes);
    file.resources.results.note_resent(bytes);
    Ok(())
}

/// The error of a write to a file whose copy has ended.
pub(crate) fn over() -> Error {
    Error::new(ErrorKind::Cancelled, "the copy of the file has ended")
}

fn print(batch: &WriteBatch) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = batch.pieces.iter().try_for_each(|piece| out.write_all(piece));
    written.and_then(|()| out.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => {
            Error::new(ErrorKind::Cancelled, "the standard output was closed by its reader")
        }
        _ => partial_file::failed("cannot write", Path::new("the standard output"), error),
    })
}

#[cfg(test)]
mod tests;
