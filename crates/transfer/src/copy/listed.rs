//! Copies of files that the caller has listed: files of a tree, or a range of one file.
//!
//! A machine that shares a job with others gets its part by name, with the versions from the
//! listing, and lists nothing itself. A failed attempt leaves nothing, and no journal is written:
//! such a part is a few seconds of work, and the coordinator that deals the parts out records their
//! state.
//!
//! A range goes into an upload that another process begins and commits; other machines write other
//! ranges of it. So this code never commits or removes the upload.

use crate::copy;
use crate::copy::context::CopyContext;
use crate::copy::queue::Queue;
use crate::copy::setup;
use crate::copy::target_directory::Directories;
use crate::destination::{CopyPath, Destination, Target};
use crate::file::item::CopyItem;
use crate::file::upload_range::UploadRange;
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use crate::summary::CopySummary;
use crate::tree::small_files::TreeRoot;
use hither_core::storage::{TreeFile, check_name, file_name, parent};
use hither_core::{DirEntry, Result, range};
use std::ops::Range;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Copies `files` of the directory `source` to the same names below the directory `target`, which
/// exists. Directories in it are made as files need them.
///
/// # Errors
///
/// As [`copy`](crate::copy()). Errors of single files are in the summary.
pub async fn copy_listed(
    source: CopyPath,
    files: Vec<TreeFile>,
    target: CopyPath,
    options: CopyOptions,
    progress: Arc<CopyProgress>,
) -> Result<CopySummary> {
    copied(source, target, options, progress, async move |shared, source, target| {
        find(shared, source, files, target).await
    })
    .await
}

/// Copies `range` of the file `source`, whose entry is `entry`, to the same range of an upload that
/// was begun: that of `target`, with the [token](hither_core::Upload::token) `token`. The summary
/// has the checksums of the range.
///
/// # Errors
///
/// As [`copy`](crate::copy()). The error of the file is in the summary.
pub async fn copy_range(
    source: CopyPath,
    entry: DirEntry,
    range: Range<u64>,
    target: CopyPath,
    token: String,
    options: CopyOptions,
    progress: Arc<CopyProgress>,
) -> Result<CopySummary> {
    // A local target is an upload, too: the file is not this copy's own.
    let target = CopyPath { local: None, ..target };
    copied(source, target, options, progress, async move |shared, source, target| {
        shared.resources.progress.found_file();
        shared.resources.progress.found_bytes(range::len(&range));
        let item = CopyItem::listed(&source.storage, entry, source.local.clone(), target);
        let range = Some(Arc::new(UploadRange { range, token }));
        shared.queue.found(CopyItem { range, ..item }).await;
        Ok(())
    })
    .await
}

async fn copied(
    source: CopyPath,
    target: CopyPath,
    options: CopyOptions,
    progress: Arc<CopyProgress>,
    find: impl AsyncFnOnce(&Arc<CopyContext>, &CopyPath, Target) -> Result<()>,
) -> Result<CopySummary> {
    let job = setup::job_name(std::slice::from_ref(&source), &Destination::Path(target.clone()));
    let options = CopyOptions { journal: None, ..options };
    let queue = Queue::new(usize::MAX, 1);
    let shared = CopyContext::new(&job, options, queue, None, progress);
    let finding = async {
        if let Err(error) = find(&shared, &source, target.target()).await {
            shared.results().failed(source.name(), error);
        }
        shared.queue.found_all();
    };
    futures_util::future::join(finding, copy::run(&shared, JoinSet::new())).await;
    copy::conclude(shared)
}

async fn find(
    shared: &Arc<CopyContext>,
    source: &CopyPath,
    files: Vec<TreeFile>,
    target: Target,
) -> Result<()> {
    let mut directories = Directories::new(target.clone());
    let tree = batches(shared, source, &target).await?;
    for file in files {
        let relative = file.relative.clone();
        let queued = async {
            check_name(&relative, &source.name())?;
            let directory = directories.of(parent(&relative))?;
            let tree = tree.as_ref().filter(|tree| tree.takes(&file.entry));
            if !tree.is_some_and(|tree| tree.is_sent()) {
                directory.make(shared.results()).await?;
            }
            if let Some(tree) = tree {
                shared.found_small(tree, file).await;
                return Ok(());
            }
            let target = directory.target.join(file_name(&relative))?;
            let local = source.local.as_ref().map(|local| local.join(&relative));
            let item = CopyItem::listed(&source.storage, file.entry, local, target);
            let directory = Some(directory);
            shared.found(CopyItem { mode: file.mode, directory, ..item }).await;
            Ok(())
        };
        if let Err(error) = queued.await {
            shared.results().failed(source_name(source, &relative), error);
        }
    }
    Ok(())
}

/// The name of a file below `source` in [failures](crate::CopyFailure).
#[must_use]
pub fn source_name(source: &CopyPath, relative: &str) -> String {
    format!("{}/{relative}", source.name().trim_end_matches('/'))
}

/// The tree, if small files of it move in batches.
async fn batches(
    shared: &Arc<CopyContext>,
    source: &CopyPath,
    target: &Target,
) -> Result<Option<Arc<TreeRoot>>> {
    if source.local.is_some() {
        return shared.tree_of_files(source, target);
    }
    let files = source.storage.source(&source.path)?;
    files.expect_small_files();
    if !source.storage.has_trees() {
        // The response says whether the server has streams. If it fails, so will each file.
        drop(source.storage.stat_directory(&source.path).await);
    }
    let root = TreeRoot::new(source, target, &shared.resources.options);
    // A stream of files must not block the other requests.
    if !root.takes_batches || !source.storage.has_trees() || files.max_connections() < 2 {
        return Ok(None);
    }
    shared.concurrency.add_workers_for(&*files);
    Ok(Some(Arc::new(root)))
}
