//! Copies within the tree. The kernel copies the bytes, and shares them where the file system can.
//!
//! A link to a file is copied as that file, as every reader sees it. Copied as a link it would lead
//! elsewhere from its new directory, maybe to a file that its readers may not read. Directories are
//! not entered through links, which may lead in a circle: a link to a directory is not copied.
//!
//! A copy is made under a private name and gets its own name when it is complete, like a file that
//! a client puts.

use crate::backend::blocking::Cancellation;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::{DiskMetadata, OWN_ATTRIBUTES};
use crate::backend::disk::temp_file::private_name;
use crate::backend::path::MAX_DEPTH;
use hither_core::storage::FileKind;
use hither_core::storage::{join, sibling};
use rustix::fs::{XattrFlags, copy_file_range, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};

/// The number of bytes that the kernel copies in one call.
const AT_ONCE: usize = 64 << 20;

impl ConfinedDir {
    /// Copies a file, or a directory (with its contents if `deep`), to a private name in the
    /// directory where `to` will be. Returns the path of the copy; if it fails or is cancelled,
    /// nothing is left of it.
    pub(crate) fn copy(
        &self,
        from: &str,
        to: &str,
        deep: bool,
        cancellation: &Cancellation,
    ) -> io::Result<String> {
        let hidden = sibling(to, &private_name());
        let done = match self.meta(from)?.kind {
            FileKind::File => self.copy_file(from, &hidden, true, cancellation),
            FileKind::Directory => self
                .copy_directory(from, &hidden, if deep { MAX_DEPTH } else { 0 }, cancellation)
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
    fn copy_file(
        &self,
        from: &str,
        to: &str,
        sync: bool,
        cancellation: &Cancellation,
    ) -> io::Result<()> {
        let found = self.find(from)?;
        let (parent, _) = to.rsplit_once('/').unwrap_or(("", to));
        let mut upload = self.begin(parent)?;
        upload.reserve(found.meta.size)?;
        copy_bytes(&found.file, upload.file(), cancellation)?;
        if DiskMetadata::of(&found.file)?.key() != found.meta.key() {
            // Somebody wrote into it during the copy.
            return Err(Errno::BUSY.into());
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
        cancellation: &Cancellation,
    ) -> io::Result<()> {
        self.make_directory(to)?;
        copy_attributes(&self.find(from)?.file, &self.find(to)?.file, &self.meta(from)?)?;
        if depth == 0 {
            return Ok(());
        }
        for entry in self.entries(from, usize::MAX - 1, cancellation)? {
            cancellation.check()?;
            let (from, to) = (join(from, &entry.name), join(to, &entry.name));
            let is_link = self.is_link(&from)?;
            let kind = match self.meta(&from) {
                // It leads nowhere, or out of the tree: nobody is served it.
                Err(_) if is_link => continue,
                meta => meta?.kind,
            };
            match kind {
                FileKind::File => self.copy_file(&from, &to, false, cancellation)?,
                FileKind::Directory if is_link => return Err(Errno::ACCESS.into()),
                FileKind::Directory if depth == 1 => return Err(Errno::NAMETOOLONG.into()),
                FileKind::Directory => self.copy_directory(&from, &to, depth - 1, cancellation)?,
                // Pipes and devices are not served, and not copied.
                FileKind::Link | FileKind::Other | FileKind::Unnamed => {}
            }
        }
        Ok(())
    }
}

fn copy_bytes(from: &File, to: &File, cancellation: &Cancellation) -> io::Result<()> {
    loop {
        cancellation.check()?;
        match copy_file_range(from, None, to, None, AT_ONCE) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            // The kernel does not copy between some file systems.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                let (from, mut to) = (from, to);
                if io::copy(&mut from.take(AT_ONCE as u64), &mut to)? == 0 {
                    return Ok(());
                }
            }
            Err(errno) => return Err(errno.into()),
        }
    }
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
