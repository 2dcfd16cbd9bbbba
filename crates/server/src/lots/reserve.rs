//! The blocks that stand for what is free in all lots: a file that has them and holds nothing.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Space that is taken from the file system and can be given back.
pub(crate) trait Reserve: Send + Debug {
    /// How much it has.
    fn bytes(&self) -> u64;
    /// Makes it as large as that. If it cannot grow, it stays as it is.
    fn resize(&mut self, bytes: u64) -> io::Result<()>;
}

/// A reserve in a file.
#[derive(Debug)]
pub(crate) struct FileReserve {
    file: File,
    bytes: u64,
}

impl FileReserve {
    /// The reserve in this file, as it was left.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        let mut reserve = Self { file, bytes };
        // A crash amid growing may have left a length without blocks.
        reserve.take(0, bytes).or_else(|_| reserve.resize(0))?;
        Ok(reserve)
    }

    fn take(&self, from: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), from, bytes) {
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }
}

impl Reserve for FileReserve {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        let grown = match bytes > self.bytes {
            true => self.take(self.bytes, bytes - self.bytes),
            false if bytes == self.bytes => return Ok(()),
            false => Ok(()),
        };
        let bytes = if grown.is_ok() { bytes } else { self.bytes };
        // What was taken of a step that failed goes as well.
        self.file.set_len(bytes)?;
        self.bytes = bytes;
        grown
    }
}

/// Nothing is taken: for file systems that cannot, and sites that do not want it.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn blocks_are_really_taken_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let mut reserve = FileReserve::open(&path).unwrap();
        let blocks = || std::fs::metadata(&path).unwrap().blocks() * 512;
        reserve.resize(8 << 20).unwrap();
        assert!(blocks() >= 8 << 20, "{}", blocks());
        reserve.resize(1 << 20).unwrap();
        assert!((1 << 20..2 << 20).contains(&blocks()), "{}", blocks());
        drop(reserve);
        assert_eq!(FileReserve::open(&path).unwrap().bytes(), 1 << 20);
    }

    #[test]
    fn what_is_too_much_leaves_it_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let mut reserve = FileReserve::open(&path).unwrap();
        reserve.resize(1 << 20).unwrap();
        assert!(reserve.resize(1 << 60).is_err());
        assert_eq!(reserve.bytes(), 1 << 20);
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.len(), 1 << 20);
        assert!(meta.blocks() * 512 < 2 << 20);
    }
}
