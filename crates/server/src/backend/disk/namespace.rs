//! Directories are created, and entries are removed and renamed.
//!
//! One request at a time changes names ([`ConfinedDir::lock_names`]), so that the checked
//! properties of a name (an entity tag, the bytes that a lot counts for it) are still valid when it
//! is replaced. Only the change itself is made under the lock: bytes are written, copied and
//! removed under private names before or after it. So a directory appears and disappears as a
//! whole, and a request that waits for the lock waits for a few calls of the kernel.

use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::DiskMetadata;
use crate::backend::disk::temp_file::{private_name, rename_to_free, sync_directory};
use crate::backend::error::NOT_A_FILE;
use crate::backend::path::MAX_DEPTH;
use hither_core::storage::FileKind;
use hither_core::storage::sibling;
use hither_core::sync::lock;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::fs::{mkdirat, openat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::MutexGuard;

/// The message for a renaming that a kernel does not do.
const OTHER_FILE_SYSTEM: &str =
    "the new name is on another file system: a file has to be copied there";

/// The message for a directory that would be removed if it were empty.
const NOT_EMPTY: &str = "the directory is not empty: listings show no uploads that are not \
                         finished, and no links that lead elsewhere; `rm -r` removes all of it";

/// A directory that was opened, and a name in it.
type Spot<'a> = (OwnedFd, &'a str);

/// The entry that a change has replaced or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplacedEntry {
    Nothing,
    /// A file of this number of bytes, or a link (0 bytes). It is gone.
    File(u64),
    /// A directory, hidden at this path with a private name. The caller has to remove it.
    Hidden(String),
}

impl ConfinedDir {
    /// Locks the names; dropping the guard releases them.
    pub(crate) fn lock_names(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    pub(crate) fn spot<'a>(&self, path: &'a str) -> io::Result<Spot<'a>> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            // The root cannot be created, removed or renamed.
            return Err(Errno::ACCESS.into());
        }
        Ok((self.directory(parent)?, name))
    }

    pub(crate) fn make_directory(&self, path: &str) -> io::Result<()> {
        let (parent, name) = self.spot(path)?;
        Ok(mkdirat(parent, name, Mode::from_raw_mode(0o777))?)
    }

    /// Removes a file, a link (which is not followed) or an empty directory. Any other directory is
    /// refused, or if `whole` hidden only: the caller has to remove it.
    pub(crate) fn unlink_or_hide(&self, path: &str, whole: bool) -> io::Result<ReplacedEntry> {
        let (parent, name) = self.spot(path)?;
        let own = DiskMetadata::at(&parent, name)?;
        if own.kind != FileKind::Directory {
            unlinkat(parent, name, AtFlags::empty())?;
            return Ok(ReplacedEntry::File(own.size));
        }
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if whole => {
                self.hide(path).map(ReplacedEntry::Hidden)
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, NOT_EMPTY))
            }
            done => Ok(done.map(|()| ReplacedEntry::File(0))?),
        }
    }

    /// Closes a file to the writers of its parts.
    pub(crate) fn close_parts(&self, path: &str) -> io::Result<()> {
        if let Some(own) = self.own(path)? {
            self.parts.close(own.file_id());
        }
        Ok(())
    }

    /// Renames an entry to a private name; returns its new path.
    fn hide(&self, path: &str) -> io::Result<String> {
        let (parent, name) = self.spot(path)?;
        let hidden = private_name();
        rename_to_free(&parent, name, &parent, &*hidden)?;
        Ok(sibling(path, &hidden))
    }

    /// Removes a file, a link, or a directory with its contents. Links are removed, not followed.
    /// Directories below [`MAX_DEPTH`] others are renamed to private names next to `path` first.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let (parent, name) = self.spot(path)?;
        let mut waiting = vec![CString::new(name)?];
        while let Some(name) = waiting.pop() {
            let mut raise = |directory: BorrowedFd<'_>, name: &CStr| {
                let raised = CString::new(private_name())?;
                rename_to_free(directory, name, &parent, &*raised)?;
                waiting.push(raised);
                Ok(())
            };
            remove_in(parent.as_fd(), &name, MAX_DEPTH, &mut raise)?;
        }
        Ok(())
    }

    /// Renames an entry. An entry of any kind at `to` is replaced only if `replace`. At every
    /// moment either the old or the new entry is at `to`. A file is closed to the writers of its
    /// parts, also if it cannot be renamed then.
    pub(crate) fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<ReplacedEntry> {
        let (from_parent, from_name) = self.spot(from)?;
        let (to_parent, to_name) = self.spot(to)?;
        self.parts.close(DiskMetadata::at(&from_parent, from_name)?.file_id());
        let rename = |flags| renameat_with(&from_parent, from_name, &to_parent, to_name, flags);
        match rename_to_free(&from_parent, from_name, &to_parent, to_name) {
            Err(Errno::EXIST) if replace => {}
            Err(Errno::XDEV) => {
                return Err(io::Error::new(io::ErrorKind::CrossesDevices, OTHER_FILE_SYSTEM));
            }
            done => return Ok(done.map(|()| ReplacedEntry::Nothing)?),
        }
        let there = DiskMetadata::at(&to_parent, to_name)?;
        if there.kind == FileKind::Other {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, NOT_A_FILE));
        }
        let is_directory = |meta: &DiskMetadata| meta.kind == FileKind::Directory;
        if !is_directory(&there) && !is_directory(&DiskMetadata::at(&from_parent, from_name)?) {
            rename(RenameFlags::empty())?;
            return Ok(ReplacedEntry::File(there.size));
        }
        // One of them is a directory: exchange the two, then hide the old one.
        rename(RenameFlags::EXCHANGE)?;
        self.hide(from).map(ReplacedEntry::Hidden)
    }

    /// Makes changes of this name durable.
    pub(crate) fn sync_name(&self, path: &str) -> io::Result<()> {
        match self.durable.then(|| self.spot(path)) {
            None => Ok(()),
            // The directory has been removed meanwhile.
            Some(Err(error)) if crate::backend::disk::confined_dir::is_missing(&error) => Ok(()),
            Some(spot) => sync_directory(spot?.0),
        }
    }

    /// Makes the bytes of a file durable. Does nothing for an entry that cannot be opened.
    pub(crate) fn sync_file(&self, path: &str) -> io::Result<()> {
        match self.durable.then(|| self.find(path)) {
            Some(Ok(found)) if found.meta.kind == FileKind::File => found.file.sync_all(),
            _ => Ok(()),
        }
    }
}

/// Removes an entry. Calls `raise` for directories that are `depth` below it.
fn remove_in(
    parent: BorrowedFd<'_>,
    name: &CStr,
    depth: usize,
    raise: &mut impl FnMut(BorrowedFd<'_>, &CStr) -> io::Result<()>,
) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {}
        Err(Errno::ISDIR) => return raise(parent, name),
        done => return Ok(done?),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(parent, name, flags, Mode::empty()) {
        // It is a file that may not be removed.
        Err(Errno::NOTDIR) => return Err(Errno::PERM.into()),
        opened => opened?,
    };
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            remove_in(directory.as_fd(), name, depth - 1, raise)?;
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
