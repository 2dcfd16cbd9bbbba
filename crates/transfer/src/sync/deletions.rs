//! Names that only the destination has, and their deletion.
//!
//! A listing can be wrong without an error: a disk that is not mounted is an empty directory, and a
//! source that changes while it is listed shows a file in neither place. So before the first
//! deletion the directories of the names are listed again in the source. Where the source may have
//! names that it does not show, nothing is deleted.
//!
//! A server may list a link to a directory as the directory. So before anything in a directory is
//! deleted, a removal of the directory itself is attempted, which shows whether it is a link
//! ([`Storage::remove_directory`]): then the link is removed, and its target stays.
//!
//! [`Storage::remove_directory`]: hither_core::Storage::remove_directory

use crate::compare::tree_pair::TreePair;
use crate::destination::CopyPath;
use crate::summary::CopyFailure;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use hither_core::error::Failure;
use hither_core::storage::{DirectoryRemoval, MAX_LISTINGS, file_name, parent};
use hither_core::{Error, ErrorKind, Result};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tracing::debug;

/// Names to be deleted.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    files: Vec<String>,
    directories: BTreeSet<String>,
    /// Directories that contain names to be kept.
    kept: BTreeSet<String>,
    most: usize,
    /// Names found, those beyond `most` included.
    found: usize,
    /// The reason why the source may have such names without showing them.
    hidden: Option<String>,
}

/// Result of the deletions.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) notices: Vec<String>,
    pub(crate) failures: Vec<CopyFailure>,
}

impl Deletions {
    /// At most `most` names; of more, only the number is kept.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub(crate) fn add_file(&mut self, path: String) {
        self.found += 1;
        if self.found <= self.most {
            self.files.push(path);
        }
    }

    pub(crate) fn add_directory(&mut self, path: String) {
        self.found += 1;
        if self.found <= self.most {
            self.directories.insert(path);
        }
    }

    /// Records that the name at `path` is kept, and with it its parent directories.
    pub(crate) fn keep(&mut self, path: &str) {
        let mut directory = parent(path);
        // Of too many names, none is deleted.
        while !directory.is_empty() && self.found <= self.most {
            if !self.kept.insert(directory.to_owned()) {
                return;
            }
            directory = parent(directory);
        }
    }

    /// Deletes nothing, because the source may have names that it does not show for this reason.
    pub(crate) fn refuse(&mut self, why: String) {
        self.hidden.get_or_insert(why);
    }

    /// Number of files to be deleted.
    pub(crate) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Number of directories to be deleted.
    pub(crate) fn directories(&self) -> u64 {
        self.directories.difference(&self.kept).count() as u64
    }

    /// Names to be deleted, those beyond the most included.
    pub(crate) fn found(&self) -> usize {
        self.found
    }

    /// Fails if it is not certain that the source has none of the names.
    pub(crate) async fn check(&self, has_files: bool, pair: &TreePair) -> Result<()> {
        let refused = |kind, why: String| Err(Error::new(kind, format!("nothing deleted: {why}")));
        if !has_files {
            let why = format!(
                "{} has no file, as if it were not mounted: remove {} yourself",
                pair.source.name(),
                pair.target.name()
            );
            return refused(ErrorKind::Invalid, why);
        }
        if let Some(why) = &self.hidden {
            let what = format!("{why}: remove what is too many in {} yourself", pair.target.name());
            return refused(ErrorKind::Unsupported, what);
        }
        if self.found > self.most {
            let why = format!(
                "{} names are to be deleted, and the most are {}: raise --max-delete",
                self.found, self.most
            );
            return refused(ErrorKind::Invalid, why);
        }
        match self.appeared(pair).await {
            Ok(None) => Ok(()),
            Ok(Some(path)) => {
                let why = format!("{path} appeared in the source meanwhile: sync again");
                refused(ErrorKind::Changed, why)
            }
            Err(error) => Err(error.context("nothing deleted")),
        }
    }

    /// A name to be deleted that the source has meanwhile.
    async fn appeared(&self, pair: &TreePair) -> Result<Option<String>> {
        let mut by_parent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let names = self.files.iter().chain(&self.directories);
        // Contents are deleted with their directory.
        for path in names.filter(|path| !self.directories.contains(parent(path))) {
            by_parent.entry(parent(path)).or_default().push(path);
        }
        let mut waiting = by_parent.into_iter();
        let mut looks = FuturesUnordered::new();
        loop {
            while looks.len() < MAX_LISTINGS
                && let Some((directory, paths)) = waiting.next()
            {
                looks.push(look(pair, directory, paths));
            }
            match looks.next().await {
                None => return Ok(None),
                Some(Ok(None)) => {}
                Some(seen) => return seen,
            }
        }
    }

    /// Deletes the files, and then the empty directories, the innermost first. Directories that may
    /// have hidden contents are kept, and so are their parents.
    pub(crate) async fn run(mut self, target: &CopyPath) -> Removed {
        let mut removed = Removed::default();
        self.leave_links(target, &mut removed).await;
        removed.files += removed.remove(target, std::mem::take(&mut self.files)).await;
        let mut by_depth: BTreeMap<Reverse<usize>, Vec<String>> = BTreeMap::new();
        for path in std::mem::take(&mut self.directories) {
            by_depth.entry(Reverse(path.matches('/').count())).or_default().push(path);
        }
        let mut kept = 0;
        let mut why = None;
        for mut directories in by_depth.into_values() {
            directories.retain(|path| {
                let is_kept = self.kept.contains(path);
                if is_kept {
                    removed.notices.push(format!("{path}: kept, because not all in it may go"));
                }
                !is_kept
            });
            let before = removed.failures.len();
            removed.directories += removed.remove(target, directories).await;
            for CopyFailure { source, error } in
                removed.failures.extract_if(before.., may_hide_entries)
            {
                self.keep(&source);
                kept += 1;
                why.get_or_insert(error);
            }
        }
        if let Some(why) = why {
            removed.notices.push(format!("{kept} directories kept: {why}"));
        }
        removed
    }

    /// Excludes names behind links, and in directories that may be links. Removes those of the
    /// links that only the destination has.
    async fn leave_links(&mut self, target: &CopyPath, removed: &mut Removed) {
        let mut left = BTreeSet::new();
        for directories in self.entered().into_values() {
            let waiting = directories.into_iter().filter(|path| !is_below(path, &left));
            let waiting: Vec<(String, bool)> =
                waiting.map(|path| (path.clone(), self.may_go(&path))).collect();
            let tried = stream::iter(waiting).map(|(path, may_go)| async move {
                let result = target.storage.remove_directory(&target.below(&path).0, may_go).await;
                (path, result)
            });
            let mut tried = tried.buffer_unordered(MAX_LISTINGS);
            while let Some((path, result)) = tried.next().await {
                if matches!(result, Ok(DirectoryRemoval::NotEmpty)) {
                    continue;
                }
                self.leave(target, removed, &path, result).await;
                left.insert(path);
            }
        }
        self.files.retain(|path| !is_below(path, &left));
        self.directories.retain(|path| !left.contains(path) && !is_below(path, &left));
    }

    /// Returns true if the directory is to be deleted with all that is in it.
    fn may_go(&self, path: &str) -> bool {
        self.directories.contains(path) && !self.kept.contains(path)
    }

    /// The directories that deletions are in, and those to be deleted, by depth.
    fn entered(&self) -> BTreeMap<usize, BTreeSet<String>> {
        let mut entered: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        let parents = self.files.iter().map(|path| parent(path));
        for path in parents.chain(self.directories.iter().map(String::as_str)) {
            let mut path = path;
            while !path.is_empty()
                && entered.entry(path.matches('/').count()).or_default().insert(path.to_owned())
            {
                path = parent(path);
            }
        }
        entered
    }

    /// Ends the deletions in a directory that was removed, or is not a directory.
    async fn leave(
        &mut self,
        target: &CopyPath,
        removed: &mut Removed,
        path: &str,
        result: Result<DirectoryRemoval>,
    ) {
        let may_go = self.may_go(path);
        let result = match result {
            Ok(DirectoryRemoval::Link) if may_go => {
                let (_, result) = remove(target, path.to_owned()).await;
                result.map(|()| removed.files += 1)
            }
            Ok(DirectoryRemoval::Link) => {
                let notice = "is a link at the destination: nothing behind it was deleted";
                removed.notices.push(format!("{path}: {notice}"));
                Ok(())
            }
            // Another client has removed what was in it.
            Ok(_) if may_go => {
                removed.directories += 1;
                Ok(())
            }
            Ok(_) => target.storage.make_directory(&target.below(path).0).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result
            && error.kind() != ErrorKind::NotFound
        {
            self.keep(path);
            removed.failures.push(CopyFailure { source: path.to_owned(), error });
        }
    }
}

impl Removed {
    /// Removes names, several at a time, and returns how many.
    async fn remove(&mut self, target: &CopyPath, paths: Vec<String>) -> u64 {
        let removals = stream::iter(paths).map(|path| remove(target, path));
        let mut removals = removals.buffer_unordered(MAX_LISTINGS);
        let mut number = 0;
        while let Some((path, result)) = removals.next().await {
            match result {
                Ok(()) => {
                    debug!(path, "deleted");
                    number += 1;
                }
                // Another client has removed it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => self.failures.push(CopyFailure { source: path, error }),
            }
        }
        number
    }
}

/// Returns true for a directory that was not removed because its server may hide what is in it.
fn may_hide_entries(failure: &mut CopyFailure) -> bool {
    let error = &failure.error;
    error.kind() == ErrorKind::Unsupported && !matches!(error.failure(), Failure::Status { .. })
}

/// Returns true for a path below one of `directories`.
fn is_below(path: &str, directories: &BTreeSet<String>) -> bool {
    let above = std::iter::successors(Some(parent(path)), |above| Some(parent(above)));
    above.take_while(|above| !above.is_empty()).any(|above| directories.contains(above))
}

/// The first of `paths`, all in `directory`, that the source has.
async fn look(pair: &TreePair, directory: &str, mut paths: Vec<&str>) -> Result<Option<String>> {
    let listing = pair.source.storage.list(&pair.source.below(directory).0).await?;
    if !listing.is_complete() {
        let what = format!("the second listing of {directory:?} in the source is not complete");
        return Err(Error::new(ErrorKind::Changed, what));
    }
    paths.sort_unstable();
    let is_there = |name: &str| {
        let found = paths.binary_search_by(|path| file_name(path).cmp(name)).ok()?;
        paths.get(found).map(|path| (*path).to_owned())
    };
    Ok(listing.entries.iter().find_map(|entry| is_there(file_name(&entry.path))))
}

async fn remove(target: &CopyPath, path: String) -> (String, Result<()>) {
    let result = target.storage.remove(&target.below(&path).0).await;
    (path, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_names_that_stay_are_kept() {
        let mut deletions = Deletions::new(10);
        for path in ["a", "a/b", "a/b/c", "d"] {
            deletions.add_directory(path.to_owned());
        }
        deletions.keep("a/b/x");
        assert_eq!(deletions.directories(), 2);
        assert!(deletions.kept.contains("a") && !deletions.kept.contains("a/b/c"));
    }

    #[test]
    fn directories_that_stay_are_known_however_few_may_go() {
        let mut deletions = Deletions::new(2);
        deletions.add_directory("of/the/source/gone".to_owned());
        deletions.add_directory("of/another/gone".to_owned());
        for path in ["of/the/source/gone/x", "of/another/gone/x"] {
            deletions.keep(path);
        }
        assert_eq!((deletions.directories(), deletions.found()), (0, 2));
    }

    #[test]
    fn names_beyond_the_most_are_only_counted() {
        let mut deletions = Deletions::new(2);
        for number in 0..5 {
            deletions.add_file(number.to_string());
        }
        assert_eq!((deletions.files.len(), deletions.found), (2, 5));
    }
}
