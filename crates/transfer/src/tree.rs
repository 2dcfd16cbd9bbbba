//! Batches of small files of a tree in one request, where the server supports streams of files
//! ([`hither_core::storage::Storage::tree`], and for uploads
//! [`put_tree`](hither_core::storage::Storage::put_tree), see [`send_batch`]).
//!
//! One request walks the tree: the server names everything below the directory, and no listing has
//! to end before the first file moves. Large files are copied as usual. Small ones wait in the
//! [queue](small_files) until a worker takes a batch, its share of the waiting files, and requests
//! them together ([`fetch_batch`]). So each batch costs a round trip, not each file; workers do not
//! wait for each other; and files that an earlier attempt has copied are not requested again,
//! because the client decides which files move.
//!
//! Files are written while others arrive, under their hidden names. When all of a batch are there,
//! one sync covers them ([`group_sync`]), and then they get their names: a file is reported as done
//! only when it is on the disk.
//!
//! Small local files that are copied to a local directory move in batches, too: a worker copies a
//! batch, and wakes threads no more often than for one file.
//!
//! A walk that breaks off continues after the last name that arrived. A batch that breaks off is
//! requested again without the files that arrived. The queue is bounded; while it is full, the walk
//! is not read.

pub(crate) mod fetch_batch;
pub(crate) mod group_sync;
pub(crate) mod resumed_walk;
pub(crate) mod send_batch;
pub(crate) mod small_files;

use crate::copy::context::CopyContext;
use crate::copy::target_directory::{make_directory, make_subdirectory};
use crate::destination::folding::SeenPaths;
use crate::destination::{CopyPath, Target};
use crate::file::item::CopyItem;
use crate::tree::resumed_walk::ResumedWalk;
use crate::tree::small_files::TreeRoot;
use hither_core::storage::{TreeEvent, TreeFile, file_name, is_partial, join, parent};
use hither_core::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Failures of single files after which a walk is given up.
const MAX_FAILURES: usize = 100_000;

/// The outcome of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkResult {
    Done,
    /// The source is not a directory, or its storage has no streams.
    Unsupported,
}

/// Walks through `source` and queues all files in it.
///
/// # Errors
///
/// If the directory itself cannot be made or walked through. Failures further down are recorded,
/// and skipped.
pub(crate) async fn walk(
    shared: &Arc<CopyContext>,
    source: &CopyPath,
    target: &Target,
) -> Result<WalkResult> {
    let CopyPath { storage, path: directory, .. } = source;
    // With a filter, directories that it excludes are not even listed.
    let is_filtered = !shared.resources.options.filter.is_empty();
    if !storage.has_trees() || !shared.resources.options.recursive || is_filtered {
        return Ok(WalkResult::Unsupported);
    }
    let files = storage.source(directory)?;
    if files.max_connections() < 2 {
        // A walk waits for files to be copied, which could not be requested concurrently.
        return Ok(WalkResult::Unsupported);
    }
    files.expect_bulk();
    let policy = &shared.resources.options.retry;
    let clock = &shared.resources.clock;
    let Some(mut walk) = ResumedWalk::begin(&**storage, directory, policy, clock).await? else {
        return Ok(WalkResult::Unsupported);
    };
    // The target is made once the server has begun to answer.
    make_directory(shared.results(), target, source.contents).await?;
    shared.concurrency.add_workers_for(&*files);
    let root = Arc::new(TreeRoot::new(source, target, &shared.resources.options));
    let mut taken = TakenNames::default();
    loop {
        let events = walk.next().await?;
        if events.is_empty() {
            return Ok(WalkResult::Done);
        }
        for event in events {
            take(shared, &root, event, &mut taken).await?;
        }
    }
}

/// The check that the destination can distinguish the names of a walk.
#[derive(Default)]
struct TakenNames {
    seen: SeenPaths,
    /// The last directory that is skipped, with its contents.
    left_out: Option<String>,
}

/// Queues the files that a walk names.
async fn take(
    shared: &Arc<CopyContext>,
    root: &Arc<TreeRoot>,
    event: TreeEvent,
    taken: &mut TakenNames,
) -> Result<()> {
    match event {
        TreeEvent::Directory(path) if is_taken(shared, root, &path, taken).await => {
            let made = match root.target_of(&path) {
                Ok(target) => make_subdirectory(shared.results(), &target).await,
                Err(error) => Err(error),
            };
            if let Err(error) = made {
                shared.results().failed(root.name_of(&path), error);
                taken.left_out = Some(path + "/");
            }
        }
        TreeEvent::Directory(path) => {
            taken.left_out.get_or_insert_with(|| path + "/");
        }
        TreeEvent::File(file) | TreeEvent::Content(file, _) => {
            if is_taken(shared, root, &file.relative, taken).await {
                queue(shared, root, file).await;
            }
        }
        TreeEvent::Failed(path, error) => {
            shared.results().failed(root.name_of(&path), error);
            if shared.results().summary().failures.len() > MAX_FAILURES {
                let what = format!("more than {MAX_FAILURES} files failed");
                return Err(Error::new(ErrorKind::Protocol, what));
            }
        }
        TreeEvent::LeftOut(path, reason) => {
            shared.results().note(format!("{}: {reason}, left out", root.name_of(&path)));
        }
    }
    Ok(())
}

/// Returns true unless a name may collide with another one of its directory at the destination, or
/// that directory is skipped.
async fn is_taken(
    shared: &CopyContext,
    root: &TreeRoot,
    path: &str,
    taken: &mut TakenNames,
) -> bool {
    if taken.left_out.as_ref().is_some_and(|directory| path.starts_with(directory)) {
        return false;
    }
    taken.left_out = None;
    if !taken.seen.add(path) {
        return true;
    }
    let Some(seen) = taken.seen.last() else { return true };
    let checked = match root.target_of(parent(path)) {
        Ok(target) => {
            let from = join(&root.directory, path);
            seen.check(&*root.storage, &from, &target).await
        }
        Err(error) => Err(error),
    };
    checked.map_err(|error| shared.results().failed(root.name_of(path), error)).is_ok()
}

/// Queues a file, among the small ones if it may be one of a batch.
async fn queue(shared: &Arc<CopyContext>, root: &Arc<TreeRoot>, file: TreeFile) {
    if is_partial(file_name(&file.relative)) {
        return;
    }
    if root.takes(&file.entry) {
        return shared.found_small(root, file).await;
    }
    match root.target_of(&file.relative) {
        Err(error) => shared.results().failed(root.name_of(&file.relative), error),
        Ok(target) => {
            let item = CopyItem::listed(&root.storage, file.entry, None, target);
            shared.found(CopyItem { mode: file.mode, ..item }).await;
        }
    }
}

#[cfg(test)]
mod tests;
