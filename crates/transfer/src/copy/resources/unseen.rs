//! Small uploads that are not confirmed yet: their servers reported success, but no listing or
//! other metadata has shown the files.
//!
//! Requesting the size of each file would cost one request per file. So files are collected by
//! directory, and one listing confirms all of a directory. A directory with few of them is not
//! listed. Files that a listing does not show with their sizes are requested one by one: servers
//! hide some files, and do not state all sizes.

use crate::file::version::FileVersion;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_core::storage::{FileKind, file_name, parent};
use hither_core::sync::lock;
use hither_core::{DirEntry, Error, ErrorKind, Result, Storage};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// The largest number of files that wait to be confirmed, some 300 bytes each.
const MAX_UNSEEN: usize = 16_384;
/// Files of a directory that are requested one by one: a listing costs more than a few requests.
const MAX_QUESTIONS: usize = 2;
/// The number of names, for each unconfirmed file, up to which the listing of a directory is read;
/// at least [`MIN_LISTED`].
const MAX_LISTED: usize = 4;
/// The number of names up to which a listing is read in any case.
const MIN_LISTED: usize = 1_000;
/// Files of a directory that are requested concurrently.
const AT_ONCE: usize = 16;

/// The uploads of a job that are not confirmed yet.
#[derive(Debug, Default)]
pub(crate) struct UnseenUploads(Mutex<UnseenState>);

#[derive(Debug, Default)]
struct UnseenState {
    count: usize,
    /// By the names of their storages and their paths.
    directories: BTreeMap<(String, String), UnseenDirectory>,
}

#[derive(Debug)]
struct UnseenDirectory {
    storage: Arc<dyn Storage>,
    path: String,
    files: Vec<UnseenFile>,
}

/// The expected state of an upload.
#[derive(Debug)]
pub(crate) struct UnseenFile {
    /// The name of the source, for messages.
    pub(crate) source: String,
    /// The name of the target: the key of the journal.
    pub(crate) key: String,
    /// The path of the target.
    pub(crate) path: String,
    pub(crate) version: FileVersion,
    /// Its size in bytes.
    pub(crate) size: u64,
}

impl UnseenUploads {
    /// Adds a file that has its name.
    pub(crate) fn add(&self, storage: &Arc<dyn Storage>, file: UnseenFile) {
        let mut state = lock(&self.0);
        state.count += 1;
        let path = parent(&file.path).to_owned();
        let entry = state.directories.entry((storage.name(), path.clone()));
        let storage = Arc::clone(storage);
        let new = || UnseenDirectory { storage, path, files: Vec::new() };
        entry.or_insert_with(new).files.push(file);
    }

    /// Requests the entries of all of them, if the limit is reached or at the `end` of the job, and
    /// returns them.
    pub(crate) async fn look(&self, end: bool) -> Vec<(UnseenFile, Result<DirEntry>)> {
        let directories = {
            let mut state = lock(&self.0);
            if !end && state.count < MAX_UNSEEN {
                return Vec::new();
            }
            std::mem::take(&mut *state).directories
        };
        let looks: FuturesUnordered<_> =
            directories.into_values().map(UnseenDirectory::look).collect();
        looks.concat().await
    }
}

impl UnseenFile {
    /// Returns true if `seen` is a file of its size.
    fn is(&self, seen: &DirEntry) -> bool {
        seen.kind == FileKind::File && seen.size == Some(self.size)
    }

    /// Fails unless `seen` is a file of its size.
    pub(crate) fn check(&self, seen: &DirEntry) -> Result<()> {
        if self.is(seen) {
            return Ok(());
        }
        let seen = seen.shown_size();
        let what = format!("{} has {seen} on the server, expected {}", self.key, self.size);
        Err(Error::new(ErrorKind::Corrupt, what))
    }
}

impl UnseenDirectory {
    async fn look(self) -> Vec<(UnseenFile, Result<DirEntry>)> {
        let mut listed = self.list().await;
        let mut seen = Vec::with_capacity(self.files.len());
        let mut rest = Vec::new();
        for file in self.files {
            match listed.remove(file_name(&file.path)) {
                Some(entry) if file.is(&entry) => seen.push((file, Ok(entry))),
                _ => rest.push(file),
            }
        }
        let storage = &*self.storage;
        let mut rest = rest.into_iter();
        loop {
            let looks: FuturesUnordered<_> = rest
                .by_ref()
                .take(AT_ONCE)
                .map(|file| async move {
                    let entry = storage.stat(&file.path).await;
                    (file, entry)
                })
                .collect();
            if looks.is_empty() {
                return seen;
            }
            seen.extend(looks.collect::<Vec<_>>().await);
        }
    }

    /// The files of the directory by their names, if its listing shows them.
    async fn list(&self) -> HashMap<String, DirEntry> {
        let mut listed = HashMap::new();
        let most = MIN_LISTED.max(MAX_LISTED * self.files.len());
        if self.files.len() <= MAX_QUESTIONS {
            return listed;
        }
        let mut batches = self.storage.list_batches(&self.path);
        while let Some(Ok(listing)) = batches.next().await {
            let entries = listing.entries.into_iter();
            listed.extend(entries.map(|it| (file_name(&it.path).to_owned(), it)));
            if listed.len() > most {
                break;
            }
        }
        listed
    }
}
