//! Disk space for uploads: a floor of free space, and blocks that are allocated as data arrives.
//!
//! An announced length is only a claim. It is compared with the free space, so that a file that
//! cannot fit is refused immediately, and it reserves nothing. Blocks are allocated a step ahead of
//! the data, so that large files stay contiguous; the step doubles with the data up to
//! [`MAX_AHEAD`]. No step takes the free space below the floor. Files in a lot have their space
//! already: the lot has reserved it, and the floor does not apply to them.

use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::{BackendError, BackendErrorKind};
use hither_core::sync::lock;
use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, StatVfs, fstatvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

/// The largest file that a kernel can have.
const MAX_BYTES: u64 = i64::MAX as u64;
/// The maximum of bytes that are allocated ahead of the data.
const MAX_AHEAD: u64 = 1 << 30;
/// The largest default of the floor.
const MAX_DEFAULT_FLOOR: u64 = 1 << 30;
/// Allocated bytes beyond the end of a complete file that are not worth a system call.
const MAX_EXCESS: u64 = 64 << 10;

/// The free space that uploads leave on a file system.
#[derive(Debug, Default)]
pub(crate) struct SpaceFloor {
    /// In bytes; none for 1 % of the file system, at most 1 GiB.
    bytes: Option<u64>,
    /// Held from the check of the free space to the allocation, so that no two uploads take the
    /// same space.
    allocating: Mutex<()>,
}

impl SpaceFloor {
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        Self { bytes, allocating: Mutex::default() }
    }

    /// The bytes that uploads may still take. A file system that reports no size has no floor.
    pub(crate) fn usable(&self, fs: &StatVfs) -> u64 {
        if fs.f_blocks == 0 {
            return MAX_BYTES;
        }
        let total = fs.f_blocks.saturating_mul(fs.f_frsize);
        let floor = self.bytes.unwrap_or_else(|| (total / 100).min(MAX_DEFAULT_FLOOR));
        fs.f_bavail.saturating_mul(fs.f_frsize).saturating_sub(floor)
    }

    /// Fails if `bytes` more do not fit on the file system of `fd`.
    pub(crate) fn check(&self, fd: impl AsFd, bytes: u64) -> Result<(), BackendError> {
        if bytes == 0 {
            return Ok(());
        }
        let usable = self.usable(&fstatvfs(fd)?);
        if bytes <= usable { Ok(()) } else { Err(too_little(bytes, usable)) }
    }
}

fn too_little(bytes: u64, usable: u64) -> BackendError {
    let what = format!("{bytes} more bytes do not fit: {usable} bytes are free for uploads");
    BackendError::new(BackendErrorKind::NoSpace, what)
}

/// The blocks of one file that is being written.
#[derive(Debug)]
pub(crate) struct Allocation {
    start: u64,
    /// The blocks up to here are allocated.
    end: u64,
    /// No blocks are allocated ahead from here on.
    limit: u64,
}

impl Allocation {
    /// For a writer of this range of a file.
    pub(crate) fn of(range: Range<u64>) -> Self {
        Self { start: range.start, end: range.start, limit: range.end }
    }

    /// For a file whose lot has the space.
    pub(crate) fn in_lot() -> Self {
        Self::of(u64::MAX..u64::MAX)
    }

    /// Allocates no blocks ahead from `end` on, where the file ends.
    pub(crate) fn end_at(&mut self, end: u64) {
        self.limit = end;
    }

    /// Allocates the blocks for data up to `end`, and more ahead of it.
    pub(crate) fn cover(
        &mut self,
        end: u64,
        file: &File,
        tree: &ConfinedDir,
    ) -> Result<(), BackendError> {
        if end <= self.end {
            return Ok(());
        }
        let ahead = (end - self.start).min(MAX_AHEAD);
        let wanted = end.saturating_add(ahead).min(self.limit.max(end));
        let _one = lock(&tree.floor.allocating);
        let usable = tree.floor.usable(&fstatvfs(file)?);
        let most = self.end.saturating_add(usable);
        if end > most {
            return Err(too_little(end - self.end, usable));
        }
        let wanted = wanted.min(most);
        // Near the end of a quota, a whole step may not fit although the data do.
        self.end = match allocate(file, self.end..wanted) {
            Err(_) if end < wanted => allocate(file, self.end..end).map(|()| end)?,
            allocated => allocated.map(|()| wanted)?,
        };
        Ok(())
    }
}

/// Allocates blocks for a range of a file, whose length stays.
pub(crate) fn allocate(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    if range.end > MAX_BYTES {
        return Err(Errno::FBIG.into());
    }
    let bytes = range.end - range.start;
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, range.start, bytes) {
            Err(Errno::INTR) => {}
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Releases the blocks beyond the end of a complete file.
pub(crate) fn trim(file: &File) -> io::Result<()> {
    let meta = file.metadata()?;
    if on_disk(file)? > meta.len().saturating_add(MAX_EXCESS) {
        file.set_len(meta.len())?;
    }
    Ok(())
}

/// The bytes of the blocks of a file.
pub(crate) fn on_disk(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.blocks().saturating_mul(512))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn tree(floor: Option<u64>) -> (tempfile::TempDir, ConfinedDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let tree = ConfinedDir::open(folder.path(), true, floor).unwrap();
        let options = || File::options().read(true).write(true).create(true).truncate(true).clone();
        let file = options().open(folder.path().join("file")).unwrap();
        (folder, tree, file)
    }

    #[test]
    fn blocks_are_allocated_a_step_ahead_of_the_data_and_released_at_the_end() {
        let (_folder, tree, file) = tree(None);
        let mut allocation = Allocation::of(0..1 << 40);
        for (end, expected) in [(1 << 20, 2 << 20), (2 << 20, 2 << 20), (3 << 20, 6 << 20)] {
            allocation.cover(end, &file, &tree).unwrap();
            let found = on_disk(&file).unwrap();
            assert!((expected..expected + (64 << 10)).contains(&found), "{end}: {found}");
        }
        file.write_all_at(&[1; 100], 0).unwrap();
        trim(&file).unwrap();
        assert!(on_disk(&file).unwrap() <= 64 << 10);
        assert_eq!(file.metadata().unwrap().len(), 100);
    }

    #[test]
    fn nothing_is_allocated_beyond_the_announced_end() {
        let (_folder, tree, file) = tree(None);
        let mut allocation = Allocation::of(0..1_200_000);
        allocation.cover(1 << 20, &file, &tree).unwrap();
        assert!(on_disk(&file).unwrap() < 1_300_000);
    }

    #[test]
    fn nothing_is_allocated_beyond_an_end_that_becomes_known() {
        let (_folder, tree, file) = tree(None);
        let mut allocation = Allocation::of(0..u64::MAX);
        allocation.cover(1 << 20, &file, &tree).unwrap();
        allocation.end_at(3 << 20);
        allocation.cover(3 << 20, &file, &tree).unwrap();
        let found = on_disk(&file).unwrap();
        assert!((3 << 20..(3 << 20) + (64 << 10)).contains(&found), "{found}");
    }

    #[test]
    fn nothing_is_allocated_below_the_floor() {
        let (_folder, tree, file) = tree(Some(u64::MAX));
        let error = Allocation::of(0..100).cover(1, &file, &tree).unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::NoSpace, "{error}");
        assert!(tree.floor.check(&file, 1).is_err() && tree.floor.check(&file, 0).is_ok());
        assert_eq!(on_disk(&file).unwrap(), 0);
        Allocation::in_lot().cover(1, &file, &tree).unwrap();
    }
}
