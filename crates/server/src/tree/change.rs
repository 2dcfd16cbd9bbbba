//! Making, removing and renaming.

use super::{Kind, MOST_DEPTH, Meta, Tree};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::fs::{mkdirat, openat, renameat_with, statx, unlinkat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;

/// A directory that was opened, and a name in it.
type Spot<'a> = (OwnedFd, &'a str);

impl Tree {
    fn spot<'a>(&self, path: &'a str) -> io::Result<Spot<'a>> {
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

    /// Removes a file, a link, or a directory with all that is in it. Links are removed, not followed.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let (parent, name) = self.spot(path)?;
        let name = std::ffi::CString::new(name)?;
        remove_in(parent.as_fd(), &name, MOST_DEPTH)
    }

    /// Gives a name to what has another. What has it already is replaced only if `replace`, whatever it is; it is there, or
    /// what comes in its place, at every moment.
    pub(crate) fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let (from_parent, from_name) = self.spot(from)?;
        let (to_parent, to_name) = self.spot(to)?;
        let rename = |flags| renameat_with(&from_parent, from_name, &to_parent, to_name, flags);
        match rename(RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) if replace => {}
            done => return Ok(done?),
        }
        if matches!(
            (self.meta(from)?.kind, self.meta(to).map(|meta| meta.kind)),
            (Kind::File, Ok(Kind::File))
        ) {
            return Ok(rename(RenameFlags::empty())?);
        }
        // Directories are in it: the two change places, and what was there goes.
        rename(RenameFlags::EXCHANGE)?;
        self.remove(from)
    }

    /// What a name is itself, a link not followed.
    pub(crate) fn is_link(&self, path: &str) -> io::Result<bool> {
        if path.is_empty() {
            return Ok(false);
        }
        let (parent, name) = self.spot(path)?;
        let stat = statx(parent, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)?;
        Ok(FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::Symlink)
    }

    /// What is known of a name in a directory, the link itself not followed but checked: none for what cannot be opened.
    pub(crate) fn meta_below(&self, path: &str) -> Option<Meta> {
        self.meta(path).ok().filter(|meta| meta.kind != Kind::Other)
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
