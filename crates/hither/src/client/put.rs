//! Writing one file from memory. Files on the disk go by crate `transfer`, which resumes and compares checksums.

use crate::client::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, PutOptions, Upload};

/// Least size of a block, in bytes, where the storage takes any: large enough that the round trip for each does not count.
const BLOCK_BYTES: u64 = 4 << 20;
/// Most blocks on their way at a time; storages that take any number gain nothing from more.
const MAX_PARALLEL: usize = 8;

impl Client {
    /// Writes `bytes` to the file at `url`. The file appears under its name when it is whole, or not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if there is something of that name and it may not be replaced; the refusals of servers.
    pub async fn put(&self, url: &str, bytes: Bytes, overwrite: bool) -> Result<DirEntry> {
        let (storage, path) = self.storage(url)?;
        let size = bytes.len() as u64;
        let upload = storage.put(&path, PutOptions { size, overwrite, resume: None }).await?;
        match write(&*upload, bytes).await {
            Ok(()) => upload.commit(None).await,
            Err(error) => {
                // The first failure is the one to tell.
                drop(upload.abort().await);
                Err(error)
            }
        }
    }
}

async fn write(upload: &dyn Upload, mut rest: Bytes) -> Result<()> {
    let unit = upload.block_bytes().max(1);
    let block = usize::try_from(BLOCK_BYTES.div_ceil(unit).saturating_mul(unit))
        .map_err(|_| Error::new(ErrorKind::Invalid, "a block is too large for this machine"))?;
    let mut writing = FuturesUnordered::new();
    let mut at = 0;
    while !rest.is_empty() || !writing.is_empty() {
        if !rest.is_empty() && writing.len() < upload.parallel().clamp(1, MAX_PARALLEL) {
            let piece = rest.split_to(block.min(rest.len()));
            let offset = at;
            at += piece.len() as u64;
            writing.push(upload.write(offset, piece));
        } else if let Some(done) = writing.next().await {
            done?;
        }
    }
    Ok(())
}
