//! The rename of a file that several nodes wrote to its final name, exactly once.
//!
//! The upload has a partial file `P` in another directory. The node that finishes the file renames
//! `P` to a partial name with the epoch of its lease, in the directory of the final name: a rename
//! succeeds for only one of several nodes. If that node is lost, its successor renames the file
//! from the old epoch's name to its own. So the file's name is the right to continue, and a node
//! that was stopped and continues late has lost it: no file of its name is left to be committed.
//!
//! A node that has lost the lease of a range may still hold the partial file open and write to it.
//! Renames cannot prevent that. Such a file (`is_shared`) is copied within the storage, into the
//! fence, and the copy gets the final name, if its checksum is that of the ranges: late writes do
//! not reach the copy.

use crate::mover::lease::{LargeFile, LeaseResult, RangeChecksum, combined};
use crate::mover::work::{LeasePaths, sync_directories};
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{PutOptions, join, partial_name, sibling};
use hither_core::{DirEntry, Storage};
use hither_transfer::CopyPath;

/// Gives a file its name, if its checksums are right.
pub(super) async fn finish(
    paths: &LeasePaths,
    aside: &CopyPath,
    part: &LargeFile,
    epoch: u64,
    ranges: &[RangeChecksum],
    is_shared: bool,
) -> Result<LeaseResult> {
    let (crc32c, adler32) = combined(ranges)?;
    let entry = part.file.in_directory(&paths.source.path)?.entry;
    compare_with_source(paths, &entry, adler32.as_ref()).await?;
    let path = join(&paths.target.path, &part.file.path);
    let upload = SharedUpload { storage: &*paths.target.storage, aside, path: &path, part };
    let checked = is_shared || paths.target.local.is_none();
    if upload.take_over(epoch, is_shared, &paths.fence).await? {
        let token = upload.name(epoch);
        let options = PutOptions {
            size: part.file.bytes()?,
            overwrite: true,
            resume: Some(token.clone()),
            modified: entry.modified,
            ..PutOptions::default()
        };
        let committing = upload.storage.put(&path, options).await?;
        if committing.token() != Some(token) {
            drop(committing.abort().await);
            return Err(lost(&path));
        }
        committing.commit(checked.then(|| crc32c.clone())).await?;
    } else {
        upload.check_is_named(&entry, &crc32c).await?;
    }
    sync_directories(&paths.target, std::iter::once(&*part.file.path));
    Ok(LeaseResult {
        crc32c: Some(crc32c.hex()),
        adler32: adler32.map(|sum| sum.hex()),
        ..LeaseResult::default()
    })
}

/// Compares the checksum of the ranges with that of the source's server, if it has one.
async fn compare_with_source(
    paths: &LeasePaths,
    entry: &DirEntry,
    adler32: Option<&Checksum>,
) -> Result<()> {
    let Some(received) = adler32.filter(|_| paths.source.local.is_none()) else { return Ok(()) };
    // A server without a checksum is not a failure: most have none.
    let reported = paths.source.storage.checksum(&entry.path, Algorithm::Adler32).await;
    match reported.ok().flatten() {
        Some(expected) if expected != *received => Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "{}: received {received}, expected {expected} (stated by the server)",
                entry.path
            ),
        )),
        _ => Ok(()),
    }
}

/// An upload that nodes have written to.
struct SharedUpload<'a> {
    storage: &'a dyn Storage,
    aside: &'a CopyPath,
    /// The final path.
    path: &'a str,
    part: &'a LargeFile,
}

impl SharedUpload<'_> {
    /// The partial name of the file for this epoch, the same in both directories.
    fn name(&self, epoch: u64) -> String {
        let text = format!("{}\n{}\n{epoch}", self.aside.path, self.part.token);
        let digest = Hasher::of(Algorithm::Sha256, text.as_bytes());
        partial_name(digest.value().iter().take(8).fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    /// Renames the file, whatever its present name, to that of this epoch, in the directory of the
    /// final name. False if it is not found: it may have its final name.
    async fn take_over(&self, epoch: u64, is_shared: bool, fence: &CopyPath) -> Result<bool> {
        let mine = sibling(self.path, &self.name(epoch));
        for earlier in (0..epoch).rev() {
            if self.rename(&sibling(self.path, &self.name(earlier)), &mine).await? {
                return Ok(true);
            }
        }
        let began = sibling(&self.aside.path, &self.part.token);
        if !is_shared {
            return self.rename(&began, &mine).await;
        }
        let taken = sibling(&self.aside.path, &self.name(epoch));
        let mut is_taken = self.rename(&began, &taken).await?;
        for earlier in (0..epoch).rev() {
            if is_taken {
                break;
            }
            is_taken = self.rename(&sibling(&self.aside.path, &self.name(earlier)), &taken).await?;
        }
        if !is_taken {
            return Ok(false);
        }
        let copy = join(&fence.path, &self.name(epoch));
        self.storage.copy_file(&taken, &copy).await?;
        self.rename(&copy, &mine).await
    }

    /// Renames a file. False if it does not exist.
    async fn rename(&self, from: &str, to: &str) -> Result<bool> {
        match self.storage.rename(from, to, false).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fails unless the file has its final name already: the node before this one has renamed it,
    /// and could not report that.
    async fn check_is_named(&self, entry: &DirEntry, crc32c: &Checksum) -> Result<()> {
        let named = self.storage.stat(self.path).await.map_err(|_| lost(self.path))?;
        let reported = self.storage.checksum(self.path, Algorithm::Crc32c).await.ok().flatten();
        let is_same = match reported {
            Some(reported) => reported == *crc32c,
            None => named.modified.is_some() && named.modified == entry.modified,
        };
        if named.size.is_some() && named.size == entry.size && is_same {
            Ok(())
        } else {
            Err(lost(self.path))
        }
    }
}

fn lost(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{path}: the ranges that were copied are gone"))
}
