//! A concurrent walk through two trees.
//!
//! A directory is listed in both trees at the same time, and the two lists, which are in the order
//! of names, are merged. Findings go to a bounded channel: where its reader is slow, listing waits.
//! So the memory is that of a [`DirectoryWalk`].

mod alike;
mod listings;
#[cfg(test)]
mod tests;

use crate::compare::tree_pair::listings::{list, merge, take_missing};
use crate::copy::target_directory::TargetDirectory;
use crate::copy::walk::{linked_file, unnamed};
use crate::destination::{CopyPath, Target};
use crate::filter::Filter;
use hither_core::storage::{DirectoryWalk, check_level, file_name, is_partial, join};
use hither_core::{DirEntry, Error, ErrorKind, FileKind, Result};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Two trees.
#[derive(Debug)]
pub(crate) struct TreePair {
    pub(crate) source: CopyPath,
    pub(crate) target: CopyPath,
    /// There is a directory at the target.
    pub(crate) has_target: bool,
    /// True if a file may be made at the target to find out which names it takes for one.
    pub(crate) may_probe: bool,
}

/// One of two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Target,
}

/// A name in one of the trees or in both.
#[derive(Debug)]
pub(crate) struct FoundName {
    /// The path from the roots.
    pub(crate) path: String,
    pub(crate) what: Found,
    /// The directory that it is in, and for a directory itself, at the target.
    pub(crate) directory: Arc<TargetDirectory>,
}

/// Kinds of names.
#[derive(Debug)]
pub(crate) enum Found {
    /// A file in both.
    Both(DirEntry, DirEntry),
    /// A file, or at the target a link, in one tree only.
    File(Side, DirEntry),
    /// A directory in one tree only.
    Directory(Side),
    /// A file in one and a directory in the other, or such: the error says which.
    Conflict(Error),
    /// An excluded name (by the filter, or of a partial file), in a directory that only the target
    /// has.
    Kept,
    /// Neither a file nor a directory; the reason why it is skipped.
    LeftOut(&'static str),
    /// A directory that could not be listed, or a name that could not be looked at.
    Unknown(Error),
    /// The source may have names in this directory that it does not show, for this reason.
    Hidden(&'static str),
}

/// A directory in one of the trees or in both.
struct Folder {
    path: String,
    in_source: bool,
    in_target: bool,
    directory: Arc<TargetDirectory>,
}

/// The entry of one tree under a name.
enum Entry {
    Nothing,
    File(DirEntry),
    Directory,
    /// Its name is not UTF-8.
    Unnamed,
    Other(&'static str),
}

impl TreePair {
    /// Looks at both roots.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if one is not a directory, or one is within the other;
    /// [`ErrorKind::NotFound`] if there is no source.
    pub(crate) async fn open(source: CopyPath, target: CopyPath) -> Result<Self> {
        let is_directory = |entry: DirEntry, place: &CopyPath| match entry.kind {
            FileKind::Directory => Ok(true),
            _ => {
                let what = format!("{} is a file, expected a directory", place.name());
                Err(Error::new(ErrorKind::Invalid, what))
            }
        };
        is_directory(source.storage.stat_named(&source.path).await?, &source)?;
        let has_target = match target.storage.stat_named(&target.path).await {
            Ok(entry) => is_directory(entry, &target)?,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        refuse_overlap(&source, &target)?;
        Ok(Self { source, target, has_target, may_probe: false })
    }

    /// Lists both trees, and sends what is found. Ends early when the receiver is dropped.
    pub(crate) async fn walk(&self, filter: &Filter, found: mpsc::Sender<FoundName>) {
        let directory = if self.has_target {
            TargetDirectory::existing(self.target.target())
        } else {
            TargetDirectory::first(self.target.target(), true)
        };
        let root =
            Folder { path: String::new(), in_source: true, in_target: self.has_target, directory };
        let compare = |folder| self.compare_folder(folder, filter, &found);
        let mut directories = DirectoryWalk::new(vec![root], compare);
        while let Some(folders) = directories.next().await
            && !found.is_closed()
        {
            directories.add(folders);
        }
    }

    /// Compares the names of a directory, and returns the directories in it.
    async fn compare_folder(
        &self,
        folder: Folder,
        filter: &Filter,
        found: &mpsc::Sender<FoundName>,
    ) -> Vec<Folder> {
        let mut folders = Vec::new();
        let source = list(&self.source, folder.in_source, &folder.path);
        let target = list(&self.target, folder.in_target, &folder.path);
        let mut missing = Vec::new();
        let merged = match futures_util::join!(source, target) {
            (Ok(mut source), Ok(mut target)) => {
                missing = take_missing(&folder.path, filter, &mut source, &mut target);
                merge(source.entries, target.entries)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let mut merged = merged.unwrap_or_else(|error| {
            missing.push((folder.path.clone(), Found::Unknown(error)));
            Vec::new()
        });
        missing.extend(self.settle_alike(&folder, filter, &mut merged).await);
        for (path, what) in missing {
            let directory = Arc::clone(&folder.directory);
            // It fails when the receiver is dropped, which the caller notices.
            drop(found.send(FoundName { path, what, directory }).await);
        }
        for (name, source, target) in merged {
            let path = join(&folder.path, &name);
            let compared = if is_included(filter, &path, source.as_ref(), target.as_ref()) {
                self.compare_name(&folder, &path, source, target).await
            } else if folder.in_source {
                continue;
            } else {
                Ok((Some(Found::Kept), None))
            };
            let (what, inner) =
                compared.unwrap_or_else(|error| (Some(Found::Unknown(error)), None));
            if let Some(what) = what {
                let directory = inner.as_ref().map_or(&folder.directory, |inner| &inner.directory);
                let directory = Arc::clone(directory);
                drop(found.send(FoundName { path, what, directory }).await);
            }
            folders.extend(inner);
        }
        folders
    }

    /// Classifies a name, and returns the directory to walk into if it is one.
    async fn compare_name(
        &self,
        folder: &Folder,
        path: &str,
        source: Option<DirEntry>,
        target: Option<DirEntry>,
    ) -> Result<(Option<Found>, Option<Folder>)> {
        let (source, target) = self.classify(source, target).await?;
        let what = match (&source, &target) {
            (Entry::Directory, Entry::Directory) => None,
            (Entry::Directory, Entry::Nothing) => Some(Found::Directory(Side::Source)),
            (Entry::Nothing, Entry::Directory) => Some(Found::Directory(Side::Target)),
            _ => return Ok((Some(found_file(path, source, target)), None)),
        };
        let in_source = !matches!(what, Some(Found::Directory(Side::Target)));
        let in_target = !matches!(what, Some(Found::Directory(Side::Source)));
        let directory = self.directory(folder, path, in_target)?;
        let path = path.to_owned();
        Ok((what, Some(Folder { path, in_source, in_target, directory })))
    }

    fn directory(
        &self,
        folder: &Folder,
        path: &str,
        in_target: bool,
    ) -> Result<Arc<TargetDirectory>> {
        check_level(path.split('/').count()).map_err(|error| error.context(path))?;
        let target = folder.directory.target.join(file_name(path))?;
        if in_target {
            return Ok(TargetDirectory::existing(target));
        }
        Ok(TargetDirectory::below(&folder.directory, target))
    }

    /// Returns the entries of both trees under a name: links to files are files.
    async fn classify(
        &self,
        source: Option<DirEntry>,
        target: Option<DirEntry>,
    ) -> Result<(Entry, Entry)> {
        let alone = source.is_none();
        let source = match source {
            Some(link) if link.kind == FileKind::Link => linked(&self.source, &link).await?,
            other => Entry::of(other),
        };
        let target = match target {
            // Without a file in the source, the link itself is the difference.
            Some(link) if link.kind == FileKind::Link && alone => Entry::File(link),
            Some(link) if link.kind == FileKind::Link => linked(&self.target, &link).await?,
            other => Entry::of(other),
        };
        Ok((source, target))
    }
}

/// Returns true if a name is compared: the filter includes it, and it is not a partial file.
fn is_included(
    filter: &Filter,
    path: &str,
    source: Option<&DirEntry>,
    target: Option<&DirEntry>,
) -> bool {
    let is_directory =
        source.into_iter().chain(target).any(|entry| entry.kind == FileKind::Directory);
    let included =
        if is_directory { filter.includes_directory(path) } else { filter.includes_file(path) };
    included && !is_partial(path)
}

impl Entry {
    fn of(entry: Option<DirEntry>) -> Self {
        let Some(entry) = entry else { return Self::Nothing };
        match entry.kind {
            FileKind::File => Self::File(entry),
            FileKind::Directory => Self::Directory,
            FileKind::Unnamed => Self::Unnamed,
            FileKind::Link | FileKind::Other => Self::Other("neither a file nor a directory"),
        }
    }
}

/// The kind of a name that is not a directory in both trees.
fn found_file(path: &str, source: Entry, target: Entry) -> Found {
    let conflict = |source: &str, target: &str| {
        let what = format!(
            "{path} is {source} in the source and {target} at the destination: remove one of them"
        );
        Found::Conflict(Error::new(ErrorKind::AlreadyExists, what))
    };
    match (source, target) {
        (Entry::File(source), Entry::File(target)) => Found::Both(source, target),
        (Entry::File(source), Entry::Nothing) => Found::File(Side::Source, source),
        (Entry::Nothing, Entry::File(target)) => Found::File(Side::Target, target),
        (Entry::File(_), Entry::Directory) => conflict("a file", "a directory"),
        (Entry::Unnamed, _) => Found::Unknown(unnamed(path)),
        (Entry::File(_), Entry::Other(_) | Entry::Unnamed) => conflict("a file", "something else"),
        (Entry::Directory, Entry::File(_) | Entry::Other(_) | Entry::Unnamed) => {
            conflict("a directory", "something else")
        }
        (Entry::Other(why), _) => Found::LeftOut(why),
        (Entry::Nothing, _) | (Entry::Directory, _) => Found::Kept,
    }
}

/// The file that a link leads to.
async fn linked(tree: &CopyPath, link: &DirEntry) -> Result<Entry> {
    let file = linked_file(&*tree.storage, link).await?;
    Ok(file.map_or_else(Entry::Other, Entry::File))
}

/// Trees within each other have no end, and deleting in one would delete in the other.
fn refuse_overlap(source: &CopyPath, target: &CopyPath) -> Result<()> {
    let overlap = match (source.target(), target.target()) {
        (Target::Local(from), Target::Local(to)) => {
            let whole = |path: &std::path::Path| {
                let there = path.ancestors().find_map(|there| {
                    let rest = path.strip_prefix(there).ok()?;
                    Some(std::fs::canonicalize(there).ok()?.join(rest))
                });
                there.unwrap_or_else(|| path.to_owned())
            };
            let from = whole(&from);
            let to = whole(&to);
            from.starts_with(&to) || to.starts_with(&from)
        }
        (Target::Remote(a, from), Target::Remote(b, to)) => {
            let [from, to] = [(a, from), (b, to)].map(|(it, path)| format!("{}/{path}", it.name()));
            // Most servers take two slashes for one.
            let names = |url: &str| -> Vec<String> {
                url.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
            };
            let from = names(&from);
            let to = names(&to);
            from.starts_with(&to) || to.starts_with(&from)
        }
        _ => false,
    };
    if overlap {
        let what = format!("{} and {} overlap: name separate trees", source.name(), target.name());
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}
