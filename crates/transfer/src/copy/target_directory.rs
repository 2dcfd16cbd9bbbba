//! A directory at the target. It is made when the first name in it is written, and listed when
//! several files ask for their existing targets.

use crate::copy::resources::results::CopyResults;
use crate::destination::Target;
use crate::file::target::partial_file;
use futures_util::StreamExt;
use hither_core::storage::{file_name, parent};
use hither_core::{DirEntry, Error, ErrorKind, Listing, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OnceCell;

/// Files whose entries are requested one by one: a listing costs more than a few requests.
const MAX_SINGLE_REQUESTS: usize = 2;
/// The largest number of names of a directory that are kept, some 200 bytes each. Where there are
/// more, entries are requested one by one.
const MAX_NAMES: usize = 20_000;

/// A directory at the target. It and its parent may have to be made.
#[derive(Debug)]
pub(crate) struct TargetDirectory {
    pub(crate) target: Target,
    /// Its parent directory; none for the first.
    parent: Option<Arc<Self>>,
    /// It may be a symbolic link to a directory of this machine: the user has named it.
    follows_link: bool,
    made: OnceCell<()>,
    single_requests: AtomicUsize,
    /// Its entries by name, once they were requested; none if it cannot be listed.
    listed: OnceCell<Option<HashMap<String, DirEntry>>>,
}

impl TargetDirectory {
    /// The first directory of a tree, which may have to be made. It may be a symbolic link to one
    /// if `follows_link`.
    pub(crate) fn first(target: Target, follows_link: bool) -> Arc<Self> {
        Arc::new(Self { follows_link, ..Self::with(target, None, OnceCell::new()) })
    }

    /// A directory below `parent` that may have to be made.
    pub(crate) fn below(parent: &Arc<Self>, target: Target) -> Arc<Self> {
        Arc::new(Self::with(target, Some(Arc::clone(parent)), OnceCell::new()))
    }

    /// A directory that exists.
    pub(crate) fn existing(target: Target) -> Arc<Self> {
        Arc::new(Self::with(target, None, OnceCell::new_with(Some(()))))
    }

    fn with(target: Target, parent: Option<Arc<Self>>, made: OnceCell<()>) -> Self {
        let single_requests = AtomicUsize::new(0);
        let listed = OnceCell::new();
        Self { target, parent, follows_link: false, made, single_requests, listed }
    }

    /// Returns true if the directory is there.
    pub(crate) fn is_made(&self) -> bool {
        self.made.initialized()
    }

    /// Makes the directory and its parents, unless that is done.
    pub(crate) async fn make(&self, results: &CopyResults) -> Result<()> {
        let chain = std::iter::successors(Some(self), |directory| directory.parent.as_deref());
        let chain: Vec<_> = chain.take_while(|directory| !directory.is_made()).collect();
        for directory in chain.into_iter().rev() {
            directory.made.get_or_try_init(|| directory.make_this(results)).await?;
        }
        Ok(())
    }

    async fn make_this(&self, results: &CopyResults) -> Result<()> {
        match &self.parent {
            Some(_) => make_subdirectory(results, &self.target).await,
            None => make_directory(results, &self.target, self.follows_link).await,
        }
    }

    /// This directory, or the nearest parent that is known to exist.
    pub(crate) fn nearest(&self) -> &Target {
        let mut nearest = self;
        while let (false, Some(parent)) = (nearest.is_made(), &nearest.parent) {
            nearest = parent;
        }
        &nearest.target
    }

    /// The entry of `path` in this directory, or that there is none, as far as its listing shows.
    /// Returns none if the entry of the file has to be requested by itself.
    pub(crate) async fn listed(&self, path: &str) -> Option<Option<DirEntry>> {
        if self.single_requests.fetch_add(1, Ordering::Relaxed) < MAX_SINGLE_REQUESTS {
            return None;
        }
        let listed = self.listed.get_or_init(|| self.list()).await.as_ref()?;
        Some(listed.get(file_name(path)).cloned())
    }

    async fn list(&self) -> Option<HashMap<String, DirEntry>> {
        let Target::Remote(storage, path) = &self.target else { return None };
        let mut listed = HashMap::new();
        let mut batches = storage.list_batches(path);
        while let Some(listing) = batches.next().await {
            // Errors show when the entry of a file is requested by itself.
            let listing = listing.ok().filter(Listing::is_complete)?;
            let entries = listing.entries.into_iter();
            listed.extend(entries.map(|it| (file_name(&it.path).to_owned(), it)));
            if listed.len() > MAX_NAMES {
                return None;
            }
        }
        Some(listed)
    }
}

/// The directories of the target, by their paths below it.
pub(crate) struct Directories(HashMap<String, Arc<TargetDirectory>>);

impl Directories {
    pub(crate) fn new(target: Target) -> Self {
        Self(HashMap::from([(String::new(), TargetDirectory::existing(target))]))
    }

    pub(crate) fn of(&mut self, relative: &str) -> Result<Arc<TargetDirectory>> {
        if let Some(known) = self.0.get(relative) {
            return Ok(Arc::clone(known));
        }
        let above = self.of(parent(relative))?;
        let target = above.target.join(file_name(relative))?;
        let directory = TargetDirectory::below(&above, target);
        self.0.insert(relative.to_owned(), Arc::clone(&directory));
        Ok(directory)
    }
}

/// Makes a directory at the target if it is not there, and records that. One that the user has
/// named may be a symbolic link to a directory (`follows_link`).
pub(crate) async fn make_directory(
    results: &CopyResults,
    target: &Target,
    follows_link: bool,
) -> Result<()> {
    if create_directory(target, follows_link).await? {
        results.note_directory(target);
    }
    Ok(())
}

/// Makes a directory of a tree, below the first one, if it is not there, and records that.
pub(crate) async fn make_subdirectory(results: &CopyResults, target: &Target) -> Result<()> {
    make_directory(results, target, false).await?;
    // One that was there may be listed under another name.
    results.note_name(target, target.name(), None);
    Ok(())
}

/// Makes a directory if it is not there. Returns true if it was made. A symbolic link is an error
/// unless `follows_link`: files would be written to a directory elsewhere.
pub(crate) async fn create_directory(target: &Target, follows_link: bool) -> Result<bool> {
    match target {
        Target::Output | Target::Discard => Ok(false),
        Target::Local(path) => match std::fs::create_dir(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let is_link = std::fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
                if is_link && !follows_link {
                    let what = "is a symbolic link, expected a directory or nothing";
                    let message = format!("{} {what}", path.display());
                    return Err(Error::new(ErrorKind::AlreadyExists, message));
                }
                if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
                    return Ok(false);
                }
                Err(partial_file::failed("cannot make the directory", path, error))
            }
            Err(error) => Err(partial_file::failed("cannot make the directory", path, error)),
        },
        Target::Remote(storage, path) if path.is_empty() => {
            let _ = storage;
            Ok(false)
        }
        Target::Remote(storage, path) => match storage.make_directory(path).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            // Directories come with their files there, or a file will fail for the same reason.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        },
    }
}
