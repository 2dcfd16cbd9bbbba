//! Writes of files from memory. Copies of local files use crate `transfer`, which resumes and
//! verifies checksums.

use crate::client::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_checksum::{Algorithm, Hasher};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, PutOptions, Upload, check_written};

/// The smallest block in bytes, where the storage takes any size: large enough that its round trip
/// is negligible.
const BLOCK_BYTES: u64 = 4 << 20;
/// The largest number of blocks in flight: more are no faster on storages without a limit.
const MAX_PARALLEL: usize = 8;

/// The file that a write may replace. `false` is [`Self::Nothing`], `true` is [`Self::Any`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaceable {
    /// No file: the name must be free.
    Nothing,
    /// The file of that name, if there is one.
    Any,
    /// Only the file of this version, as [`Client::stat`] has returned it.
    Version(DirEntry),
}

impl From<bool> for Replaceable {
    fn from(overwrite: bool) -> Self {
        if overwrite { Self::Any } else { Self::Nothing }
    }
}

impl Client {
    /// Writes `bytes` to the file at `url`. The file appears under its name when it is complete, or
    /// not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if there is a file that may not be replaced;
    /// [`ErrorKind::Changed`] if it is of another version than the one that may be replaced;
    /// [`ErrorKind::Corrupt`] if the server has lost bytes that it had confirmed; the errors of the
    /// server.
    pub async fn put(
        &self,
        url: &str,
        bytes: Bytes,
        replaceable: impl Into<Replaceable>,
    ) -> Result<DirEntry> {
        let (storage, path) = self.storage(url)?;
        let size = bytes.len() as u64;
        let replaceable = replaceable.into();
        let overwrite = replaceable != Replaceable::Nothing;
        let expected = match replaceable {
            Replaceable::Version(entry) => Some(entry),
            Replaceable::Nothing | Replaceable::Any => None,
        };
        let options = PutOptions { size, overwrite, expected, ..PutOptions::default() };
        let upload = storage.put(&path, options).await?;
        match write(&*upload, bytes.clone()).await {
            Ok(()) => {
                let done = upload.commit(None).await?;
                if done.may_have_lost_bytes {
                    let expected = Hasher::of(Algorithm::Adler32, &bytes);
                    let policy = &self.config().reader.retry;
                    check_written(&*storage, &path, size, &expected, policy).await?;
                }
                Ok(done.entry)
            }
            Err(error) => {
                // The first error is the one to return.
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
