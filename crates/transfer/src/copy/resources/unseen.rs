//! Uploads that are not confirmed yet: their servers reported success, but no listing or other
//! metadata has shown the files; or their names are of a kind that some servers store as other
//! names, without `:` or without a dot at the end.
//!
//! Requesting the size of each file would cost one request per file. So files are collected by
//! directory, and one listing confirms all of a directory. A directory with few of them is not
//! listed. Files that a listing does not show with their sizes are requested one by one: servers
//! hide some files, and do not state all sizes.
//!
//! A directory with unusual names ([`is_plain`]) is listed to its end. Where a complete listing
//! lacks such a name in any spelling, and the server has the file nevertheless, the file is stored
//! under another name: it may have replaced that of another source, and a sync would delete it.

use crate::destination::folding::{coarse, is_plain};
use crate::destination::{CopyPath, Target};
use crate::file::version::FileVersion;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hither_core::storage::{FileKind, file_name, join, parent};
use hither_core::sync::lock;
use hither_core::{DirEntry, Error, ErrorKind, Result, Storage};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// The largest number of names that wait to be confirmed, some 300 bytes each.
const MAX_UNSEEN: usize = 16_384;
/// Files of a directory that are requested one by one: a listing costs more than a few requests.
const MAX_SINGLE_REQUESTS: usize = 2;
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
    /// By their paths.
    files: BTreeMap<String, UnseenName>,
}

/// The expected state of an upload, or of a directory that was made.
#[derive(Debug)]
pub(crate) struct UnseenName {
    /// The name of the source, for messages.
    pub(crate) source: String,
    /// The name of the target: the key of the journal.
    pub(crate) key: String,
    /// The path of the target.
    pub(crate) path: String,
    /// The version and the size in bytes of a file; none of a directory.
    pub(crate) file: Option<(FileVersion, u64)>,
    /// Only its name is not confirmed: its size is, or it is a directory.
    pub(crate) has_size: bool,
}

impl UnseenUploads {
    /// Adds a file that has its name, or a directory.
    pub(crate) fn add(&self, storage: &Arc<dyn Storage>, file: UnseenName) {
        let mut state = lock(&self.0);
        let path = parent(&file.path).to_owned();
        let entry = state.directories.entry((storage.name(), path.clone()));
        let storage = Arc::clone(storage);
        let new = || UnseenDirectory { storage, path, files: BTreeMap::new() };
        // Each batch of files has the directories that they are in.
        let earlier = entry.or_insert_with(new).files.insert(file.path.clone(), file);
        state.count += usize::from(earlier.is_none());
    }

    /// Requests the entries of all of them, if the limit is reached or at the `end` of the job, and
    /// returns them.
    pub(crate) async fn look(&self, end: bool) -> Vec<(UnseenName, Result<DirEntry>)> {
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

impl UnseenName {
    /// Returns true if `seen` is a file of its size, or if its size does not have to be seen.
    fn is(&self, seen: &DirEntry) -> bool {
        let is_of = |size| seen.kind == FileKind::File && seen.size == Some(size);
        self.has_size || self.file.as_ref().is_none_or(|(_, size)| is_of(*size))
    }

    /// Fails unless `seen` is a file of its size.
    pub(crate) fn check(&self, seen: &DirEntry) -> Result<()> {
        if self.is(seen) {
            return Ok(());
        }
        let seen = seen.shown_size();
        let size = self.file.as_ref().map_or(0, |(_, size)| *size);
        let what = format!("{} has {seen} on the server, expected {size}", self.key);
        Err(Error::new(ErrorKind::Corrupt, what))
    }

    /// Fails because a complete listing lacks this name, which the server has.
    fn is_stored_otherwise(&self) -> Error {
        let what = format!(
            "{} is there, and the listing of its directory lacks it: the server stores it under \
             another name, which may be that of another file: rename it",
            self.key
        );
        Error::new(ErrorKind::Invalid, what)
    }
}

/// Returns those of `names`, of the directory `directory`, that a complete listing lacks in any
/// spelling, each with the reason: the server has the file, and so has stored it under another
/// name, or it does not have it.
pub async fn unlisted_names(
    directory: &CopyPath,
    names: impl IntoIterator<Item = String>,
) -> Vec<(String, Error)> {
    let Target::Remote(storage, path) = directory.target() else { return Vec::new() };
    let unseen = |source: String| {
        let path = join(&path, &source);
        let key = Target::Remote(Arc::clone(&storage), path.clone()).name();
        (path.clone(), UnseenName { source, key, path, file: None, has_size: true })
    };
    let files = names.into_iter().map(unseen).collect();
    let looked = UnseenDirectory { storage: Arc::clone(&storage), path: path.clone(), files };
    let looked = looked.look().await.into_iter();
    looked.filter_map(|(name, seen)| Some((name.source, seen.err()?))).collect()
}

impl UnseenDirectory {
    async fn look(self) -> Vec<(UnseenName, Result<DirEntry>)> {
        let mut listed = self.list().await;
        let mut seen = Vec::with_capacity(self.files.len());
        let mut rest = Vec::new();
        for file in self.files.into_values() {
            let name = file_name(&file.path);
            match listed.entries.remove(name) {
                Some(entry) if file.is(&entry) => seen.push((file, Ok(entry))),
                entry => {
                    let is_lacking = entry.is_none() && !is_plain(name) && listed.lacks(name);
                    if is_lacking || !file.has_size {
                        rest.push((file, is_lacking));
                    }
                }
            }
        }
        let storage = &*self.storage;
        let mut rest = rest.into_iter();
        loop {
            let looks: FuturesUnordered<_> = rest
                .by_ref()
                .take(AT_ONCE)
                .map(|(file, is_lacking)| async move {
                    let entry = match storage.stat(&file.path).await {
                        Ok(_) if is_lacking => Err(file.is_stored_otherwise()),
                        entry => entry,
                    };
                    (file, entry)
                })
                .collect();
            if looks.is_empty() {
                return seen;
            }
            seen.extend(looks.collect::<Vec<_>>().await);
        }
    }

    /// The listing of the directory, as far as it is of use.
    async fn list(&self) -> ListedNames {
        let mut listed = ListedNames::default();
        let names: HashSet<_> = self.files.keys().map(|path| file_name(path)).collect();
        let has_unusual = !names.iter().all(|name| is_plain(name));
        if self.files.len() <= MAX_SINGLE_REQUESTS && !has_unusual {
            return listed;
        }
        let most = if has_unusual { usize::MAX } else { MIN_LISTED.max(MAX_LISTED * names.len()) };
        let alike: HashSet<_> = names.iter().map(|name| coarse(name)).collect();
        let mut count = 0;
        let mut is_complete = true;
        let mut batches = self.storage.list_batches(&self.path);
        while let Some(listing) = batches.next().await {
            let Ok(listing) = listing else { return listed };
            is_complete &= listing.is_complete();
            count += listing.entries.len();
            for entry in listing.entries {
                let name = file_name(&entry.path);
                listed.alike.extend(alike.get(&coarse(name)).cloned());
                if names.contains(name) {
                    listed.entries.insert(name.to_owned(), entry);
                }
            }
            if count > most {
                return listed;
            }
        }
        listed.is_complete = is_complete;
        listed
    }
}

/// The names of files that wait, as their directory lists them.
#[derive(Default)]
struct ListedNames {
    entries: HashMap<String, DirEntry>,
    /// The [coarse] forms of the listed names.
    alike: HashSet<String>,
    /// All names were listed.
    is_complete: bool,
}

impl ListedNames {
    /// Returns true if the directory lists this name under no spelling. Names that differ in their
    /// spelling only are tested before they are written.
    fn lacks(&self, name: &str) -> bool {
        self.is_complete && !self.alike.contains(&coarse(name))
    }
}

#[cfg(test)]
mod tests;
