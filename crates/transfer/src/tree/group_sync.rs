//! One sync for all small files that wait for one.
//!
//! Syncing each file separately would wait for the disk once per file. `syncfs` syncs everything
//! that was written before it began. So files and batches take a ticket when they are written; a
//! sync covers all tickets that were taken before it, and a file whose ticket is covered meanwhile
//! does not sync at all. If no other file waits, only the file itself is synced, which does not
//! wait for writes of other programs to that file system.
//!
//! The kernel reports an error of a file system once to each descriptor that was open before the
//! error. So a descriptor from before the first write is kept, and an error fails all tickets that
//! the sync would have covered.

use crate::file::target::partial_file::failed;
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::spawn_blocking;

/// The syncs of a job.
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    /// By the device of the file system.
    file_systems: Mutex<HashMap<u64, Arc<FileSystemSync>>>,
}

/// The syncs of one file system.
#[derive(Debug)]
struct FileSystemSync {
    /// A file on it, opened before the first write.
    file: File,
    tickets: AtomicU64,
    covered: tokio::sync::Mutex<Covered>,
}

/// The extent of the syncs so far.
#[derive(Debug, Default)]
struct Covered {
    /// All tickets below this are covered.
    tickets: u64,
    /// The number of syncs of everything.
    syncs: u64,
    /// The tickets whose sync failed.
    failed: Option<(Range<u64>, Error)>,
}

impl GroupSync {
    /// Records a coming write to `file`, on the file system `device`.
    pub(crate) fn watch(&self, device: u64, file: &File) -> std::io::Result<()> {
        let mut all = lock(&self.file_systems);
        if let Entry::Vacant(entry) = all.entry(device) {
            let file = file.try_clone()?;
            let covered = tokio::sync::Mutex::default();
            let sync = FileSystemSync { file, tickets: AtomicU64::new(0), covered };
            entry.insert(Arc::new(sync));
        }
        Ok(())
    }

    /// Returns when everything that the caller has written to the file system `device` is on the
    /// disk; `only` if that is one file.
    pub(crate) async fn sync(&self, device: u64, only: Option<&Path>) -> Result<()> {
        // Without a recorded write there is nothing to sync.
        let Some(sync) = lock(&self.file_systems).get(&device).map(Arc::clone) else {
            return Ok(());
        };
        let ticket = sync.tickets.fetch_add(1, Ordering::AcqRel);
        let mut covered = sync.covered.lock().await;
        if covered.tickets > ticket {
            let failed = covered.failed.as_ref().filter(|(range, _)| range.contains(&ticket));
            return failed.map_or(Ok(()), |(_, error)| Err(error.clone()));
        }
        let tickets = sync.tickets.load(Ordering::Acquire);
        let alone = only.filter(|_| tickets - covered.tickets == 1).map(Path::to_owned);
        let is_alone = alone.is_some();
        let to_sync = Arc::clone(&sync);
        let synced = spawn_blocking(move || {
            // A file whose permissions forbid reading is synced with all others.
            match alone.as_ref().and_then(|path| File::open(path).ok()) {
                Some(file) => file.sync_all(),
                None => rustix::fs::syncfs(&to_sync.file).map_err(Into::into),
            }
            .map_err(|error| {
                failed("cannot sync", &alone.unwrap_or_else(|| "what was written".into()), error)
            })
        });
        let synced = synced.await.unwrap_or_else(|error| {
            Err(Error::new(ErrorKind::Local, "a syncing thread panicked").with_source(error))
        });
        if let Err(error) = &synced {
            let first = covered.failed.as_ref().map_or(covered.tickets, |(range, _)| range.start);
            covered.failed = Some((first..tickets, error.clone()));
        }
        covered.tickets = tickets;
        covered.syncs += u64::from(!is_alone);
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sync_covers_those_who_came_before_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let sync = GroupSync::default();
        for device in [1, 2] {
            sync.watch(device, &file).unwrap();
        }
        let on = |device| sync.sync(device, Some(&path));
        let covered = |device| {
            let all = lock(&sync.file_systems);
            let covered = all[&device].covered.try_lock().unwrap();
            (covered.tickets, covered.syncs)
        };
        on(1).await.unwrap();
        assert_eq!(covered(1), (1, 0), "one file is synced alone");
        // Three wait while another syncs: the first of them covers all.
        let first = Arc::clone(&lock(&sync.file_systems)[&1]);
        let held = first.covered.lock().await;
        let mut waiting = [Box::pin(on(1)), Box::pin(on(1)), Box::pin(on(1))];
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        drop(held);
        for one in waiting {
            one.await.unwrap();
        }
        sync.sync(1, None).await.unwrap();
        assert_eq!(covered(1), (5, 2));
        assert_eq!(covered(2), (0, 0), "a sync of one file system covers nothing on another one");
    }

    #[tokio::test]
    async fn a_failed_sync_fails_all_that_it_would_have_covered() {
        let sync = GroupSync::default();
        sync.watch(1, &tempfile::tempfile().unwrap()).unwrap();
        let inner = Arc::clone(&lock(&sync.file_systems)[&1]);
        let error = Error::new(ErrorKind::Local, "the disk failed");
        *inner.covered.lock().await = Covered { tickets: 1, syncs: 1, failed: Some((0..1, error)) };
        assert_eq!(sync.sync(1, None).await.unwrap_err().to_string(), "the disk failed");
        sync.sync(1, None).await.unwrap();
    }
}
