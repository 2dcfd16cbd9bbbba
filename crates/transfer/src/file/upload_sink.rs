//! Beginning, or resuming, the upload of a file or of a range of one.
//!
//! A resumed upload is verified: the checksums of blocks that an earlier attempt had uploaded are
//! computed again from the local source. When all of the file is on the server, the checksum of the
//! whole is compared with the server's. If the server states none, or another one, the blocks are
//! read back and compared one by one, and those that the server has lost are uploaded again.
//!
//! The same is done within one attempt with blocks after which a request to the server failed: the
//! server may have lost power, and with it confirmed bytes that were not on its disk. The length of
//! the file does not show that, because it may be complete already. Bytes that the server loses
//! between this comparison and the rename are found by comparing the whole file, [`confirm`].

use crate::copy::resources::CopyResources;
use crate::destination::Target;
use crate::file::FileCopy;
use crate::file::blocks::block_map::{BlockChecksums, BlockMap};
use crate::file::item::CopyItem;
use crate::file::target::Sink;
use crate::file::target::partial_file::failed;
use crate::file::upload_range::UploadRange;
use crate::journal::Known;
use futures_util::future::try_join_all;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::{check_written, read_back};
use hither_core::{Error, ErrorKind, PutOptions, Result, Storage};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;

/// Blocks that are read back at a time.
const READ_AT_ONCE: usize = 8;
/// Bytes that are read of a local file at a time.
const READ_BYTES: usize = 1 << 20;

/// The sink of a file that is uploaded whole, the blocks already there, and true if the journal
/// needs a record of a new file.
pub(crate) async fn whole(
    resources: &CopyResources,
    item: &CopyItem,
    storage: &dyn Storage,
    path: &str,
    options: PutOptions,
    known: Option<Known>,
    (algorithm, block_bytes): (Option<Algorithm>, u64),
) -> Result<(Sink, BlockMap, bool)> {
    // The checksums of blocks that an earlier attempt uploaded are not all known, and some cannot
    // be combined to that of the file: where a checksum was requested, or cannot be combined, all
    // blocks are uploaded again.
    let is_explicit = resources.options.verify.is_explicit();
    let is_resumable = |algorithm: Algorithm| !is_explicit && algorithm.is_combinable();
    let known = known.filter(|_| algorithm.is_none_or(is_resumable));
    let size = options.size;
    let resume = known.as_ref().and_then(|known| known.part.clone());
    let options = PutOptions { resume: resume.clone(), ..options };
    let upload = storage.put(path, options).await?;
    let block_bytes = match upload.block_bytes() {
        0 | 1 => block_bytes,
        unit => unit,
    };
    let mut blocks = BlockMap::new(size, block_bytes);
    let is_new = resume.is_none() || upload.token() != resume;
    let is_lost = known.as_ref().is_some_and(|known| is_new && !known.blocks.is_empty());
    if resume.is_some() && is_lost {
        let name = item.target.name();
        let notice = format!("{name}: the upload of an earlier attempt is gone: begun anew");
        resources.results.note(notice);
    }
    let known = known.filter(|_| !is_new).unwrap_or_default().blocks;
    let with_adler32 = algorithm == Some(Algorithm::Adler32);
    for (range, checksums) in summed_again(item, known, with_adler32).await {
        let is_block = blocks.within_blocks(range.clone()).eq([range.clone()]);
        if is_block && range.end <= size {
            blocks.present(range, checksums);
        }
    }
    resources.results.note_resumed(blocks.written_bytes());
    Ok((Sink::Upload(RwLock::new(Some(upload))), blocks, is_new))
}

/// The blocks of the journal that the local source still has, with their checksums; all of them if
/// the source is on a server.
async fn summed_again(
    item: &CopyItem,
    known: BTreeMap<u64, (u64, Checksum)>,
    with_adler32: bool,
) -> Vec<(Range<u64>, BlockChecksums)> {
    let block = |(at, (bytes, crc32c)): (u64, (u64, Checksum))| {
        (at..at.saturating_add(bytes), BlockChecksums { crc32c, adler32: None })
    };
    let blocks: Vec<_> = known.into_iter().map(block).collect();
    let Some(path) = item.local.clone().filter(|_| !blocks.is_empty()) else { return blocks };
    let summing = spawn_blocking(move || {
        let Ok(file) = File::open(&path) else { return Vec::new() };
        let again = blocks.into_iter().filter_map(|(range, known)| {
            // A block that cannot be read is uploaded again, and fails then.
            let sums = summed(&file, &path, range.clone(), with_adler32).ok()?;
            (sums.crc32c == known.crc32c).then_some((range, sums))
        });
        again.collect()
    });
    summing.await.unwrap_or_default()
}

/// The checksums of a range of a local file. Blocks the thread.
fn summed(
    file: &File,
    path: &Path,
    range: Range<u64>,
    with_adler32: bool,
) -> Result<BlockChecksums> {
    let mut crc32c = Hasher::new(Algorithm::Crc32c);
    let mut adler32 = with_adler32.then(|| Hasher::new(Algorithm::Adler32));
    let mut buffer = vec![0; READ_BYTES];
    let mut at = range.start;
    while at < range.end {
        let most = usize::try_from(range.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let piece = buffer.get_mut(..most).unwrap_or_default();
        file.read_exact_at(piece, at).map_err(|error| failed("cannot read", path, error))?;
        crc32c.update(piece);
        adler32.iter_mut().for_each(|sum| sum.update(piece));
        at += piece.len() as u64;
    }
    Ok(BlockChecksums { crc32c: crc32c.finish(), adler32: adler32.map(Hasher::finish) })
}

/// Compares the blocks that the server may have lost, once all of the file was sent. Returns the
/// number of bytes in the blocks that are to be uploaded again.
pub(crate) async fn verify_unverified(file: &FileCopy) -> Result<u64> {
    let Some(upload) = file.target.upload() else { return Ok(0) };
    let upload = upload.read().await;
    let Some(upload) = upload.as_ref().filter(|it| !it.resumes_verified()) else { return Ok(0) };
    let unverified = file.blocks.take_unverified(upload.interruptions());
    if unverified.is_empty() {
        return Ok(0);
    }
    if file.item.range.is_none()
        && let Some(BlockChecksums { crc32c, adler32 }) = file.blocks.checksums()
    {
        let expected = adler32.unwrap_or(crc32c);
        let stated = upload.written_checksum(expected.algorithm()).await;
        // Most servers state no checksum, which is not a failure.
        if stated.ok().flatten().as_ref() == Some(&expected) {
            return Ok(0);
        }
    }
    let Some(source) = upload.written_source() else {
        let bytes: u64 = unverified.values().map(|(bytes, _)| bytes).sum();
        let name = &file.key;
        file.resources.results.note(format!(
            "{name}: {bytes} bytes that went before an interruption are not verified"
        ));
        return Ok(0);
    };
    let policy = &file.resources.options.retry;
    let blocks: Vec<_> = unverified.into_iter().collect();
    let mut again = 0;
    for blocks in blocks.chunks(READ_AT_ONCE) {
        let reading = blocks.iter().map(|(at, (bytes, expected))| {
            let block = *at..at.saturating_add(*bytes);
            read_back(&*source, block, expected.algorithm(), policy)
        });
        for ((at, (_, expected)), seen) in blocks.iter().zip(try_join_all(reading).await?) {
            if seen != *expected {
                again += file.blocks.reopen(*at);
            }
        }
    }
    if again > 0 && file.target.is_ordered() {
        // Blocks go in order, and this one is behind: the next attempt begins anew.
        let name = &file.key;
        let what =
            format!("{name}: the server has lost {again} bytes that went before an interruption");
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    if again > 0 {
        file.blocks.go_on();
        let results = &file.resources.results;
        results.note_lost(again);
        let name = &file.key;
        results.note(format!("{name}: the server had lost {again} bytes: uploaded again"));
    }
    Ok(again)
}

/// Compares a file that has its final name, because the server may have lost bytes before.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`] if it has.
pub(crate) async fn confirm(file: &FileCopy) -> Result<()> {
    let Target::Remote(storage, path) = &file.item.target else { return Ok(()) };
    let Some(BlockChecksums { crc32c, adler32 }) = file.blocks.checksums() else { return Ok(()) };
    let expected = adler32.unwrap_or(crc32c);
    let policy = &file.resources.options.retry;
    check_written(&**storage, path, file.source.size(), &expected, policy).await
}

/// The sink of a range of an upload. Other processes upload the rest.
pub(crate) async fn range(
    storage: &dyn Storage,
    path: &str,
    options: PutOptions,
    part: &UploadRange,
    block_bytes: u64,
) -> Result<(Sink, BlockMap, bool)> {
    let size = options.size;
    let resume = Some(part.token.clone());
    let upload = storage.put(path, PutOptions { resume: resume.clone(), ..options }).await?;
    if upload.token() != resume {
        // No process needs the upload that was begun instead; the error to report is the one below.
        drop(upload.abort().await);
        let what = format!(
            "{path}: {} has no partial file of this upload any more: run the same copy again",
            storage.name()
        );
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    let block_bytes = match upload.block_bytes() {
        0 | 1 => block_bytes,
        unit => unit,
    };
    let blocks = BlockMap::of_range(size, block_bytes, part.range.clone());
    Ok((Sink::Upload(RwLock::new(Some(upload))), blocks, false))
}

#[cfg(test)]
mod tests;
