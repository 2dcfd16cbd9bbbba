//! A file that is being written: without a name until it is complete.
//!
//! The kernel can make a file without a name (`O_TMPFILE`) and give it one later, so whatever befalls the server, half a file
//! is nowhere. On file systems that cannot, it has a private name meanwhile, which nobody is shown.

use super::Tree;
use crate::place::PRIVATE;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::fs::{linkat, openat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;

/// Of new files; the user's mask takes away from it.
pub(super) const MODE: Mode = Mode::from_raw_mode(0o666);

/// See the module above.
#[derive(Debug)]
pub(crate) struct Upload {
    directory: OwnedFd,
    file: File,
    /// The private name, on file systems that need one.
    private: Option<String>,
}

impl Tree {
    /// Begins a file in a directory.
    pub(crate) fn begin(&self, directory: &str) -> io::Result<Upload> {
        Upload::begin_in(self.directory(directory)?)
    }
}

impl Upload {
    pub(super) fn begin_in(directory: OwnedFd) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match openat(&directory, ".", flags | OFlags::TMPFILE, MODE) {
            Ok(fd) => Ok(Self { directory, file: File::from(fd), private: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let name = private_name();
                let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let file = File::from(openat(&directory, &*name, flags, MODE)?);
                Ok(Self { directory, file, private: Some(name) })
            }
            Err(errno) => Err(errno.into()),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn reserve(&self, bytes: u64) -> io::Result<()> {
        reserve(&self.file, bytes)
    }

    /// Gives it its name. What has that name is replaced, all at once, if `replace`; else that is an error.
    pub(crate) fn publish(mut self, name: &str, replace: bool) -> io::Result<()> {
        if self.private.is_none() {
            match self.link(name) {
                Err(Errno::EXIST) if replace => {}
                done => return Ok(done?),
            }
            // A link replaces nothing, a renaming does.
            let private = private_name();
            self.link(&private)?;
            self.private = Some(private);
        }
        let Some(private) = &self.private else { return Ok(()) };
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(&self.directory, &**private, &self.directory, name, flags)?;
        self.private = None;
        Ok(())
    }

    fn link(&self, name: &str) -> Result<(), Errno> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, &*own, &self.directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(private) = &self.private {
            // It is of no use to anybody, and hidden if it stays.
            let _ = unlinkat(&self.directory, &**private, AtFlags::empty());
        }
    }
}

/// Takes the space for so many bytes, so that there is enough or none is written.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A name that nobody else uses.
pub(super) fn private_name() -> String {
    // A hasher with random keys: this process's source of such names.
    format!("{PRIVATE}{:016x}", RandomState::new().hash_one(()))
}
