//! Steps before anything moves: the name of the job, the kind of its destination, and its sources.

use crate::copy::archive::LINK_AS_FILE;
use crate::copy::context::CopyContext;
use crate::copy::target_directory::create_directory;
use crate::copy::walk;
use crate::destination::folding::{FoldingCache, clash, coarse};
use crate::destination::{CopyPath, Destination, Target};
use crate::file::item::CopyItem;
use crate::file::target::partial_file;
use crate::tree;
use hither_core::{DirEntry, Error, ErrorKind, FileKind, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The text that identifies a job: the same command has the same text.
pub(crate) fn job_name(sources: &[CopyPath], destination: &Destination) -> String {
    let mut names: Vec<_> = sources
        .iter()
        .map(|source| format!("{}{}", source.name(), if source.contents { "/." } else { "" }))
        .collect();
    names.push(destination.name());
    names.join("\n")
}

/// Fails if two of several sources would become one in a directory, which is there, also because
/// it ignores the difference of their names.
///
/// # Errors
///
/// [`ErrorKind::Invalid`], with both names; errors of the storage that is asked.
pub async fn refuse_clashes(sources: &[CopyPath], directory: CopyPath) -> Result<()> {
    let destination = Destination::Path(directory);
    refuse_shared_targets(sources, &destination)?;
    refuse_alike_targets(sources, &destination).await
}

/// Fails if two sources would become one target.
pub(crate) fn refuse_shared_targets(sources: &[CopyPath], destination: &Destination) -> Result<()> {
    if sources.len() < 2 || !matches!(destination, Destination::Path(_)) {
        return Ok(());
    }
    let mut taken = HashMap::new();
    for source in sources {
        let target = destination.target(source, true)?.name();
        if let Some(other) = taken.insert(target.clone(), source.name()) {
            let what = format!(
                "{other} and {} would both become {target}: name separate directories",
                source.name()
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
    }
    Ok(())
}

/// Fails if two sources would become one target in a destination that exists and ignores a
/// difference of their names.
pub(crate) async fn refuse_alike_targets(
    sources: &[CopyPath],
    destination: &Destination,
) -> Result<()> {
    let Destination::Path(place) = destination else { return Ok(()) };
    let target = place.target();
    let mut cache = FoldingCache::default();
    let names = sources.iter().filter(|source| !source.contents).filter_map(CopyPath::last_name);
    let mut seen: HashMap<String, Vec<&str>> = HashMap::new();
    for name in names {
        let alike = seen.entry(coarse(name)).or_default();
        for other in &*alike {
            if cache.is_one(name, other, &target).await? {
                return Err(clash(name, other, &target));
            }
        }
        alike.push(name);
    }
    Ok(())
}

/// Returns true if the destination is a directory that takes the sources in. It is made if it is
/// meant as one. `may_be_tree` is true if a directory may be copied: one that the server knows only
/// by a URL with a slash must not be taken for the copy of it.
pub(crate) async fn goes_into(
    destination: &Destination,
    several: bool,
    may_be_tree: bool,
) -> Result<bool> {
    let Destination::Path(place) = destination else { return Ok(false) };
    let kind = match &place.local {
        Some(path) => match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Some(FileKind::Directory),
            Ok(_) => Some(FileKind::File),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(partial_file::failed("cannot look at", path, error)),
        },
        None => match look_at(place, several || may_be_tree).await {
            Ok(entry) => Some(entry.kind),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            // A server that cannot answer may still accept files.
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
        },
    };
    match kind {
        Some(FileKind::Directory) => Ok(true),
        Some(_) if several || place.is_directory => Err(Error::new(
            ErrorKind::Invalid,
            format!("{} is a file, expected a directory to copy into", place.name()),
        )),
        Some(_) => Ok(false),
        None if several || place.is_directory => {
            create_directory(&destination_target(place), true).await?;
            Ok(true)
        }
        None => Ok(false),
    }
}

/// The entry of a destination, which is likely to be a directory or not.
async fn look_at(place: &CopyPath, is_likely_directory: bool) -> Result<DirEntry> {
    if is_likely_directory {
        return place.storage.stat_named(&place.path).await;
    }
    place.storage.stat(&place.path).await
}

fn destination_target(place: &CopyPath) -> Target {
    match &place.local {
        Some(path) => Target::Local(path.clone()),
        None => Target::Remote(Arc::clone(&place.storage), place.path.clone()),
    }
}

/// Finds out what a source is, and queues it or walks through it.
pub(crate) async fn begin(
    shared: &Arc<CopyContext>,
    source: CopyPath,
    target: Target,
) -> Result<()> {
    if let (Some(link), true) =
        (&source.local, shared.resources.options.archive && !source.is_directory)
        && link.is_symlink()
    {
        match &target {
            Target::Local(path) => return shared.copy_link(link, path),
            Target::Remote(..) => {
                shared.results().note(format!("{}: {LINK_AS_FILE}", link.display()))
            }
            Target::Output | Target::Discard => {}
        }
    }
    let kind = match look(shared, &source, &target).await {
        // The URL of a tree ends with a slash, and some servers find no file by that name.
        Err(error) if error.kind() == ErrorKind::NotFound && may_be_file(shared, &source) => {
            match source.storage.stat(&source.path).await {
                Ok(entry) if entry.kind == FileKind::File => SourceKind::File(Some(entry)),
                _ => return Err(error),
            }
        }
        kind => kind?,
    };
    let SourceKind::File(entry) = kind else { return Ok(()) };
    shared.found(CopyItem::new(source, entry, target)).await;
    Ok(())
}

/// The kind of a source.
enum SourceKind {
    /// A directory, which was walked through.
    Walked,
    /// A file, with its metadata if they were requested.
    File(Option<DirEntry>),
}

/// Returns true if a source that is copied as a tree may be a file.
fn may_be_file(shared: &CopyContext, source: &CopyPath) -> bool {
    shared.resources.options.recursive && source.local.is_none() && !source.is_directory
}

/// Finds out what a source is, and walks through a directory.
async fn look(shared: &Arc<CopyContext>, source: &CopyPath, target: &Target) -> Result<SourceKind> {
    if shared.resources.options.recursive && source.storage.has_trees() {
        // The response shows whether it is a directory, too.
        match tree::walk(shared, source, target).await? {
            tree::WalkResult::Done => return Ok(SourceKind::Walked),
            tree::WalkResult::Unsupported => {}
        }
    }
    let is_tree = shared.resources.options.recursive && source.local.is_none();
    // A bucket is not a source of bytes.
    if is_tree && let Ok(bytes) = source.storage.source(&source.path) {
        bytes.expect_small_files();
    }
    let kind = if is_tree {
        source.storage.stat_directory(&source.path).await
    } else if source.local.is_some() || source.is_directory {
        source.storage.stat(&source.path).await.map(Some)
    } else {
        Ok(None)
    };
    let entry = match kind {
        Ok(None) if is_tree => match walk::walk(shared, source.clone(), target.clone()).await {
            // It is a file.
            Err(error) if error.kind() == ErrorKind::Invalid => {
                Some(source.storage.stat(&source.path).await?)
            }
            walked => return walked.map(|()| SourceKind::Walked),
        },
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        Err(error) => return Err(error),
    };
    if entry.as_ref().is_none_or(|entry| entry.kind != FileKind::Directory) {
        return Ok(SourceKind::File(entry));
    }
    if !shared.resources.options.recursive {
        let message = format!("{} is a directory: copy it with -r", source.name());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    match tree::walk(shared, source, target).await? {
        tree::WalkResult::Done => {}
        tree::WalkResult::Unsupported => {
            walk::walk(shared, source.clone(), target.clone()).await?;
        }
    }
    Ok(SourceKind::Walked)
}

#[cfg(test)]
mod tests;
