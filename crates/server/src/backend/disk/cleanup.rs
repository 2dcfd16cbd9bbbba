//! What uploads have left behind: files and directories under private names of a server that was killed, and parts of
//! uploads that nobody goes on with.

use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::DiskMetadata;
use crate::backend::path::PRIVATE;
use hither_core::storage::FileKind;
use hither_core::storage::{is_partial, join};
use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags, flock, openat};
use std::fs::File;
use std::io;
use std::time::SystemTime;

/// Folders that are gone into at the same time, one in the other, when leftovers are looked for.
const MAX_WAITING: usize = 1 << 20;

/// How old leftovers are at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CleanupAges {
    /// What has a private name, and was not changed since then; none if it may belong to another server.
    pub(crate) private: Option<SystemTime>,
    /// A part of an upload that was not changed since then.
    pub(crate) unfinished: SystemTime,
}

impl ConfinedDir {
    /// The right of one server to a tree that it writes to; none if another one has it. It ends with what is returned.
    pub(crate) fn own_it(&self) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = File::from(openat(&self.root, ".", flags, Mode::empty()).ok()?);
        flock(&root, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(root)
    }

    /// Removes leftovers with `remove`, which is given the path to each. Directories that cannot be read are passed over.
    pub(crate) fn remove_stale(&self, ages: CleanupAges, mut remove: impl FnMut(&str)) {
        let mut waiting = vec![String::new()];
        while let Some(directory) = waiting.pop() {
            // What cannot be read today is looked at tomorrow.
            let _ = self.sweep_one(&directory, ages, &mut waiting, &mut remove);
        }
    }

    fn sweep_one(
        &self,
        directory: &str,
        ages: CleanupAges,
        waiting: &mut Vec<String>,
        remove: &mut impl FnMut(&str),
    ) -> io::Result<()> {
        let opened = self.at(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let before = match (is_private(name), is_partial(name)) {
                (true, _) => ages.private,
                (false, true) => Some(ages.unfinished),
                (false, false) => None,
            };
            if let Some(before) = before
                && DiskMetadata::at(&opened, name).is_ok_and(|meta| meta.touched < before)
            {
                remove(&join(directory, name));
            }
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => DiskMetadata::at(&opened, name)?.kind == FileKind::Directory,
                _ => false,
            };
            let is_own = matches!(name, "." | "..") || name.starts_with(PRIVATE);
            if is_directory && !is_own && waiting.len() < MAX_WAITING {
                waiting.push(join(directory, name));
            }
        }
        Ok(())
    }
}

/// Whether a name is one of those for what is not complete yet, or is being removed.
fn is_private(name: &str) -> bool {
    let number = name.strip_prefix(PRIVATE);
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}
