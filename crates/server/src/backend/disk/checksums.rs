//! Checksums of files: stored beside the file, computed once, never stale.
//!
//! A checksum is kept in an extended attribute of its file, together with the size and the time of
//! the version that it belongs to. A file that was changed has another time, so that the stored
//! checksum no longer matches. Nothing is stored while a file is young enough to change once more
//! without another time ([`DiskMetadata::is_settled`]). A file that a client puts gets its
//! checksums, and a time to the nanosecond, before it gets its name.
//!
//! Where attributes cannot be written, checksums are kept in memory.

use crate::backend::ChecksumMode;
use crate::backend::disk::metadata::{DiskMetadata, Key, OWN_ATTRIBUTES};
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::sync::lock;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::{OnceCell, Semaphore};
use tracing::debug;

/// The maximum number of files read for checksums at the same time: each occupies a disk and a
/// processor.
const MAX_CONCURRENT: usize = 2;
/// The maximum number of checksums kept in memory.
const MAX_REMEMBERED: usize = 16_384;
const BLOCK_BYTES: usize = 1 << 20;

/// A version of a file, and the algorithm of its checksum.
type PendingKey = (Key, Algorithm);
/// A checksum that is being computed, or was.
type Pending = Arc<OnceCell<Option<Checksum>>>;

/// Checksums that are being computed, and those that cannot be stored.
#[derive(Debug)]
pub(crate) struct ChecksumCache {
    pending: Mutex<HashMap<PendingKey, Pending>>,
    gate: Semaphore,
}

impl Default for ChecksumCache {
    fn default() -> Self {
        Self { pending: Mutex::default(), gate: Semaphore::new(MAX_CONCURRENT) }
    }
}

impl ChecksumCache {
    /// The checksum of an open file; none if the file changes meanwhile or cannot be read, or if it
    /// would have to be computed and `mode` does not allow that.
    pub(crate) async fn checksum(
        &self,
        file: &Arc<File>,
        meta: &DiskMetadata,
        algorithm: Algorithm,
        mode: ChecksumMode,
    ) -> Option<Checksum> {
        if let Some(sum) = stored(file, meta, algorithm) {
            return Some(sum);
        }
        if mode == ChecksumMode::Cached {
            return None;
        }
        let key = (meta.key(), algorithm);
        let pending = self.pending(key);
        let sum = pending.get_or_init(async || {
            let _gate = self.gate.acquire().await.ok()?;
            debug!(algorithm = algorithm.name(), bytes = meta.size, "computing a checksum");
            let (file, meta) = (Arc::clone(file), meta.clone());
            let computed = tokio::task::spawn_blocking(move || compute(&file, &meta, algorithm));
            computed.await.ok()?.ok().flatten()
        });
        let sum = sum.await.clone();
        // A checksum that failed, or that holds for a moment only, is computed again next time.
        if sum.is_none() || !meta.is_settled(SystemTime::now()) {
            lock(&self.pending).remove(&key);
        }
        sum
    }

    fn pending(&self, key: PendingKey) -> Pending {
        let mut pending = lock(&self.pending);
        if pending.len() >= MAX_REMEMBERED {
            let before = pending.len();
            pending.retain(|_, sum| !sum.initialized());
            debug!(evicted = before - pending.len(), "checksums in memory evicted");
        }
        Arc::clone(pending.entry(key).or_default())
    }
}

fn attribute(algorithm: Algorithm) -> String {
    format!("{OWN_ATTRIBUTES}sum.{}", algorithm.name())
}

/// The checksum that is stored for this version of a file.
pub(crate) fn stored(file: &File, meta: &DiskMetadata, algorithm: Algorithm) -> Option<Checksum> {
    let mut value = [0; 256];
    let length = fgetxattr(file, &*attribute(algorithm), &mut value).ok()?;
    let text = std::str::from_utf8(value.get(..length)?).ok()?;
    let (stamp, sum) = text.split_once(' ')?;
    (stamp == meta.stamp()).then(|| Checksum::from_hex(algorithm, sum).ok())?
}

/// Stores the checksum of this version of a file.
pub(crate) fn store(file: &File, meta: &DiskMetadata, sum: &Checksum) -> io::Result<()> {
    let text = format!("{} {}", meta.stamp(), sum.hex());
    let name = attribute(sum.algorithm());
    Ok(fsetxattr(file, &*name, text.as_bytes(), XattrFlags::empty())?)
}

/// Computes the checksum of a whole file.
pub(crate) fn checksum_of(file: &File, algorithm: Algorithm) -> io::Result<Checksum> {
    let mut hasher = Hasher::new(algorithm);
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    loop {
        match file.read_at(&mut block, at) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(length) => {
                hasher.update(block.get(..length).unwrap_or_default());
                at += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn compute(file: &File, meta: &DiskMetadata, algorithm: Algorithm) -> io::Result<Option<Checksum>> {
    if DiskMetadata::of(file)?.key() != meta.key() {
        return Ok(None);
    }
    let sum = checksum_of(file, algorithm)?;
    if DiskMetadata::of(file)?.key() != meta.key() {
        return Ok(None);
    }
    if meta.is_settled(SystemTime::now()) && stored(file, meta, algorithm).is_none() {
        // Not every file system and user can store it; the copy in memory remains.
        drop(store(file, meta, &sum));
    }
    Ok(Some(sum))
}
