//! Writing one file from memory or from the disk, for programs that have no use for the machinery of copies.

use crate::client::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{Entry, PutOptions, Storage, Upload};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// What a file is to hold.
#[derive(Debug, Clone)]
pub enum Content {
    /// These bytes.
    Bytes(Bytes),
    /// Those of this local file.
    File(PathBuf),
}

/// Least size of a block, in bytes, where the storage takes any: large enough that the round trip for each does not count.
const BLOCK_BYTES: u64 = 4 << 20;
/// Most blocks on their way at a time. With the above that is 32 MiB of memory.
const MOST_PARALLEL: usize = 8;

impl Client {
    /// Writes `content` to the file at `url`. The file appears under its name when it is whole, or not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if there is something of that name and it may not be replaced; the refusals of servers
    /// and local files; [`ErrorKind::Changed`] if the local file shrinks meanwhile.
    pub async fn put(&self, url: &str, content: Content, overwrite: bool) -> Result<Entry> {
        let (storage, path) = self.storage(url)?;
        put(&*storage, &path, content, overwrite).await
    }
}

/// Writes `content` to the file at `path` of `storage`; as [`Client::put`].
///
/// # Errors
///
/// As [`Client::put`].
pub async fn put(
    storage: &dyn Storage,
    path: &str,
    content: Content,
    overwrite: bool,
) -> Result<Entry> {
    let (size, content) = match content {
        Content::Bytes(bytes) => (bytes.len() as u64, Blocks::Memory(bytes)),
        Content::File(local) => {
            let (file, size) = opened(&local).await?;
            (size, Blocks::Disk(Arc::new(file), local))
        }
    };
    let upload = storage.put(path, PutOptions { size, overwrite, resume: None }).await?;
    match write(&*upload, &content, size).await {
        Ok(()) => upload.commit(None).await,
        Err(error) => {
            // The first failure is the one to tell.
            drop(upload.abort().await);
            Err(error)
        }
    }
}

async fn opened(path: &Path) -> Result<(File, u64)> {
    let local = path.to_owned();
    let found = blocking(move || {
        let file = File::open(&local)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    });
    found.await.map_err(|error| at_fault(path, &error))
}

async fn write(upload: &dyn Upload, content: &Blocks, size: u64) -> Result<()> {
    let unit = upload.block_bytes().max(1);
    let block = BLOCK_BYTES.div_ceil(unit).saturating_mul(unit);
    let parallel = upload.parallel().clamp(1, MOST_PARALLEL);
    let mut writing = FuturesUnordered::new();
    let mut at = 0;
    while at < size || !writing.is_empty() {
        if at < size && writing.len() < parallel {
            let end = size.min(at.saturating_add(block));
            let offset = std::mem::replace(&mut at, end);
            writing.push(async move {
                let bytes = content.read(offset, end).await?;
                upload.write(offset, bytes).await
            });
        } else if let Some(done) = writing.next().await {
            done?;
        }
    }
    Ok(())
}

enum Blocks {
    Memory(Bytes),
    Disk(Arc<File>, PathBuf),
}

impl Blocks {
    async fn read(&self, offset: u64, end: u64) -> Result<Bytes> {
        let too_large = |_| Error::new(ErrorKind::Invalid, "a block is too large for this machine");
        let length = usize::try_from(end - offset).map_err(too_large)?;
        match self {
            Self::Memory(bytes) => {
                let from = usize::try_from(offset).map_err(too_large)?;
                Ok(bytes.slice(from..from + length))
            }
            Self::Disk(file, path) => {
                let file = Arc::clone(file);
                let read = move || {
                    let mut block = vec![0; length];
                    file.read_exact_at(&mut block, offset).map(|()| Bytes::from(block))
                };
                blocking(read).await.map_err(|error| match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => Error::new(
                        ErrorKind::Changed,
                        format!("{} became shorter while it was read", path.display()),
                    ),
                    _ => at_fault(path, &error),
                })
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

fn at_fault(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::Local,
    };
    Error::new(kind, format!("cannot read {}: {error}", path.display()))
}
