//! Making, removing and renaming.
//!
//! Names are changed by one request at a time ([`ConfinedDir::lock_names`]), so that what was seen of a name (an entity tag, the bytes that
//! a lot counts for it) is still so when it is replaced. Only the change itself is done alone: bytes are written, copied and
//! removed under private names before or after it. So a directory comes whole, and goes at once, and whoever waits to change
//! something waits for a few calls of the kernel.

use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::DiskMetadata;
use crate::backend::disk::temp_file::{private_name, sync_directory};
use crate::backend::path::MAX_DEPTH;
use hither_core::storage::FileKind;
use hither_core::storage::sibling;
use hither_core::sync::lock;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::fs::{mkdirat, openat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::sync::MutexGuard;

/// A directory that was opened, and a name in it.
type Spot<'a> = (OwnedFd, &'a str);

/// What a change has put out of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplacedEntry {
    Nothing,
    /// A file of so many bytes, or a link of none. It is gone.
    File(u64),
    /// A directory, under the private name that is the end of this path. It is to be removed.
    Hidden(String),
}

impl ConfinedDir {
    /// Waits for one's turn to change names; it ends with what is returned.
    pub(crate) fn lock_names(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    pub(crate) fn spot<'a>(&self, path: &'a str) -> io::Result<Spot<'a>> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            // The root is not to be made, removed or renamed.
            return Err(Errno::ACCESS.into());
        }
        Ok((self.directory(parent)?, name))
    }

    pub(crate) fn make_directory(&self, path: &str) -> io::Result<()> {
        let (parent, name) = self.spot(path)?;
        Ok(mkdirat(parent, name, Mode::from_raw_mode(0o777))?)
    }

    /// Removes a file or a link, which is not followed. A directory that is not empty is only hidden, and is still to be
    /// removed for good.
    pub(crate) fn unlink_or_hide(&self, path: &str) -> io::Result<ReplacedEntry> {
        let (parent, name) = self.spot(path)?;
        let own = DiskMetadata::at(&parent, name)?;
        if own.kind != FileKind::Directory {
            unlinkat(parent, name, AtFlags::empty())?;
            return Ok(ReplacedEntry::File(own.size));
        }
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.hide(path).map(ReplacedEntry::Hidden),
            done => Ok(done.map(|()| ReplacedEntry::File(0))?),
        }
    }

    /// Gives a private name to something; returns it with the path to it.
    fn hide(&self, path: &str) -> io::Result<String> {
        let (parent, name) = self.spot(path)?;
        let hidden = private_name();
        renameat_with(&parent, name, &parent, &*hidden, RenameFlags::NOREPLACE)?;
        Ok(sibling(path, &hidden))
    }

    /// Removes a file, a link, or a directory with all that is in it. Links are removed, not followed.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let (parent, name) = self.spot(path)?;
        let name = std::ffi::CString::new(name)?;
        remove_in(parent.as_fd(), &name, MAX_DEPTH)
    }

    /// Gives a name to what has another. What has it already is replaced only if `replace`, whatever it is; it is there, or
    /// what comes in its place, at every moment.
    pub(crate) fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<ReplacedEntry> {
        let (from_parent, from_name) = self.spot(from)?;
        let (to_parent, to_name) = self.spot(to)?;
        let rename = |flags| renameat_with(&from_parent, from_name, &to_parent, to_name, flags);
        match rename(RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) if replace => {}
            done => return Ok(done.map(|()| ReplacedEntry::Nothing)?),
        }
        let there = DiskMetadata::at(&to_parent, to_name)?;
        let is_directory = |meta: &DiskMetadata| meta.kind == FileKind::Directory;
        if !is_directory(&there) && !is_directory(&DiskMetadata::at(&from_parent, from_name)?) {
            rename(RenameFlags::empty())?;
            return Ok(ReplacedEntry::File(there.size));
        }
        // Directories are in it: the two change places, and what was there goes.
        rename(RenameFlags::EXCHANGE)?;
        self.hide(from).map(ReplacedEntry::Hidden)
    }

    /// What was done to the name of something, and the bytes of the file that it is, will outlast a loss of power.
    pub(crate) fn sync_name(&self, path: &str) -> io::Result<()> {
        match self.durable.then(|| self.spot(path)) {
            None => Ok(()),
            // Its directory has been removed meanwhile.
            Some(Err(error)) if crate::backend::disk::confined_dir::is_missing(&error) => Ok(()),
            Some(spot) => sync_directory(spot?.0),
        }
    }

    /// The bytes of a file will outlast a loss of power. What cannot be opened has none.
    pub(crate) fn sync_file(&self, path: &str) -> io::Result<()> {
        match self.durable.then(|| self.find(path)) {
            Some(Ok(found)) if found.meta.kind == FileKind::File => found.file.sync_all(),
            _ => Ok(()),
        }
    }

    /// What is known of a name itself, a link not followed; none if there is nothing.
    pub(crate) fn own(&self, path: &str) -> io::Result<Option<DiskMetadata>> {
        let meta = self.spot(path).and_then(|(parent, name)| DiskMetadata::at(parent, name));
        match meta {
            Err(error) if crate::backend::disk::confined_dir::is_missing(&error) => Ok(None),
            meta => meta.map(Some),
        }
    }

    /// What a name is itself, a link not followed.
    pub(crate) fn is_link(&self, path: &str) -> io::Result<bool> {
        if path.is_empty() {
            return Ok(false);
        }
        let (parent, name) = self.spot(path)?;
        Ok(DiskMetadata::at(parent, name)?.kind == FileKind::Link)
    }

    /// What is known of a name in a directory, the link itself not followed but checked: none for what cannot be opened.
    pub(crate) fn meta_below(&self, path: &str) -> Option<DiskMetadata> {
        self.meta(path).ok().filter(|meta| meta.kind != FileKind::Other)
    }
}

fn remove_in(parent: BorrowedFd<'_>, name: &CStr, depth: usize) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {}
        Err(Errno::ISDIR) => return Err(Errno::NAMETOOLONG.into()),
        done => return Ok(done?),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(parent, name, flags, Mode::empty()) {
        // A file that may not be removed, then.
        Err(Errno::NOTDIR) => return Err(Errno::PERM.into()),
        opened => opened?,
    };
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            remove_in(directory.as_fd(), name, depth - 1)?;
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
