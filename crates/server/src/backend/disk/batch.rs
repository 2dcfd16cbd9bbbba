//! Small files that are written together.
//!
//! Making each file durable by itself costs two waits for the disk. Here all files of a batch are
//! written first, without names. One sync of the file system covers their bytes, then they get
//! their names, and a second one covers these. It also waits for the data that others have written
//! to that file system.

use crate::backend::blocking::Cancellation;
use crate::backend::disk::DiskBackend;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::writer::{CompleteFile, DiskWriter};
use crate::backend::{BackendError, BackendErrorKind, BatchEntry, Committed};
use rustix::fs::{OFlags, fstat, syncfs};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::SystemTime;

/// The file systems that a batch has changed, each by a file on it that was opened before.
#[derive(Debug, Default)]
struct ChangedFileSystems(Vec<(u64, File)>);

/// An entry of a batch between its bytes and its name.
enum Prepared {
    Done(Committed),
    File(Box<(BatchEntry, CompleteFile)>),
}

/// Writes a batch. See [`crate::backend::Backend::put_batch`].
pub(crate) fn put(
    disk: &DiskBackend,
    tree: &ConfinedDir,
    entries: Vec<BatchEntry>,
    cancellation: &Cancellation,
) -> Result<Vec<Result<Committed, BackendError>>, BackendError> {
    let mut changed = ChangedFileSystems::default();
    let mut prepared = Vec::with_capacity(entries.len());
    for entry in entries {
        cancellation.check()?;
        prepared.push(prepare(disk, tree, entry, &mut changed));
    }
    if tree.durable {
        changed.sync()?;
    }
    let named = prepared.into_iter().map(|prepared| match prepared? {
        Prepared::Done(committed) => Ok(committed),
        Prepared::File(prepared) => {
            let (entry, file) = *prepared;
            let BatchEntry { path, replace, precondition, .. } = entry;
            file.give_name(tree, &path, replace, &precondition).map(|(_, committed)| committed)
        }
    });
    let results = named.collect();
    if tree.durable {
        changed.sync()?;
    }
    Ok(results)
}

/// Makes a directory, or writes the bytes of a file.
fn prepare(
    disk: &DiskBackend,
    tree: &ConfinedDir,
    mut entry: BatchEntry,
    changed: &mut ChangedFileSystems,
) -> Result<Prepared, BackendError> {
    let Some(content) = entry.content.take() else {
        return make_directory(disk, tree, &entry, changed).map(Prepared::Done);
    };
    let file = DiskWriter::complete(disk, tree, &entry, &content)?;
    changed.add(file.file.file())?;
    Ok(Prepared::File(Box::new((entry, file))))
}

fn make_directory(
    disk: &DiskBackend,
    tree: &ConfinedDir,
    entry: &BatchEntry,
    changed: &mut ChangedFileSystems,
) -> Result<Committed, BackendError> {
    let path = &entry.path;
    let own =
        || Ok::<_, BackendError>(tree.own(path)?.and_then(|own| own.target(SystemTime::now())));
    let made = disk.lots().make_directory(tree, path, || (entry.precondition)(own()?.as_ref()));
    let replaced = match made {
        Ok(()) => false,
        Err(error) if error.kind() == BackendErrorKind::AlreadyExists => {
            if !own()?.is_some_and(|there| there.is_directory()) {
                return Err(error);
            }
            true
        }
        Err(error) => return Err(error),
    };
    let opened = tree.at(path, OFlags::RDONLY | OFlags::DIRECTORY);
    changed.add(&File::from(opened?))?;
    Ok(Committed { metadata: tree.meta(path)?.entry(SystemTime::now()), replaced })
}

impl ChangedFileSystems {
    fn add(&mut self, file: &File) -> io::Result<()> {
        let device = fstat(file.as_fd())?.st_dev;
        if self.0.iter().all(|(known, _)| *known != device) {
            self.0.push((device, file.try_clone()?));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|(_, file)| Ok(syncfs(file)?))
    }
}
