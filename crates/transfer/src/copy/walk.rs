//! A walk through a tree: makes its directories at the target, and queues its files.
//!
//! Several directories are listed at the same time, and files move while others are still being
//! listed: on a long path a tree that is listed directory by directory first costs a round trip for
//! each before a byte has moved. For the same reason the files of a directory are queued while its
//! listing still arrives. Where files wait for workers, listing waits too
//! ([`crate::copy::queue::MAX_FOUND`]), so a tree of any number of names takes the memory of a few
//! directories.
//!
//! A directory is made when its listing begins to arrive; with a filter, when the first file in it
//! is found, so that no directory stays empty. Where small files are sent in batches, the batches
//! make the directories ([`crate::tree`]).

use crate::copy::archive::{DirectoryAttributes, LINK_AS_FILE};
use crate::copy::context::CopyContext;
use crate::copy::target_directory::TargetDirectory;
use crate::destination::folding::SeenNames;
use crate::destination::{CopyPath, Target};
use crate::file::item::CopyItem;
use crate::tree::small_files::TreeRoot;
use futures_util::stream::StreamExt;
use hither_core::storage::{DirectoryWalk, TreeFile, check_level, file_name, is_partial};
use hither_core::sync::lock;
use hither_core::{DirEntry, Error, ErrorKind, FileKind, Listing, Result, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A directory to be copied.
struct Folder {
    path: String,
    local: Option<PathBuf>,
    directory: Arc<TargetDirectory>,
    /// The time of its last change, if its server states it.
    modified: Option<SystemTime>,
}

/// A tree that is walked through.
struct Walk<'a> {
    shared: &'a Arc<CopyContext>,
    storage: &'a Arc<dyn Storage>,
    /// The path of the tree, in which filters apply.
    root: &'a str,
    /// The directory of the target.
    top: &'a TargetDirectory,
    /// The tree, if its small files are copied in batches.
    tree: Option<Arc<TreeRoot>>,
}

/// Walks through `source` and all that is in it.
///
/// # Errors
///
/// If the directory itself cannot be made or listed. Failures further down are recorded, and
/// skipped.
pub(crate) async fn walk(
    shared: &Arc<CopyContext>,
    source: CopyPath,
    target: Target,
) -> Result<()> {
    refuse_nesting(&source, &target)?;
    let directory = TargetDirectory::first(target, source.contents);
    let is_upload = source.local.is_some() && matches!(directory.target, Target::Remote(..));
    if is_upload && shared.resources.options.filter.is_empty() {
        // The response says whether the server takes uploads in batches.
        directory.make(shared.results()).await?;
    }
    let tree = shared.tree_of_files(&source, &directory.target)?;
    let CopyPath { storage, path, local, .. } = source;
    let root = path.clone();
    let top = Arc::clone(&directory);
    let walk = Walk { shared, storage: &storage, root: &root, top: &top, tree };
    let folders = walk.list(&Folder { path, local, directory, modified: None }).await?;
    let mut directories = DirectoryWalk::new(folders, async |folder: Folder| {
        walk.list(&folder).await.map_err(|error| (walk.name(&folder), error))
    });
    while let Some(listed) = directories.next().await {
        match listed {
            Ok(folders) => directories.add(folders),
            Err((name, error)) => shared.results().failed(name, error),
        }
    }
    Ok(())
}

impl Walk<'_> {
    fn name(&self, folder: &Folder) -> String {
        match &folder.local {
            Some(path) => path.display().to_string(),
            None => format!("{}/{}", self.storage.name().trim_end_matches('/'), folder.path),
        }
    }

    /// The name of an entry of a directory, for messages.
    fn name_in(&self, folder: &Folder, entry: &DirEntry) -> String {
        format!("{}/{}", self.name(folder).trim_end_matches('/'), file_name(&entry.path))
    }

    /// Records the parts of a listing that are not copied: names that cannot be used, and gaps of
    /// the listing.
    fn tell_missing(&self, folder: &Folder, listing: &Listing) {
        let filter = &self.shared.resources.options.filter;
        for (path, error) in &listing.failed {
            let relative = relative_to(self.root, path);
            if filter.includes_file(relative) || filter.includes_directory(relative) {
                let name =
                    format!("{}/{}", self.name(folder).trim_end_matches('/'), file_name(path));
                self.shared.results().failed(name, error.clone());
            }
        }
        for gap in &listing.gaps {
            self.shared.results().failed(self.name(folder), gap.clone());
        }
        if let Some(hidden) = listing.hidden {
            self.shared.results().note_once(format!("{}: {hidden}", self.storage.name()));
        }
    }

    /// Records the permissions and the time that a directory of an archive gets at the end.
    fn note_attributes(&self, folder: &Folder) {
        if matches!(folder.directory.target, Target::Local(_))
            && self.shared.resources.options.archive
        {
            lock(&self.shared.attributes).push(DirectoryAttributes {
                directory: Arc::clone(&folder.directory),
                source: folder.local.clone(),
                modified: folder.modified,
            });
        }
    }

    /// Makes the directory, queues its files as they are listed, and returns the directories in it.
    async fn list(&self, folder: &Folder) -> Result<Vec<Folder>> {
        let is_filtered = !self.shared.resources.options.filter.is_empty();
        let uploads = self.tree.as_ref().filter(|tree| tree.is_sent());
        let make = async || {
            let is_wanted = !is_filtered && uploads.is_none();
            if is_wanted { folder.directory.make(self.shared.results()).await } else { Ok(()) }
        };
        let mut folders = Vec::new();
        let mut seen = SeenNames::default();
        let mut batches = self.storage.list_batches(&folder.path);
        while let Some(listing) = batches.next().await {
            let listing = listing?;
            make().await?;
            self.tell_missing(folder, &listing);
            for entry in listing.entries {
                folders.extend(self.take(folder, entry, &mut seen).await?);
            }
        }
        make().await?;
        self.note_attributes(folder);
        let relative = relative_to(self.root, &folder.path);
        if let Some(uploads) = uploads
            && folders.is_empty()
            && !is_filtered
            && !relative.is_empty()
        {
            self.shared.queue.found_small(uploads.directory(relative)).await;
        }
        Ok(folders)
    }

    /// The file that a link leads to; none if it leads nowhere, if the link was copied as a link,
    /// or if its target cannot be determined, which is a failure.
    async fn linked(
        &self,
        folder: &Folder,
        link: &DirEntry,
        local: Option<&Path>,
        target: &Target,
    ) -> Result<Option<DirEntry>> {
        let Self { shared, storage, root, .. } = self;
        if let (true, Some(source), Target::Local(path)) =
            (shared.resources.options.archive, local, target)
        {
            shared.resources.options.filter.met(relative_to(root, &link.path));
            folder.directory.make(shared.results()).await?;
            if let Err(error) = shared.copy_link(source, path) {
                shared.results().failed(self.name_in(folder, link), error);
            }
            return Ok(None);
        }
        let name = self.name_in(folder, link);
        match linked_file(&***storage, link).await {
            Ok(Ok(file)) => {
                if shared.resources.options.archive {
                    shared.results().note(format!("{name}: {LINK_AS_FILE}"));
                }
                return Ok(Some(file));
            }
            Ok(Err(why)) => shared.results().note(format!("{name}: {why}, left out")),
            Err(error) => shared.results().failed(name, error),
        }
        Ok(None)
    }

    /// Queues a file, or returns a directory.
    async fn take(
        &self,
        folder: &Folder,
        mut entry: DirEntry,
        seen: &mut SeenNames,
    ) -> Result<Option<Folder>> {
        let Self { shared, storage, root, .. } = self;
        let results = shared.results();
        let filter = &shared.resources.options.filter;
        let relative = relative_to(root, &entry.path);
        let is_excluded = match entry.kind {
            FileKind::Directory => !filter.includes_directory(relative),
            _ => !filter.includes_file(relative),
        };
        if is_excluded {
            return Ok(None);
        }
        if entry.kind == FileKind::Unnamed {
            let name = self.name_in(folder, &entry);
            let error = unnamed(&name);
            results.failed(name, error);
            return Ok(None);
        }
        if is_partial(&entry.path) {
            return Ok(None);
        }
        let last = file_name(&entry.path);
        if seen.add(last) {
            folder.directory.make(results).await?;
            let target = &folder.directory.target;
            if let Err(error) = seen.check(&***storage, &entry.path, target).await {
                results.failed(self.name_in(folder, &entry), error);
                return Ok(None);
            }
        }
        let target = match folder.directory.target.join(last) {
            Ok(target) => target,
            Err(error) => {
                results.failed(self.name(folder), error);
                return Ok(None);
            }
        };
        let local = folder.local.as_ref().map(|path| path.join(last));
        if entry.kind == FileKind::Link {
            match self.linked(folder, &entry, local.as_deref(), &target).await? {
                Some(file) => entry = file,
                None => return Ok(None),
            }
        }
        match entry.kind {
            FileKind::Link | FileKind::Other | FileKind::Unnamed => {
                let name = self.name_in(folder, &entry);
                results.note(format!("{name}: neither a file nor a directory, left out"));
            }
            FileKind::Directory => {
                let level = relative_to(root, &entry.path).split('/').count();
                if let Err(error) = check_level(level) {
                    results.failed(self.name_in(folder, &entry), error);
                    return Ok(None);
                }
                let directory = TargetDirectory::below(&folder.directory, target);
                let modified = entry.modified;
                return Ok(Some(Folder { path: entry.path, local, directory, modified }));
            }
            FileKind::File => self.found_file(folder, entry, local, target).await?,
        }
        Ok(None)
    }

    /// Queues a file, for a batch if it may be one of a batch.
    async fn found_file(
        &self,
        folder: &Folder,
        entry: DirEntry,
        local: Option<PathBuf>,
        target: Target,
    ) -> Result<()> {
        let Self { shared, storage, root, top, tree } = self;
        let relative = relative_to(root, &entry.path).to_owned();
        shared.resources.options.filter.met(&relative);
        let tree = tree.as_ref().filter(|tree| tree.takes(&entry));
        match tree {
            Some(tree) if tree.is_sent() => top.make(shared.results()).await?,
            _ => folder.directory.make(shared.results()).await?,
        }
        if let Some(tree) = tree {
            let file = TreeFile { relative, entry, mode: None };
            shared.found_small(tree, file).await;
        } else {
            let directory = Some(Arc::clone(&folder.directory));
            let item = CopyItem::listed(storage, entry, local, target);
            shared.found(CopyItem { directory, ..item }).await;
        }
        Ok(())
    }
}

/// The part of `path` below `root`.
pub(crate) fn relative_to<'a>(root: &str, path: &'a str) -> &'a str {
    path.strip_prefix(root).unwrap_or(path).trim_start_matches('/')
}

/// The file that a link leads to, or the reason why the link is left out.
pub(crate) async fn linked_file(
    storage: &dyn Storage,
    link: &DirEntry,
) -> Result<Result<DirEntry, &'static str>> {
    match storage.stat(&link.path).await {
        Ok(file) if file.kind == FileKind::File => Ok(Ok(file)),
        Ok(_) => Ok(Err("a link to something else than a file")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Err("broken link")),
        Err(error) => Err(error),
    }
}

/// The error of a file whose name is not UTF-8.
pub(crate) fn unnamed(name: &str) -> Error {
    let what = format!("{name} cannot be copied: its name is not UTF-8: rename it");
    Error::new(ErrorKind::Unsupported, what)
}

/// A directory that is copied into itself would never end.
fn refuse_nesting(source: &CopyPath, target: &Target) -> Result<()> {
    let (Some(from), Target::Local(to)) = (&source.local, target) else { return Ok(()) };
    let absolute = |path: &PathBuf| std::fs::canonicalize(path).ok();
    // The target itself may not exist yet; its parent must.
    let into = absolute(to).or_else(|| {
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("."), PathBuf::from);
        Some(absolute(&folder)?.join(to.file_name()?))
    });
    match (absolute(from), into) {
        (Some(from), Some(into)) if into.starts_with(&from) => Err(Error::new(
            ErrorKind::Invalid,
            format!("{} cannot be copied into itself ({})", from.display(), into.display()),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
