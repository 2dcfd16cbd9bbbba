//! Checksums of files: noted beside the file, computed once, never stale.
//!
//! A sum is kept in an extended attribute of its file, together with size and time of the version that it is of: a file that
//! was changed has another time, and its note counts for nothing. While a file is so young that it might change once more
//! without another time ([`DiskMetadata::is_settled`]), nothing is noted. A file that is put here gets its notes, and a time to the
//! nanosecond, before it gets its name.
//!
//! Where attributes cannot be written, sums are remembered in memory.

use crate::backend::disk::DiskBackend;
use crate::backend::disk::confined_dir::{ConfinedDir, DiskReader};
use crate::backend::disk::metadata::{DiskMetadata, Key};
use crate::http_error::HttpError;
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::sync::lock;
use hither_http::digest::{self, DIGEST, Digest, DigestAlgorithm, REPR_DIGEST};
use http::header::{HeaderMap, HeaderValue};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::{OnceCell, Semaphore};

/// Files that are read for their sums at the same time: each takes a disk and a processor.
const AT_ONCE: usize = 2;
/// Sums kept in memory.
const MAX_REMEMBERED: usize = 16_384;
const BLOCK_BYTES: usize = 1 << 20;

/// A version of a file, and how its sum is computed.
type Wanted = (Key, Algorithm);
/// A sum that is being computed, or was.
type Pending = Arc<OnceCell<Option<Checksum>>>;

/// See the module above.
#[derive(Debug)]
pub(crate) struct ChecksumCache {
    pending: Mutex<HashMap<Wanted, Pending>>,
    gate: Semaphore,
}

impl Default for ChecksumCache {
    fn default() -> Self {
        Self { pending: Mutex::default(), gate: Semaphore::new(AT_ONCE) }
    }
}

impl ChecksumCache {
    /// The fields with the sums that a request wants of a file.
    pub(crate) async fn wanted(
        &self,
        disk: &DiskBackend,
        path: &str,
        headers: &HeaderMap,
        found: &DiskReader,
    ) -> HeaderMap {
        let mut fields = HeaderMap::new();
        let first = |wanted: Vec<DigestAlgorithm>| {
            wanted.into_iter().find_map(|name| known(name).map(|algorithm| (name, algorithm)))
        };
        let old = first(digest::wanted(headers));
        let new = first(digest::wanted_repr(headers));
        for (wanted, name, write) in [
            (old, DIGEST, Digest::to_field as fn(&Digest) -> String),
            (new, REPR_DIGEST, Digest::to_repr_field),
        ] {
            let Some((kind, algorithm)) = wanted else { continue };
            let Some(sum) = self.of(disk, path, found, algorithm).await else {
                continue;
            };
            let digest = Digest { algorithm: kind, value: sum.value().to_vec() };
            if let Ok(value) = HeaderValue::from_str(&write(&digest)) {
                fields.insert(name, value);
            }
        }
        fields
    }

    /// The sum of a file that was opened; none if it changes meanwhile or cannot be read.
    async fn of(
        &self,
        disk: &DiskBackend,
        path: &str,
        found: &DiskReader,
        algorithm: Algorithm,
    ) -> Option<Checksum> {
        if let Some(sum) = noted(&found.file, &found.meta, algorithm) {
            return Some(sum);
        }
        let key = (found.meta.key(), algorithm);
        let pending = self.pending(key);
        let sum = pending.get_or_init(async || {
            let _gate = self.gate.acquire().await.ok()?;
            let (path, meta) = (path.to_owned(), found.meta.clone());
            let computed = disk.run(move |tree| computed(tree, &path, &meta, algorithm));
            computed.await.ok().flatten()
        });
        let sum = sum.await.clone();
        // What could not be had, or holds for a moment only, is tried again the next time.
        if sum.is_none() || !found.meta.is_settled(SystemTime::now()) {
            lock(&self.pending).remove(&key);
        }
        sum
    }

    fn pending(&self, key: Wanted) -> Pending {
        let mut pending = lock(&self.pending);
        if pending.len() >= MAX_REMEMBERED {
            pending.retain(|_, sum| !sum.initialized());
        }
        Arc::clone(pending.entry(key).or_default())
    }
}

/// What of the algorithms of HTTP is computed here.
pub(crate) fn known(algorithm: DigestAlgorithm) -> Option<Algorithm> {
    Some(match algorithm {
        DigestAlgorithm::Adler32 => Algorithm::Adler32,
        DigestAlgorithm::Crc32c => Algorithm::Crc32c,
        DigestAlgorithm::Md5 => Algorithm::Md5,
        DigestAlgorithm::Sha256 => Algorithm::Sha256,
        _ => return None,
    })
}

fn attribute(algorithm: Algorithm) -> String {
    format!("{}sum.{}", crate::backend::disk::metadata::OWN_ATTRIBUTES, algorithm.name())
}

/// The sum that is noted of this version of a file.
pub(crate) fn noted(file: &File, meta: &DiskMetadata, algorithm: Algorithm) -> Option<Checksum> {
    let mut value = [0; 256];
    let length = fgetxattr(file, &*attribute(algorithm), &mut value).ok()?;
    let text = std::str::from_utf8(value.get(..length)?).ok()?;
    let (stamp, sum) = text.split_once(' ')?;
    (stamp == meta.stamp()).then(|| Checksum::from_hex(algorithm, sum).ok())?
}

/// Notes the sum of this version of a file.
pub(crate) fn note(file: &File, meta: &DiskMetadata, sum: &Checksum) -> io::Result<()> {
    let text = format!("{} {}", meta.stamp(), sum.hex());
    let name = attribute(sum.algorithm());
    Ok(fsetxattr(file, &*name, text.as_bytes(), XattrFlags::empty())?)
}

/// The sum of all that is in a file.
pub(crate) fn sum_of(file: &File, algorithm: Algorithm) -> io::Result<Checksum> {
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

fn computed(
    tree: &ConfinedDir,
    path: &str,
    meta: &DiskMetadata,
    algorithm: Algorithm,
) -> Result<Option<Checksum>, HttpError> {
    let found = tree.find(path)?;
    if found.meta.key() != meta.key() {
        return Ok(None);
    }
    let sum = sum_of(&found.file, algorithm)?;
    let after = DiskMetadata::of(&found.file)?;
    if after.key() != meta.key() {
        return Ok(None);
    }
    if meta.is_settled(SystemTime::now()) && noted(&found.file, meta, algorithm).is_none() {
        // Not to be had on every file system, and not for every user: it is remembered in any case.
        drop(note(&found.file, meta, &sum));
    }
    Ok(Some(sum))
}
