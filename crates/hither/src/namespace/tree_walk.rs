//! A walk through a tree: every name below a directory, as it is found.
//!
//! A server with streams of trees lists everything in one request; a walk that breaks off continues
//! after the last name. On other servers several directories are listed at the same time. In both
//! cases memory does not grow with the number of files. A directory that fails does not end the
//! walk.

use crate::client::Client;
use crate::client::storage_path::StoragePath;
use hither_core::error::{Error, Result};
use hither_core::storage::{
    DirEntry, DirectoryWalk, FileKind, Listing, Storage, TreeEvent, check_level, join,
};
use hither_transfer::{Filter, ResumedWalk};
use hither_transport::MonotonicClock;

/// The part of a tree that a walk visits.
#[derive(Debug, Default)]
pub struct WalkOptions {
    /// The deepest level; names in the directory itself are at level 1. All by default.
    pub max_levels: Option<usize>,
    /// Files, and the directories to descend into, by their paths below the root. All by default.
    pub filter: Filter,
}

/// An event of a walk.
#[derive(Debug)]
pub enum WalkEvent {
    /// A name, with its path from the root of the storage, and its level below the root of the
    /// walk, which is itself at level 0.
    Entry(DirEntry, usize),
    /// A name that is skipped: its path and the reason.
    LeftOut(String, String),
    /// A path that failed.
    Failed(String, Error),
}

impl Client {
    /// Passes the entry at `root` and all entries below it to `take`, in no order. Directories are
    /// passed even if the filter excludes them, if their parent is included.
    ///
    /// # Errors
    ///
    /// If `root` has no metadata or cannot be listed; the errors of `take`, which end the walk.
    pub async fn walk(
        &self,
        root: &StoragePath,
        options: &WalkOptions,
        take: impl FnMut(WalkEvent) -> Result<()> + Send,
    ) -> Result<()> {
        let storage = &*root.storage;
        let mut walk = TreeWalk { storage, root: &root.path, options, take };
        let entry = storage.stat(&root.path).await?;
        let is_directory = entry.kind == FileKind::Directory;
        (walk.take)(WalkEvent::Entry(entry, 0))?;
        if !is_directory || options.max_levels == Some(0) {
            return Ok(());
        }
        // A stream contains everything: excluded names would arrive, too.
        let is_whole = options.max_levels.is_none() && options.filter.is_empty();
        if is_whole && storage.has_trees() {
            let policy = self.config().reader.retry;
            let clock = MonotonicClock::start();
            let stream = ResumedWalk::begin(storage, &root.path, &policy, &clock).await?;
            if let Some(stream) = stream {
                return walk.follow(stream).await;
            }
        }
        walk.list().await
    }
}

struct TreeWalk<'a, F> {
    storage: &'a dyn Storage,
    /// The path of the tree.
    root: &'a str,
    options: &'a WalkOptions,
    take: F,
}

impl<F: FnMut(WalkEvent) -> Result<()> + Send> TreeWalk<'_, F> {
    /// Takes the events of a stream.
    async fn follow(&mut self, mut stream: ResumedWalk<'_>) -> Result<()> {
        loop {
            let events = stream.next().await?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                let event = match event {
                    TreeEvent::Directory(path) => {
                        let path = join(self.root, &path);
                        self.entry(DirEntry::new(path, FileKind::Directory, 0))
                    }
                    TreeEvent::File(file) | TreeEvent::Content(file, _) => self.entry(file.entry),
                    TreeEvent::Failed(path, error) => {
                        WalkEvent::Failed(join(self.root, &path), error)
                    }
                    TreeEvent::LeftOut(path, why) => {
                        WalkEvent::LeftOut(join(self.root, &path), why)
                    }
                };
                (self.take)(event)?;
            }
        }
    }

    /// Walks by listings.
    async fn list(&mut self) -> Result<()> {
        let storage = self.storage;
        let root = vec![(self.root.to_owned(), 0)];
        let mut directories = DirectoryWalk::new(root, async |(path, level): (String, usize)| {
            (storage.list(&path).await, path, level)
        });
        while let Some(listed) = directories.next().await {
            match listed {
                (Err(error), _, 0) => return Err(error),
                (Err(error), path, _) => (self.take)(WalkEvent::Failed(path, error))?,
                (Ok(listing), path, level) => {
                    self.tell_missing(&listing, &path)?;
                    for entry in listing.entries {
                        if self.descends(&entry, level + 1)? {
                            directories.add([(entry.path.clone(), level + 1)]);
                        }
                        if self.includes(&entry) {
                            let event = self.entry(entry);
                            (self.take)(event)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Reports the gaps of a listing of the directory at `path`.
    fn tell_missing(&mut self, listing: &Listing, path: &str) -> Result<()> {
        for (name, error) in &listing.failed {
            (self.take)(WalkEvent::Failed(name.clone(), error.clone()))?;
        }
        for gap in &listing.gaps {
            (self.take)(WalkEvent::Failed(path.to_owned(), gap.clone()))?;
        }
        match listing.hidden.filter(|_| path == self.root) {
            Some(why) => (self.take)(WalkEvent::LeftOut(path.to_owned(), why.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns true if a directory at this level is to be listed.
    fn descends(&mut self, entry: &DirEntry, level: usize) -> Result<bool> {
        let WalkOptions { max_levels, filter } = self.options;
        let named = entry.check_reachable();
        let is_excluded = (entry.kind != FileKind::Directory && named.is_ok())
            || max_levels.is_some_and(|most| level >= most)
            || !filter.includes_directory(self.relative(entry));
        if is_excluded {
            return Ok(false);
        }
        let Err(error) = named.and_then(|()| check_level(level)) else { return Ok(true) };
        (self.take)(WalkEvent::Failed(entry.path.clone(), error))?;
        Ok(false)
    }

    fn includes(&self, entry: &DirEntry) -> bool {
        entry.kind == FileKind::Directory || self.options.filter.includes_file(self.relative(entry))
    }

    fn entry(&self, entry: DirEntry) -> WalkEvent {
        let level = self.relative(&entry).split('/').count();
        WalkEvent::Entry(entry, level)
    }

    /// The path of an entry below the root of the walk.
    fn relative<'e>(&self, entry: &'e DirEntry) -> &'e str {
        entry.path.strip_prefix(self.root).unwrap_or(&entry.path).trim_start_matches('/')
    }
}
