//! Through a tree of directories: makes them at the target, and queues the files.
//!
//! Several directories are listed at the same time, and files move while others are still being
//! listed: on a long path a tree that is listed directory by directory first costs a round trip for
//! each before a byte has moved.

use crate::copy::context::CopyContext;
use crate::destination::{CopyPath, Target};
use crate::file::CopyItem;
use crate::file::partial_file;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hither_core::storage::{file_name, is_partial};
use hither_core::{DirEntry, Error, ErrorKind, FileKind, Result, Storage};
use std::path::PathBuf;
use std::sync::Arc;

/// Directories being listed at the same time.
const AT_ONCE: usize = 16;

/// A directory to be copied.
struct Folder {
    path: String,
    local: Option<PathBuf>,
    target: Target,
}

/// Walks through `source` and all that is in it.
///
/// # Errors
///
/// If the directory itself cannot be made or listed. What fails further down is noted, and left
/// out.
pub(crate) async fn walk(
    shared: &Arc<CopyContext>,
    source: CopyPath,
    target: Target,
) -> Result<()> {
    refuse_nesting(&source, &target)?;
    let CopyPath { storage, path, local, .. } = source;
    let mut waiting = list(shared, &storage, &Folder { path, local, target }).await?;
    let mut listing = FuturesUnordered::new();
    loop {
        while listing.len() < AT_ONCE
            && let Some(folder) = waiting.pop()
        {
            let storage = &storage;
            listing.push(async move {
                let found = list(shared, storage, &folder).await;
                found.map_err(|error| (name(&**storage, &folder), error))
            });
        }
        match listing.next().await {
            None => return Ok(()),
            Some(Ok(found)) => waiting.extend(found),
            Some(Err((name, error))) => shared.failed(name, error),
        }
    }
}

fn name(storage: &dyn Storage, folder: &Folder) -> String {
    match &folder.local {
        Some(path) => path.display().to_string(),
        None => format!("{}/{}", storage.name().trim_end_matches('/'), folder.path),
    }
}

/// Makes the directory, queues its files, and returns the directories in it.
async fn list(
    shared: &Arc<CopyContext>,
    storage: &Arc<dyn Storage>,
    folder: &Folder,
) -> Result<Vec<Folder>> {
    if make_directory(&folder.target).await? {
        shared.made_directory();
    }
    let mut folders = Vec::new();
    for mut entry in storage.list(&folder.path).await? {
        if entry.kind == FileKind::Unnamed {
            let what = format!(
                "{}/{} cannot be copied: its name is not UTF-8: rename it",
                name(&**storage, folder).trim_end_matches('/'),
                file_name(&entry.path)
            );
            shared.failed(entry.path, Error::new(ErrorKind::Unsupported, what));
            continue;
        }
        if is_partial(&entry.path) {
            continue;
        }
        let last = entry.path.rsplit('/').next().unwrap_or_default();
        let target = match folder.target.join(last) {
            Ok(target) => target,
            Err(error) => {
                shared.failed(name(&**storage, folder), error);
                continue;
            }
        };
        let local = folder.local.as_ref().map(|path| path.join(last));
        if entry.kind == FileKind::Link {
            match storage.stat(&entry.path).await {
                Ok(led_to) if led_to.kind == FileKind::File => entry = led_to,
                // It leads out of the tree, or in a circle, or nowhere.
                _ => {
                    shared.note(format!("{}: broken link, left out", entry.path));
                    continue;
                }
            }
        }
        match entry.kind {
            FileKind::Link | FileKind::Other | FileKind::Unnamed => {
                shared.note(format!("{}: neither a file nor a directory, left out", entry.path));
            }
            FileKind::Directory => folders.push(Folder { path: entry.path, local, target }),
            FileKind::File => shared.found(item(storage, entry, local, target)),
        }
    }
    Ok(folders)
}

fn item(
    storage: &Arc<dyn Storage>,
    entry: DirEntry,
    local: Option<PathBuf>,
    target: Target,
) -> CopyItem {
    let path = entry.path.clone();
    let name = match &local {
        Some(path) => path.display().to_string(),
        None => format!("{}/{path}", storage.name().trim_end_matches('/')),
    };
    let storage = Arc::clone(storage);
    CopyItem { storage, path, name, local, entry: Some(entry), target, restarted: false }
}

/// Makes a directory if it is not there. Whether it was made.
pub(crate) async fn make_directory(target: &Target) -> Result<bool> {
    match target {
        Target::Output | Target::Discard => Ok(false),
        Target::Local(path) => match std::fs::create_dir(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
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
            Err(error) => Err(error),
        },
    }
}

/// A directory that is copied into itself would never end.
fn refuse_nesting(source: &CopyPath, target: &Target) -> Result<()> {
    let (Some(from), Target::Local(to)) = (&source.local, target) else { return Ok(()) };
    let absolute = |path: &PathBuf| std::fs::canonicalize(path).ok();
    // The target itself may not be there yet, what it is in must be.
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
