//! The blocks that stand for the free bytes of all lots: an allocated file without content.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Space that is allocated on the file system and can be released.
pub(crate) trait Reserve: Send + Debug {
    /// The size of the reserve.
    fn bytes(&self) -> u64;
    /// Changes the size. If the reserve cannot grow, it stays as it is.
    fn resize(&mut self, bytes: u64) -> io::Result<()>;
    /// Releases the extra blocks that the reserve holds for the metadata of files, so that others
    /// can allocate them immediately.
    fn lend(&mut self) -> io::Result<()>;
}

/// A reserve in a file.
#[derive(Debug)]
pub(crate) struct FileReserve {
    file: File,
    bytes: u64,
    /// The length of the file, including the blocks for metadata.
    length: u64,
}

/// Blocks for the metadata of a file of `bytes`: a fragmented file needs some for its extent map.
fn margin(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { (bytes / 256).max(1 << 20) }
}

impl FileReserve {
    /// Opens the reserve in a file, as it was left.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        let mut reserve = Self { file, bytes, length: bytes };
        // A crash during growth may have left a length without blocks.
        reserve.take(0, bytes).or_else(|_| reserve.resize(0))?;
        Ok(reserve)
    }

    fn take(&self, from: u64, to: u64) -> io::Result<()> {
        if from >= to {
            return Ok(());
        }
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), from, to - from) {
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length = length;
        Ok(())
    }
}

impl Reserve for FileReserve {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        let before = self.length;
        let wanted = bytes.saturating_add(margin(bytes));
        let grown = self.take(before, wanted).map(|()| wanted);
        // On a nearly full disk, without the blocks for metadata.
        let length = match grown {
            Err(_) if bytes <= before => Ok(before),
            Err(_) => self.take(before, bytes).map(|()| bytes),
            grown => grown,
        };
        // Also removes the blocks of a failed step.
        self.cut(*length.as_ref().unwrap_or(&before))?;
        self.bytes = length.map(|_| bytes)?;
        Ok(())
    }

    fn lend(&mut self) -> io::Result<()> {
        self.cut(self.bytes)?;
        // Some file systems reuse blocks only when their release is on disk.
        self.file.sync_all()
    }
}

/// A reserve that allocates nothing: for file systems that cannot, and sites that do not want it.
#[derive(Debug, Default)]
pub(crate) struct NoReserve(u64);

impl Reserve for NoReserve {
    fn bytes(&self) -> u64 {
        self.0
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        self.0 = bytes;
        Ok(())
    }

    fn lend(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn blocks_are_allocated_and_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let mut reserve = FileReserve::open(&path).unwrap();
        let blocks = || std::fs::metadata(&path).unwrap().blocks() * 512;
        reserve.resize(8 << 20).unwrap();
        assert!(blocks() >= 8 << 20, "{}", blocks());
        reserve.resize(1 << 20).unwrap();
        assert!((2 << 20..3 << 20).contains(&blocks()), "{}", blocks());
        reserve.lend().unwrap();
        assert!((1 << 20..2 << 20).contains(&blocks()), "{}", blocks());
        drop(reserve);
        assert_eq!(FileReserve::open(&path).unwrap().bytes(), 1 << 20);
    }

    #[test]
    fn a_reserve_that_cannot_grow_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let mut reserve = FileReserve::open(&path).unwrap();
        reserve.resize(1 << 20).unwrap();
        assert!(reserve.resize(1 << 60).is_err());
        assert_eq!(reserve.bytes(), 1 << 20);
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.len(), 2 << 20);
        assert!(meta.blocks() * 512 < 3 << 20);
    }
}
