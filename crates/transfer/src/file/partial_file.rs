//! A local file that is being written, under another name until it is whole.
//!
//! The bytes go to a hidden name in the directory of the target, so that giving it the final name
//! is one step that works or does not. Blocks are written by position, by whichever thread has
//! them; the room is reserved first, so that a full disk shows at the start and blocks that come
//! out of order do not scatter. What is written is on the disk before the file gets its name.

use crate::file::block_map::BlockChecksums;
use bytes::Bytes;
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::partial_name;
use hither_core::{Error, ErrorKind, Result};
use rustix::fs::{CWD, FallocateFlags, OFlags, RenameFlags, fallocate, renameat_with};
use rustix::io::{Errno, pwritev};
use std::fs::{File, FileTimes, OpenOptions};
use std::io::{ErrorKind as IoKind, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes per read when computing the checksum of a file.
const READ_BYTES: usize = 1 << 20;
/// Buffers in one call to the system: `IOV_MAX` of Linux.
const MAX_BUFFERS: usize = 1024;
/// `O_NOFOLLOW`, in the type that the standard library wants.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct PartialFile {
    file: File,
    part: PathBuf,
    target: PathBuf,
}

impl PartialFile {
    /// The name that the bytes of `target` have until it is whole, within its directory: the same
    /// for each attempt of a job, and for no other job.
    pub(crate) fn name(target: &Path, job: &str) -> String {
        let text = format!("{job}\n{}", target.display());
        let digest = Hasher::of(Algorithm::Sha256, text.as_bytes());
        let number = digest.value().iter().take(8).fold(0, |n, byte| n << 8 | u64::from(*byte));
        partial_name(number)
    }

    /// Opens `name` beside `target` for `size` bytes; what it holds already stays. The permissions
    /// are those of the file that it will replace, else `mode` less what the user's mask takes
    /// away. Blocks the thread.
    pub(crate) fn open(target: &Path, name: &str, size: u64, mode: Option<u32>) -> Result<Self> {
        let part = target.with_file_name(name);
        let failed = |error| failed("cannot write", &part, error);
        // A link that somebody put there would lead elsewhere.
        let known = std::fs::symlink_metadata(&part);
        if known.is_ok_and(|metadata| !metadata.is_file()) {
            std::fs::remove_file(&part).map_err(failed)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(mode.unwrap_or(0o666))
            .custom_flags(NO_FOLLOW)
            .open(&part)
            .map_err(failed)?;
        if let Ok(replaced) = std::fs::metadata(target)
            && replaced.is_file()
        {
            file.set_permissions(replaced.permissions()).map_err(failed)?;
        }
        if size > 0 {
            match fallocate(&file, FallocateFlags::empty(), 0, size) {
                // Not every file system can.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        file.set_len(size).map_err(failed)?;
        let target = target.to_owned();
        Ok(Self { file, part, target })
    }

    /// Writes `pieces`, one after the other, from `offset` on. Blocks the thread.
    pub(crate) fn write(&self, mut offset: u64, pieces: &[Bytes]) -> Result<()> {
        let failed = |error| failed("cannot write", &self.part, error);
        for group in pieces.chunks(MAX_BUFFERS) {
            let mut buffers: Vec<_> = group.iter().map(|bytes| IoSlice::new(bytes)).collect();
            let mut rest = buffers.as_mut_slice();
            while !rest.is_empty() {
                let written = match pwritev(&self.file, rest, offset) {
                    Ok(0) => return Err(failed(std::io::Error::from(IoKind::WriteZero))),
                    Ok(written) => written,
                    Err(Errno::INTR) => continue,
                    Err(error) => return Err(failed(error.into())),
                };
                offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
        }
        Ok(())
    }

    /// The checksum of the bytes in `range` as they are in the file. Blocks the thread.
    pub(crate) fn sum(&self, range: Range<u64>, algorithm: Algorithm) -> Result<Checksum> {
        let mut hasher = Hasher::new(algorithm);
        self.read(range, |bytes| hasher.update(bytes))?;
        Ok(hasher.finish())
    }

    /// The checksums of a block as it is in the file. Blocks the thread.
    pub(crate) fn checksums(
        &self,
        range: Range<u64>,
        with_adler32: bool,
    ) -> Result<BlockChecksums> {
        let mut adler32 = with_adler32.then(|| Hasher::new(Algorithm::Adler32));
        let mut crc32c = Hasher::new(Algorithm::Crc32c);
        self.read(range, |bytes| {
            crc32c.update(bytes);
            adler32.iter_mut().for_each(|sum| sum.update(bytes));
        })?;
        Ok(BlockChecksums { crc32c: crc32c.finish(), adler32: adler32.map(Hasher::finish) })
    }

    /// The name that the file will have.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The name that it has until then, within its directory.
    pub(crate) fn part_name(&self) -> String {
        self.part.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Hands the bytes in `range` on, piece by piece. Blocks the thread.
    fn read(&self, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut at = range.start;
        while at < range.end {
            let most = usize::try_from(range.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
            let piece = buffer.get_mut(..most).unwrap_or_default();
            let read = self.file.read_exact_at(piece, at);
            read.map_err(|error| failed("cannot read", &self.part, error))?;
            take(piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Puts everything on the disk, and gives the file its final name. Blocks the thread.
    pub(crate) fn finish(&self, modified: Option<SystemTime>, replace: bool) -> Result<()> {
        let failed = |error| failed("cannot finish", &self.target, error);
        if let Some(modified) = modified {
            self.file.set_times(FileTimes::new().set_modified(modified)).map_err(failed)?;
        }
        self.file.sync_all().map_err(failed)?;
        if replace {
            return std::fs::rename(&self.part, &self.target).map_err(failed);
        }
        match renameat_with(CWD, &self.part, CWD, &self.target, RenameFlags::NOREPLACE) {
            // For file systems that know no such thing; in between, somebody may make the file.
            Err(Errno::INVAL | Errno::NOSYS) if !self.target.exists() => {
                std::fs::rename(&self.part, &self.target).map_err(failed)
            }
            result => result.map_err(|error| failed(error.into())),
        }
    }

    /// Removes what was written.
    pub(crate) fn remove(&self) {
        // Nothing depends on it: it is in the way of nobody but the next attempt, which takes it
        // over.
        drop(std::fs::remove_file(&self.part));
    }
}

/// Returns true if two paths lead to the same file.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    identity(a).is_some_and(|a| Some(a) == identity(b))
}

/// The permissions of a file.
pub(crate) fn mode_of(path: &Path) -> Option<u32> {
    Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o777)
}

/// The kind of a failure of the local machine.
pub(crate) fn kind_of(error: &std::io::Error) -> ErrorKind {
    match error.kind() {
        IoKind::NotFound => ErrorKind::NotFound,
        IoKind::PermissionDenied => ErrorKind::PermissionDenied,
        IoKind::AlreadyExists => ErrorKind::AlreadyExists,
        IoKind::StorageFull | IoKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Local,
    }
}

/// An error of the local machine, with what was tried.
pub(crate) fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(kind_of(&error), format!("{what} {}: {error}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_its_final_name_only_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        let name = PartialFile::name(&target, "job");
        let part = PartialFile::open(&target, &name, 6, None).unwrap();
        part.write(3, &[Bytes::from_static(b"de"), Bytes::from_static(b"f")]).unwrap();
        part.write(0, &[Bytes::from_static(b"abc")]).unwrap();
        assert!(!target.exists());
        let again = PartialFile::open(&target, &name, 6, None).unwrap();
        let sum = Hasher::of(Algorithm::Crc32c, b"cde");
        assert_eq!(again.sum(2..5, Algorithm::Crc32c).unwrap(), sum);
        let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        again.finish(Some(modified), false).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"abcdef");
        assert_eq!(std::fs::metadata(&target).unwrap().modified().unwrap(), modified);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_existing_file_is_kept_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data");
        std::fs::write(&target, b"old").unwrap();
        let part = PartialFile::open(&target, ".part", 0, Some(0o600)).unwrap();
        assert_eq!(part.finish(None, false).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        part.finish(None, true).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
    }

    #[test]
    fn a_symbolic_link_at_the_target_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let other_file = folder.path().join("other_file");
        std::fs::write(&other_file, b"keep").unwrap();
        std::os::unix::fs::symlink(&other_file, folder.path().join(".part")).unwrap();
        let part = PartialFile::open(&folder.path().join("data"), ".part", 1, None).unwrap();
        part.write(0, &[Bytes::from_static(b"x")]).unwrap();
        assert_eq!(std::fs::read(&other_file).unwrap(), b"keep");
    }
}
