//! Removal of stale files: private names left by a server that was killed, and partial files of
//! uploads that no client continues.

use crate::backend::SpaceUsage;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::DiskMetadata;
use crate::backend::path::PRIVATE;
use hither_core::storage::FileKind;
use hither_core::storage::{is_partial, join};
use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags, flock, openat};
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

/// The maximum number of directories that wait to be searched for stale files.
const MAX_WAITING: usize = 1 << 20;

/// The age from which partial files are stale where space is short.
const SHORT_AGE: Duration = Duration::from_secs(6 * 3_600);

/// Returns true if less than a tenth of the space is free.
pub(crate) fn is_short(space: SpaceUsage) -> bool {
    space.available < space.available.saturating_add(space.used) / 10
}

/// The age from which partial files are stale, of `longest` at most.
pub(crate) fn unfinished_age(is_short: bool, longest: Duration) -> Duration {
    if is_short { longest.min(SHORT_AGE) } else { longest }
}

/// The ages from which files are stale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CleanupAges {
    /// Entries with private names that were last changed before this time are stale; none if they
    /// may belong to another server.
    pub(crate) private: Option<SystemTime>,
    /// Partial files that were last changed before this time are stale.
    pub(crate) unfinished: SystemTime,
}

impl ConfinedDir {
    /// Locks a tree that this server writes to; none if another server has locked it. Dropping the
    /// file releases the lock.
    pub(crate) fn own_it(&self) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = File::from(openat(&self.root, ".", flags, Mode::empty()).ok()?);
        flock(&root, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(root)
    }

    /// Calls `remove` with the path of each stale entry. Directories that cannot be read are
    /// skipped.
    pub(crate) fn remove_stale(&self, ages: CleanupAges, mut remove: impl FnMut(&str)) {
        let mut waiting = vec![String::new()];
        while let Some(directory) = waiting.pop() {
            // A directory that cannot be read now is tried again at the next sweep.
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

/// Returns true if this is a private name: of a file that is not complete, or of an entry being
/// removed.
fn is_private(name: &str) -> bool {
    let number = name.strip_prefix(PRIVATE);
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_files_are_stale_earlier_where_space_is_short() {
        let week = Duration::from_secs(7 * 24 * 3_600);
        for (available, used, expected) in
            [(10, 90, week), (9, 91, SHORT_AGE), (0, 0, week), (u64::MAX, 1, week)]
        {
            let is_short = is_short(SpaceUsage { available, used });
            assert_eq!(unfinished_age(is_short, week), expected, "{available} of {used}");
        }
        let minute = Duration::from_secs(60);
        assert_eq!(unfinished_age(true, minute), minute);
    }
}
