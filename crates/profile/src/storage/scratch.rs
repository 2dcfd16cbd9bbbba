//! The scratch directory of a profile, in the measured directory.
//!
//! It is removed at the end. A killed profile leaves it behind, and the next profile removes it.
//! Each profile holds a lock on a file in its directory while it runs, so a directory with a free
//! lock has no owner. Between the creation of the directory and of the lock, another profile may
//! consider it abandoned and rename it; its owner then finds that the lock has gone, and creates
//! another.
//!
//! The lock is closed before the directory is removed: over NFS and FUSE an open file that is
//! removed stays under another name, and the directory with it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = ".hither-profile-";
const LOCK: &str = "lock";
const ATTEMPTS: u32 = 10;

/// A directory that is removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    lock: Option<File>,
}

impl Scratch {
    /// Creates a directory in `parent`.
    pub(crate) fn create(parent: &Path) -> Result<Self> {
        let process = std::process::id();
        for attempt in 0..ATTEMPTS {
            let path = parent.join(format!("{PREFIX}{process}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            if let Some(lock) = lock(&path)? {
                return Ok(Self { path, lock: Some(lock) });
            }
        }
        Err(Error::other("another profile removes the directories that this one makes"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.lock.take());
        // If it cannot be removed now, the next profile will try again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a directory; none if another process has locked or removed it.
fn lock(directory: &Path) -> Result<Option<File>> {
    let path = directory.join(LOCK);
    let file = match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    let ours = file.metadata()?.ino();
    Ok(fs::metadata(&path).is_ok_and(|there| there.ino() == ours).then_some(file))
}

/// Removes the directories in `parent` that killed profiles of this user have left; returns their
/// number.
///
/// # Errors
///
/// The directory cannot be read, or a left directory cannot be removed.
pub(crate) fn remove_left_over(parent: &Path) -> Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        // In a directory that all users can write to, another user may have created this name.
        let is_own =
            |it: fs::Metadata| it.is_dir() && it.uid() == rustix::process::geteuid().as_raw();
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(is_own)
            && let Ok(Some(lock)) = lock(&entry.path())
        {
            let aside = parent.join(format!("{PREFIX}{}-removed-{removed}", std::process::id()));
            fs::rename(entry.path(), &aside)?;
            drop(lock);
            fs::remove_dir_all(&aside)?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_profile_left_is_removed_and_what_a_running_one_has_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let running = Scratch::create(parent.path()).unwrap();
        let killed = parent.path().join(format!("{PREFIX}1-0"));
        let killed_early = parent.path().join(format!("{PREFIX}1-1"));
        let other = parent.path().join("hither-profile");
        for path in [&killed, &killed_early, &other] {
            fs::create_dir(path).unwrap();
        }
        fs::write(killed.join(LOCK), "").unwrap();
        fs::write(killed.join("data"), "left").unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join(format!("{PREFIX}link"))).unwrap();

        assert_eq!(remove_left_over(parent.path()).unwrap(), 2);
        assert!(running.path().exists() && other.exists() && !killed.exists());
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        let path = running.path().to_owned();
        drop(running);
        assert!(!path.exists());
    }
}
