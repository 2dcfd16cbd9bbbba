//! Copies within the tree. The kernel copies the bytes, and shares them where the file system can.
//!
//! A link to a file is copied as that file, if the client may read it. Copied as a link it would
//! have another target from its new directory. Directories are not entered through links, which may
//! lead in a circle: a link to a directory is not copied.
//!
//! A copy is made under a private name and gets its own name when it is complete, like a file that
//! a client puts. Holes of a file stay holes, so that a copy takes no more of the disk than its
//! source does.

use crate::backend::LinkFilter;
use crate::backend::blocking::Cancellation;
use crate::backend::disk::allocation::on_disk;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::{DiskMetadata, OWN_ATTRIBUTES};
use crate::backend::disk::temp_file::private_name;
use crate::backend::path::MAX_DEPTH;
use hither_core::storage::FileKind;
use hither_core::storage::{join, sibling};
use rustix::fs::{SeekFrom, XattrFlags, copy_file_range, fgetxattr, flistxattr, fsetxattr, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The number of bytes that the kernel copies in one call.
const AT_ONCE: u64 = 64 << 20;
/// The size of the buffer where the kernel cannot copy.
const BUFFER_BYTES: usize = 1 << 20;
/// The message for a file that changes while it is copied.
const IS_WRITTEN: &str = "the source is being written: copy it when that has ended";

/// The options of a copy within the tree.
#[derive(Clone, Copy)]
pub(crate) struct TreeCopy<'a> {
    /// The links that are followed in a directory; none for a directory without its contents.
    pub(crate) links: Option<&'a LinkFilter>,
    /// True if a lot has the space, so that the floor of free space does not apply.
    pub(crate) is_in_lot: bool,
    pub(crate) cancellation: &'a Cancellation,
}

impl ConfinedDir {
    /// Copies a file or directory to a private name in the directory where `to` will be. Returns
    /// the path of the copy; if it fails or is cancelled, nothing is left of it.
    pub(crate) fn copy(&self, from: &str, to: &str, options: TreeCopy<'_>) -> io::Result<String> {
        let hidden = sibling(to, &private_name());
        let done = match self.meta(from)?.kind {
            FileKind::File => self.copy_file(from, &hidden, true, options),
            FileKind::Directory => self
                .copy_directory(from, &hidden, MAX_DEPTH, options)
                .and_then(|()| self.sync_around(&hidden)),
            FileKind::Link | FileKind::Other | FileKind::Unnamed => Err(Errno::ACCESS.into()),
        };
        if let Err(error) = done {
            let _ = self.remove(&hidden);
            return Err(error);
        }
        Ok(hidden)
    }

    /// Copies one version of a file; fails if the file changes meanwhile.
    fn copy_file(&self, from: &str, to: &str, sync: bool, options: TreeCopy<'_>) -> io::Result<()> {
        let found = self.find(from)?;
        let has_writers = || self.parts.is_open(found.meta.file_id());
        if has_writers() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, IS_WRITTEN));
        }
        let (parent, _) = to.rsplit_once('/').unwrap_or(("", to));
        let mut upload = self.begin(parent)?;
        let taken = on_disk(&found.file)?;
        if !options.is_in_lot {
            let fits = self.floor.check(upload.file(), taken.min(found.meta.size));
            fits.map_err(|_| Errno::NOSPC)?;
        }
        if taken >= found.meta.size {
            upload.reserve(found.meta.size)?;
        }
        copy_data(&found.file, upload.file(), found.meta.size, options.cancellation)?;
        if has_writers() || DiskMetadata::of(&found.file)?.key() != found.meta.key() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, IS_WRITTEN));
        }
        copy_attributes(&found.file, upload.file(), &found.meta)?;
        if sync {
            upload.sync()?;
        }
        upload.link_as(self, to, false)
    }

    /// Makes everything durable that was written on the file system of a path: one call for many
    /// files.
    fn sync_around(&self, path: &str) -> io::Result<()> {
        if self.durable {
            rustix::fs::syncfs(self.find(path)?.file)?;
        }
        Ok(())
    }

    fn copy_directory(
        &self,
        from: &str,
        to: &str,
        depth: usize,
        options: TreeCopy<'_>,
    ) -> io::Result<()> {
        self.make_directory(to)?;
        copy_attributes(&self.find(from)?.file, &self.find(to)?.file, &self.meta(from)?)?;
        let Some(links) = options.links else { return Ok(()) };
        for entry in self.entries(from, usize::MAX - 1, options.cancellation)? {
            options.cancellation.check()?;
            if entry.refusal.is_some() {
                return Err(Errno::ILSEQ.into());
            }
            let mut from = join(from, &entry.name);
            let to = join(to, &entry.name);
            let is_link = self.own(&from)?.is_some_and(|own| own.kind == FileKind::Link);
            if is_link {
                match self.resolve(&from) {
                    Ok(target) if links(&target) => from = target,
                    Err(error)
                        if !matches!(
                            error.kind(),
                            io::ErrorKind::PermissionDenied | io::ErrorKind::CrossesDevices
                        ) =>
                    {
                        return Err(error);
                    }
                    // It leads nowhere, out, or where server or client may not read.
                    _ => continue,
                }
            }
            match self.meta(&from)?.kind {
                FileKind::File => self.copy_file(&from, &to, false, options)?,
                FileKind::Directory if is_link => return Err(Errno::ACCESS.into()),
                FileKind::Directory if depth == 1 => return Err(Errno::NAMETOOLONG.into()),
                FileKind::Directory => self.copy_directory(&from, &to, depth - 1, options)?,
                // Pipes and devices are not served, and not copied.
                FileKind::Link | FileKind::Other | FileKind::Unnamed => {}
            }
        }
        Ok(())
    }
}

/// Copies the data of a file of `size` bytes, without its holes.
fn copy_data(from: &File, to: &File, size: u64, cancellation: &Cancellation) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let start = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            // The file system does not know its holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(errno) => return Err(errno.into()),
        };
        let end = seek(from, SeekFrom::Hole(start)).unwrap_or(size).clamp(start + 1, size);
        copy_range(from, to, start..end, cancellation)?;
        at = end;
    }
    to.set_len(size)
}

fn copy_range(
    from: &File,
    to: &File,
    Range { mut start, end }: Range<u64>,
    cancellation: &Cancellation,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while start < end {
        cancellation.check()?;
        let at_once = usize::try_from(AT_ONCE.min(end - start)).map_err(io::Error::other)?;
        let mut read_at = start;
        let mut write_at = start;
        match copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), at_once) {
            // The file became shorter; the caller notices.
            Ok(0) => return Ok(()),
            Ok(copied) => start += copied as u64,
            Err(Errno::INTR) => {}
            // The kernel does not copy between some file systems.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                buffer.resize(at_once.min(BUFFER_BYTES), 0);
                let read = from.read_at(&mut buffer, start)?;
                if read == 0 {
                    return Ok(());
                }
                to.write_all_at(buffer.get(..read).unwrap_or_default(), start)?;
                start += read as u64;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Copies the attributes of this server. A stored checksum is bound to the time of its file, so the
/// copy gets the same time.
fn copy_attributes(from: &File, to: &File, meta: &DiskMetadata) -> io::Result<()> {
    let mut names = vec![0; 64 << 10];
    let Ok(length) = flistxattr(from, &mut names) else { return Ok(()) };
    let mut value = vec![0; 64 << 10];
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        let Some(name) = std::str::from_utf8(name).ok().filter(|n| n.starts_with(OWN_ATTRIBUTES))
        else {
            continue;
        };
        if let Ok(length) = fgetxattr(from, name, &mut value) {
            fsetxattr(to, name, value.get(..length).unwrap_or_default(), XattrFlags::empty())?;
        }
    }
    if meta.kind == FileKind::File {
        to.set_modified(meta.modified)?;
    }
    Ok(())
}
