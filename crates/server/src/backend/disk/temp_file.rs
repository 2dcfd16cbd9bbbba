//! A temporary file: a file that is being written, without a name until it is complete.
//!
//! The kernel can create a file without a name (`O_TMPFILE`) and link it later, so that no partial
//! file remains if the server dies. On file systems that cannot, the file has a private name
//! meanwhile, which clients do not see.
//!
//! **Durability.** A name may reach the disk before the bytes that it stands for. So the bytes are
//! made durable first ([`TempFile::sync`]), then the file gets its name, then the name is made
//! durable ([`TempFile::sync_name`]), and only then the client gets its response. With
//! `durable = false` the server leaves both to the kernel.

use crate::backend::disk::allocation::allocate;
use crate::backend::disk::confined_dir::{ConfinedDir, FILE_MODE};
use crate::backend::path::PRIVATE;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::fs::{fstat, fsync, linkat, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;

/// A temporary file; see the module above.
#[derive(Debug)]
pub(crate) struct TempFile {
    directory: OwnedFd,
    file: File,
    /// The private name, on file systems that need one.
    private: Option<String>,
    durable: bool,
}

impl ConfinedDir {
    /// Creates a temporary file in a directory.
    pub(crate) fn begin(&self, directory: &str) -> io::Result<TempFile> {
        TempFile::begin_in(self.directory(directory)?, self.durable)
    }
}

impl TempFile {
    fn begin_in(directory: OwnedFd, durable: bool) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let (file, private) = match openat(&directory, ".", flags | OFlags::TMPFILE, FILE_MODE) {
            Ok(fd) => (File::from(fd), None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let name = private_name();
                let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                (File::from(openat(&directory, &*name, flags, FILE_MODE)?), Some(name))
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(Self { directory, file, private, durable })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn reserve(&self, bytes: u64) -> io::Result<()> {
        allocate(&self.file, 0..bytes)
    }

    /// Makes the bytes durable. May take seconds.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.durable { self.file.sync_all() } else { Ok(()) }
    }

    /// Links the file at `path`, in the directory in which it was created. An entry at `path` is
    /// replaced atomically if `replace`, and is an error otherwise. Fails also if that directory
    /// has been renamed meanwhile.
    pub(crate) fn link_as(
        &mut self,
        tree: &ConfinedDir,
        path: &str,
        replace: bool,
    ) -> io::Result<()> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !is_same(&self.directory, &tree.directory(parent)?)? {
            return Err(Errno::NOENT.into());
        }
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
        if replace {
            renameat(&self.directory, &**private, &self.directory, name)?;
        } else {
            rename_to_free(&self.directory, &**private, &self.directory, name)?;
        }
        self.private = None;
        Ok(())
    }

    /// Makes the name durable.
    pub(crate) fn sync_name(&self) -> io::Result<()> {
        if self.durable { sync_directory(&self.directory) } else { Ok(()) }
    }

    fn link(&self, name: &str) -> Result<(), Errno> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, &*own, &self.directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(private) = &self.private {
            // If this fails, the file stays hidden until the cleanup removes it.
            let _ = unlinkat(&self.directory, &**private, AtFlags::empty());
        }
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let one = fstat(one)?;
    let other = fstat(other)?;
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Renames an entry to a name that must be free. Where the file system cannot do that in one step,
/// as over NFS and FUSE, the name is looked up first; other requests change no names meanwhile.
pub(crate) fn rename_to_free<P: Arg + Copy, Q: Arg + Copy>(
    from_directory: impl AsFd,
    from: P,
    to_directory: impl AsFd,
    to: Q,
) -> Result<(), Errno> {
    match renameat_with(&from_directory, from, &to_directory, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        done => return done,
    }
    match statat(&to_directory, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(from_directory, from, to_directory, to),
        Err(error) => Err(error),
    }
}

/// Makes changes of names in a directory durable.
pub(crate) fn sync_directory(directory: impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(directory, ".", flags, Mode::empty()).and_then(fsync) {
        // A directory that is writable but not readable cannot be synced, and not every file
        // system supports it.
        Ok(()) | Err(Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A new private name that nothing else has.
pub(crate) fn private_name() -> String {
    // A hasher with random keys is the source of randomness.
    format!("{PRIVATE}{:016x}", RandomState::new().hash_one(()))
}
