//! Access to the served directory tree, and to nothing outside of it.
//!
//! Every path is opened below the root by `openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS`. The kernel rejects every path that leads out or has a symbolic link, also
//! while another process renames directories. No check of names could do that: its result may be
//! outdated at the next moment. Changes of names are made in a directory that was opened in this
//! way, with a single name.
//!
//! [`ConfinedDir::resolve`] alone follows links, as long as they stay below the root. It opens
//! nothing for reading; it returns the path at which the kernel arrived, which has no links.
//!
//! All of this may wait for the disk, so it runs on blocking threads ([`crate::backend::disk`]).

use crate::backend::DirectoryEntry;
use crate::backend::blocking::Cancellation;
use crate::backend::disk::allocation::SpaceFloor;
use crate::backend::disk::metadata::DiskMetadata;
use crate::backend::disk::open_parts::OpenParts;
use crate::backend::error::{BROKEN_LINK, NOT_SERVED};
use crate::backend::path::PRIVATE;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::FileKind;
use hither_core::storage::is_partial;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Dir, FileType, FsWord, Mode, OFlags, ResolveFlags, fstatfs, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

/// The mode of new files, before the umask.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// Attempts while another process is renaming directories on the way.
const MAX_ATTEMPTS: usize = 16;
/// How paths are resolved, and how links are followed.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const FOLLOWING: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
/// The types (statfs(2)) of file systems that keep their names on this machine: ext4, XFS, Btrfs,
/// F2FS, ZFS, tmpfs.
const LOCAL: [FsWord; 6] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994];

/// A directory tree in which every access is confined; see the module above.
#[derive(Debug)]
pub(crate) struct ConfinedDir {
    pub(crate) root: OwnedFd,
    /// True if changes are on the disk before the response says that they are done.
    pub(crate) durable: bool,
    /// Held while names are changed.
    pub(crate) changing: Mutex<()>,
    /// The files that are written in place.
    pub(crate) parts: OpenParts,
    /// True if opening a name that the kernel has in memory takes no disk and no network.
    is_local: bool,
    /// Held while properties are read, changed and written.
    pub(crate) patching: Mutex<()>,
    /// The free space that uploads leave.
    pub(crate) floor: SpaceFloor,
}

/// A file or directory that was opened.
#[derive(Debug)]
pub(crate) struct OpenEntry {
    pub(crate) file: File,
    pub(crate) meta: DiskMetadata,
}

impl ConfinedDir {
    /// Opens the tree at a directory of this machine. If `durable`, changes survive a loss of
    /// power. Uploads leave `min_free_bytes` free.
    pub(crate) fn open(root: &Path, durable: bool, min_free_bytes: Option<u64>) -> Result<Self> {
        let cannot = |errno: Errno| {
            let what = format!("cannot serve {}", root.display());
            let kind = match errno {
                Errno::NOENT | Errno::NOTDIR => ErrorKind::NotFound,
                Errno::ACCESS => ErrorKind::PermissionDenied,
                Errno::NOSYS => ErrorKind::Unsupported,
                _ => ErrorKind::Local,
            };
            Error::new(kind, what).with_source(io::Error::from(errno))
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).map_err(cannot)?;
        let is_local = fstatfs(&root).is_ok_and(|fs| LOCAL.contains(&fs.f_type));
        let changing = Mutex::default();
        let patching = Mutex::default();
        let floor = SpaceFloor::new(min_free_bytes);
        let parts = OpenParts::default();
        let tree = Self { root, durable, is_local, changing, parts, patching, floor };
        // A kernel that cannot confine names (before 5.6) serves nothing.
        tree.at("", OFlags::PATH).map_err(|error| {
            cannot(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
        })?;
        Ok(tree)
    }

    /// Opens a path below the root; fails with `LOOP` if it has a symbolic link.
    pub(crate) fn at(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        self.open_at(path, flags, CONFINED)
    }

    fn open_at(&self, path: &str, flags: OFlags, how: ResolveFlags) -> io::Result<OwnedFd> {
        let path = if path.is_empty() { "." } else { path };
        let mode = if flags.contains(OFlags::CREATE) { FILE_MODE } else { Mode::empty() };
        let flags = flags | OFlags::CLOEXEC;
        for _ in 0..MAX_ATTEMPTS {
            match openat2(&self.root, path, flags, mode, how) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return Ok(opened?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// The path without links to which `path` leads; fails if it leads out, or to a private name.
    /// A link that leads to nothing is not a missing name.
    pub(crate) fn resolve(&self, path: &str) -> io::Result<String> {
        self.follow(path).map(|(target, _)| target)
    }

    /// The same, with the metadata of the entry there.
    pub(crate) fn follow(&self, path: &str) -> io::Result<(String, DiskMetadata)> {
        let found = match self.open_at(path, OFlags::PATH, FOLLOWING) {
            Err(error) if is_missing(&error) || is_link(&error) => {
                return Err(if self.has_broken_link(path) { refused(BROKEN_LINK) } else { error });
            }
            found => found?,
        };
        let place = |fd: &OwnedFd| std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        let root = place(&self.root)?;
        let meta = DiskMetadata::of(&found)?;
        let found = place(&found)?;
        let resolved = found.strip_prefix(root).ok().and_then(Path::to_str);
        let is_shown = |path: &&str| !path.split('/').any(|name| name.starts_with(PRIVATE));
        let resolved = resolved.filter(is_shown).map(str::to_owned);
        resolved.map(|target| (target, meta)).ok_or_else(|| refused(BROKEN_LINK))
    }

    /// Returns true if one of the names in `path` is that of a link which leads nowhere.
    fn has_broken_link(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut names = ends.filter_map(|end| path.get(..end));
        names.any(|name| {
            let itself = self.open_at(name, OFlags::PATH | OFlags::NOFOLLOW, FOLLOWING);
            itself.and_then(DiskMetadata::of).is_ok_and(|it| it.kind == FileKind::Link)
                && self.open_at(name, OFlags::PATH, FOLLOWING).is_err()
        })
    }

    /// Opens a file or directory for reading.
    pub(crate) fn find(&self, path: &str) -> io::Result<OpenEntry> {
        // Without NONBLOCK the open of a pipe would wait for a writer.
        let fd = self.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let meta = DiskMetadata::of(&fd)?;
        match meta.kind {
            FileKind::Link | FileKind::Other | FileKind::Unnamed => Err(refused(NOT_SERVED)),
            FileKind::File | FileKind::Directory => Ok(OpenEntry { file: File::from(fd), meta }),
        }
    }

    /// Opens a file or directory for reading if that takes no waiting; none otherwise, or if it
    /// fails. It opens only names that the kernel has in memory, and none on another file system
    /// that is mounted within the tree.
    pub(crate) fn find_now(&self, path: &str) -> Option<OpenEntry> {
        if !self.is_local || path.is_empty() {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let known = CONFINED | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let fd = openat2(&self.root, path, flags, Mode::empty(), known).ok()?;
        let meta = DiskMetadata::of(&fd).ok()?;
        (meta.kind != FileKind::Other).then(|| OpenEntry { file: File::from(fd), meta })
    }

    /// Opens a file for writing in place; creates it if it is missing.
    pub(crate) fn write_to(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self.at(path, flags)?;
        match DiskMetadata::of(&fd)?.kind {
            FileKind::File => Ok(File::from(fd)),
            FileKind::Directory | FileKind::Link | FileKind::Other | FileKind::Unnamed => {
                Err(Errno::ACCESS.into())
            }
        }
    }

    /// The metadata of a file or directory.
    pub(crate) fn meta(&self, path: &str) -> io::Result<DiskMetadata> {
        DiskMetadata::of(self.at(path, OFlags::PATH)?)
    }

    /// The metadata of an entry, which may be a link; none if there is none.
    pub(crate) fn own(&self, path: &str) -> io::Result<Option<DiskMetadata>> {
        match self.at(path, OFlags::PATH | OFlags::NOFOLLOW).and_then(DiskMetadata::of) {
            Err(error) if is_missing(&error) => Ok(None),
            meta => meta.map(Some),
        }
    }

    /// Opens a directory for changes in it.
    pub(crate) fn directory(&self, path: &str) -> io::Result<OwnedFd> {
        self.at(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// The entries of a directory, in the order of their names, without private names and partial
    /// files; one more than `max`, and not the first ones, of a directory that has more.
    pub(crate) fn entries(
        &self,
        path: &str,
        max: usize,
        cancellation: &Cancellation,
    ) -> io::Result<Vec<DirectoryEntry>> {
        let directory = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            cancellation.check()?;
            let name = entry.file_name();
            if entries.len() > max {
                break;
            }
            if !is_shown(&name.to_string_lossy()) {
                continue;
            }
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => DiskMetadata::at(&directory, name)
                    .is_ok_and(|meta| meta.kind == FileKind::Directory),
                _ => false,
            };
            entries.push(DirectoryEntry::new(name.to_bytes(), is_directory));
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Fails if the root cannot be read.
    pub(crate) fn probe(&self) -> io::Result<()> {
        let root = self.at("", OFlags::RDONLY | OFlags::DIRECTORY)?;
        Dir::new(root)?.next().transpose()?;
        Ok(())
    }

    /// The bytes that uploads may take of the file system that a path is on, and its used bytes.
    pub(crate) fn space(&self, path: &str) -> io::Result<(u64, u64)> {
        let fs = rustix::fs::fstatvfs(self.at(path, OFlags::RDONLY | OFlags::NONBLOCK)?.as_fd())?;
        let used = fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(fs.f_frsize);
        Ok((self.floor.usable(&fs), used))
    }
}

/// Returns true if listings have this name: private names and partial files are hidden.
fn is_shown(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.starts_with(PRIVATE) && !is_partial(name)
}

/// Returns true if the error says that the path has a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// The error for an entry that is not served.
pub(crate) fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Returns true if the error says that the path does not exist.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
