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
use crate::copy::target_directory::make_directory;
use crate::destination::folding::MetPaths;
use crate::destination::{CopyPath, Target};
use crate::file::item::CopyItem;
use crate::tree::small_files::TreeRoot;
use hither_core::retry::{self, Failed, Retryable};
use hither_core::storage::{
    TreeEvent, TreeEvents, TreeFile, TreeRequest, file_name, is_partial, join, parent,
};
use hither_core::{Error, ErrorKind, Result};
use std::sync::Arc;
use tracing::debug;

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
    let is_filtered = !shared.resources.options.filter.is_empty();
    if !storage.has_trees() || !shared.resources.options.recursive || is_filtered {
        return Ok(WalkResult::Unsupported);
    }
    let files = storage.source(directory)?;
    if files.max_connections() < 2 {
        // A walk waits for files to be copied, which could not be asked for beside it.
        return Ok(WalkResult::Unsupported);
    }
    files.expect_bulk();
    let progress = TreePosition::default();
    let walk = TreeWalk { shared, source, target, progress, root: None };
    retry::run(&shared.resources.options.retry, &shared.resources.clock, walk).await
}

/// A walk through a tree, which continues after the last name that came.
struct TreeWalk<'a> {
    shared: &'a Arc<CopyContext>,
    source: &'a CopyPath,
    target: &'a Target,
    progress: TreePosition,
    root: Option<Arc<TreeRoot>>,
}

/// The position of a walk.
#[derive(Default)]
struct TreePosition {
    /// The last name that came.
    last: String,
    met: MetPaths,
    /// The last directory that is left out, with all that is in it.
    left_out: Option<String>,
}

impl Retryable for TreeWalk<'_> {
    type Done = WalkResult;

    async fn attempt(&mut self) -> Result<WalkResult, Failed> {
        let before = self.progress.last.clone();
        self.walk().await.map_err(|error| {
            debug!(self.progress.last, %error, "the walk broke off");
            Failed::from(error).after_progress(self.progress.last != before)
        })
    }
}

impl TreeWalk<'_> {
    async fn walk(&mut self) -> Result<WalkResult> {
        let CopyPath { storage, path: directory, .. } = self.source;
        let request = TreeRequest::Walk { after: self.progress.last.clone() };
        match storage.tree(directory, request).await? {
            None if self.root.is_none() => Ok(WalkResult::Unsupported),
            None => {
                let what = format!("{} is no directory any more", self.source.name());
                Err(Error::new(ErrorKind::Changed, what))
            }
            Some(mut events) => {
                let root = match self.root.clone() {
                    Some(root) => root,
                    None => Arc::new(begin(self.shared, self.source, self.target).await?),
                };
                self.root = Some(Arc::clone(&root));
                follow(self.shared, &root, &mut *events, &mut self.progress).await?;
                Ok(WalkResult::Done)
            }
        }
    }
}

/// Makes the directory at the target, once the server has begun to answer.
async fn begin(shared: &Arc<CopyContext>, source: &CopyPath, target: &Target) -> Result<TreeRoot> {
    make_directory(shared.results(), target).await?;
    shared.concurrency.add_workers_for(&*source.storage.source(&source.path)?);
    Ok(TreeRoot::new(source, target, &shared.resources.options))
}

/// Queues what a walk names, and keeps its position.
async fn follow(
    shared: &Arc<CopyContext>,
    root: &Arc<TreeRoot>,
    events: &mut dyn TreeEvents,
    progress: &mut TreePosition,
) -> Result<()> {
    loop {
        let some = events.next().await?;
        if some.is_empty() {
            return Ok(());
        }
        for event in some {
            match event {
                TreeEvent::Directory(path) => {
                    if is_taken(shared, root, &path, progress).await {
                        let made = match root.target_of(&path) {
                            Ok(target) => make_directory(shared.results(), &target).await,
                            Err(error) => Err(error),
                        };
                        if let Err(error) = made {
                            shared.results().failed(root.name_of(&path), error);
                        }
                    } else {
                        progress.left_out.get_or_insert_with(|| path.clone() + "/");
                    }
                    progress.last = path + "/";
                }
                TreeEvent::File(file) | TreeEvent::Content(file, _) => {
                    let next = file.relative.clone();
                    if is_taken(shared, root, &next, progress).await {
                        queue(shared, root, file).await;
                    }
                    progress.last = next;
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
        }
    }
}

/// Returns true unless the destination may take a name for another one of its directory, or that
/// directory is left out.
async fn is_taken(
    shared: &CopyContext,
    root: &TreeRoot,
    path: &str,
    progress: &mut TreePosition,
) -> bool {
    if progress.left_out.as_ref().is_some_and(|directory| path.starts_with(directory)) {
        return false;
    }
    progress.left_out = None;
    if !progress.met.add(path) {
        return true;
    }
    let Some(met) = progress.met.last() else { return true };
    let checked = match root.target_of(parent(path)) {
        Ok(target) => {
            let from = join(&root.directory, path);
            shared.pairs.check(&*root.storage, &from, &target, met).await
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
