//! Beginning, or resuming, the upload of a file or of a range of one.

use crate::copy::context::CopyContext;
use crate::file::Sink;
use crate::file::block_map::{BlockChecksums, BlockMap};
use crate::file::upload_range::UploadRange;
use crate::journal::Known;
use hither_core::{Error, ErrorKind, PutOptions, Result, Storage};
use std::sync::Arc;
use tokio::sync::RwLock;

/// The sink of a file that is uploaded whole, the blocks already there, and true if the journal
/// needs a record of a new file.
pub(crate) async fn whole(
    shared: &Arc<CopyContext>,
    storage: &dyn Storage,
    path: &str,
    options: PutOptions,
    known: Option<Known>,
    with_checksum: bool,
) -> Result<(Sink, BlockMap, bool)> {
    // The sums of blocks that went in an earlier attempt are not all known: where one was asked
    // for, all go again.
    let resumable = !(shared.options.verify.is_explicit() && with_checksum);
    let known = known.filter(|_| resumable);
    let size = options.size;
    let resume = known.as_ref().and_then(|known| known.part.clone());
    let options = PutOptions { resume: resume.clone(), ..options };
    let upload = storage.put(path, options).await?;
    let block_bytes = match upload.block_bytes() {
        0 | 1 => shared.options.block_bytes,
        unit => unit,
    };
    let mut blocks = BlockMap::new(size, block_bytes);
    let is_new = resume.is_none() || upload.token() != resume;
    // An upload that is still the same has every block that it took, so the journal's word is
    // enough.
    let known = known.filter(|_| !is_new).unwrap_or_default();
    for (&at, (bytes, crc32c)) in &known.blocks {
        let range = at..at.saturating_add(*bytes);
        let is_block = blocks.within_blocks(range.clone()).eq([range.clone()]);
        if is_block && range.end <= size {
            blocks.present(range, BlockChecksums { crc32c: crc32c.clone(), adler32: None });
        }
    }
    shared.note_resumed(blocks.written_bytes());
    Ok((Sink::Upload(RwLock::new(Some(upload))), blocks, is_new))
}

/// The sink of a range of an upload, of which the rest is left to others.
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
        // What was begun instead belongs to nobody; the error to tell is the one below.
        drop(upload.abort().await);
        let what = format!("{path}: the upload that this range belongs to has ended");
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    let block_bytes = match upload.block_bytes() {
        0 | 1 => block_bytes,
        unit => unit,
    };
    let blocks = BlockMap::of_range(size, block_bytes, part.range.clone());
    Ok((Sink::Upload(RwLock::new(Some(upload))), blocks, false))
}
