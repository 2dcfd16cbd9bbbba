//! Small files of a tree, many in one request, where the server has streams of them
//! ([`hither_core::storage::Storage::tree`], and for uploads
//! [`put_tree`](hither_core::storage::Storage::put_tree), see [`send_batch`]).
//!
//! One request walks the tree: the server names everything below the directory, and nothing is
//! listed before the first file moves. Large files go the way of all files. Small ones wait in the
//! [queue](small_files) until a worker takes a batch of them, its share of what waits, and asks for
//! all in one request ([`fetch_batch`]). So a round trip is paid for each batch and not for each
//! file, workers do not wait for each other, and what an earlier attempt has brought is not asked
//! for again: the client decides which files move, the server only answers.
//!
//! Files are written while others arrive, under their hidden names. When all of a batch are there,
//! one sync covers them ([`group_sync`]), and then they get their names: a file is reported as done
//! only when it is on the disk.
//!
//! Small files of a tree on this machine take the same way to another directory of it: a worker
//! copies a batch, for which threads are woken as seldom as for one file.
//!
//! A walk that breaks off continues after the last name that came. A batch that breaks off is asked
//! for again without the files that came. The queue is bounded; while it is full, nobody reads the
//! walk.

pub(crate) mod fetch_batch;
pub(crate) mod group_sync;
pub(crate) mod send_batch;
pub(crate) mod small_files;

use crate::copy::context::CopyContext;
use crate::copy::walk::item;
use crate::destination::{CopyPath, Target};
use crate::file::CopyItem;
use crate::tree::small_files::TreeRoot;
use hither_core::storage::{TreeEvent, TreeEvents, TreeFile, TreeRequest, file_name, is_partial};
use hither_core::{Error, ErrorKind, Result, Retry};
use std::sync::Arc;
use std::time::Duration;
use tracing::debug;

/// Failures in a row, without anything in between, after which a walk or a batch is given up.
const ATTEMPTS: u32 = 4;
/// The shortest pause before another attempt.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// Failures of single files after which a walk is given up.
const MAX_FAILURES: usize = 100_000;

/// The outcome of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkResult {
    Done,
    /// The source is no directory, or its storage has no streams.
    Unsupported,
}

/// Walks through `source` and queues all files in it.
///
/// # Errors
///
/// If the directory itself cannot be made or walked through. What fails further down is noted, and
/// left out.
pub(crate) async fn walk(
    shared: &Arc<CopyContext>,
    source: &CopyPath,
    target: &Target,
) -> Result<WalkResult> {
    let CopyPath { storage, path: directory, .. } = source;
    // With a filter, directories that it excludes are not even listed.
    let is_filtered = !shared.options.filter.is_empty();
    if !storage.has_trees() || !shared.options.recursive || is_filtered {
        return Ok(WalkResult::Unsupported);
    }
    let files = storage.source(directory)?;
    if files.max_connections() < 2 {
        // A walk waits for files to be copied, which could not be asked for beside it.
        return Ok(WalkResult::Unsupported);
    }
    files.expect_bulk();
    let mut position = String::new();
    let mut failures = 0;
    let mut root: Option<Arc<TreeRoot>> = None;
    loop {
        let request = TreeRequest::Walk { after: position.clone() };
        let before = position.clone();
        let walked = match storage.tree(directory, request).await {
            Ok(None) if root.is_none() => return Ok(WalkResult::Unsupported),
            Ok(None) => Err(Error::new(
                ErrorKind::Changed,
                format!("{} is no directory any more", source.name()),
            )),
            Ok(Some(mut events)) => {
                let tree = match root.clone() {
                    Some(tree) => tree,
                    None => Arc::new(begin(shared, source, target).await?),
                };
                root = Some(Arc::clone(&tree));
                follow(shared, &tree, &mut *events, &mut position).await
            }
            Err(error) => Err(error),
        };
        let Err(error) = walked else { return Ok(WalkResult::Done) };
        failures = if position == before { failures + 1 } else { 0 };
        debug!(position, %error, failures, "the walk broke off");
        if !may_retry(&error, failures).await {
            return Err(error);
        }
    }
}

/// Waits until a request may be sent again after an error, the last of some `failures`; returns
/// false if it may not.
pub(crate) async fn may_retry(error: &Error, failures: u32) -> bool {
    match error.retry() {
        Retry::SameServer { after } | Retry::Later { after } if failures < ATTEMPTS => {
            tokio::time::sleep(after.max(MIN_PAUSE)).await;
            true
        }
        _ => false,
    }
}

/// Makes the directory at the target, once the server has begun to answer.
async fn begin(shared: &Arc<CopyContext>, source: &CopyPath, target: &Target) -> Result<TreeRoot> {
    shared.make_directory(target).await?;
    shared.add_workers_for(&*source.storage.source(&source.path)?, 1, usize::MAX);
    Ok(TreeRoot::new(source, target, shared))
}

/// Queues what a walk names, and keeps its position.
async fn follow(
    shared: &Arc<CopyContext>,
    root: &Arc<TreeRoot>,
    events: &mut dyn TreeEvents,
    position: &mut String,
) -> Result<()> {
    loop {
        let some = events.next().await?;
        if some.is_empty() {
            return Ok(());
        }
        for event in some {
            match event {
                TreeEvent::Directory(path) => {
                    let made = match root.target_of(&path) {
                        Ok(target) => shared.make_directory(&target).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = made {
                        shared.failed(root.name_of(&path), error);
                    }
                    *position = path + "/";
                }
                TreeEvent::File(file) | TreeEvent::Content(file, _) => {
                    let next = file.relative.clone();
                    queue(shared, root, file).await;
                    *position = next;
                }
                TreeEvent::Failed(path, error) => {
                    shared.failed(root.name_of(&path), error);
                    if shared.tally().failures.len() > MAX_FAILURES {
                        let what = format!("more than {MAX_FAILURES} files failed");
                        return Err(Error::new(ErrorKind::Protocol, what));
                    }
                }
                TreeEvent::LeftOut(path, reason) => {
                    shared.note(format!("{}: {reason}, left out", root.name_of(&path)));
                }
            }
        }
    }
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
        Err(error) => shared.failed(root.name_of(&file.relative), error),
        Ok(target) => {
            let item = item(&root.storage, file.entry, None, target);
            shared.found(CopyItem { mode: file.mode, ..item }).await;
        }
    }
}
