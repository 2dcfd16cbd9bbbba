//! The state of a copy: its queue, its concurrency, and the resources that its files use.
//!
//! Walkers and workers hold it. A file holds only the [`CopyResources`].

use crate::copy::archive::{self, DirectoryAttributes};
use crate::copy::concurrency::{CopyConcurrency, CopyJob};
use crate::copy::queue::Queue;
use crate::copy::resources::CopyResources;
use crate::copy::resources::results::CopyResults;
use crate::copy::small_slot::SmallSlot;
use crate::destination::{CopyPath, Target};
use crate::file::WorkRequest;
use crate::file::item::CopyItem;
use crate::file::target::partial_file::PartialFile;
use crate::journal::Journal;
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use crate::tree::small_files::{SmallFile, TreeRoot};
use hither_core::storage::{MAX_SMALL_BYTES, TreeFile};
use hither_core::sync::lock;
use hither_core::{DirEntry, FileKind, Result};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The state of one copy.
#[derive(Debug)]
pub(crate) struct CopyContext {
    pub(crate) resources: Arc<CopyResources>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) concurrency: CopyConcurrency,
    /// Files that are not requested from tape yet, if they are to be staged.
    pub(crate) to_stage: Mutex<Vec<CopyItem>>,
    /// Directories that get the permissions and times of their sources at the end.
    pub(crate) attributes: Mutex<Vec<DirectoryAttributes>>,
}

impl CopyContext {
    /// The state of a job that begins.
    pub(crate) fn new(
        job: &str,
        options: CopyOptions,
        queue: Queue,
        journal: Option<Journal>,
        progress: Arc<CopyProgress>,
    ) -> Arc<Self> {
        let resources = CopyResources::new(job, options, journal, progress);
        let queue = Arc::new(queue);
        Arc::new(Self {
            concurrency: CopyJob::controlled(&resources, &queue),
            resources: Arc::new(resources),
            queue,
            to_stage: Mutex::default(),
            attributes: Mutex::default(),
        })
    }

    pub(crate) fn results(&self) -> &CopyResults {
        &self.resources.results
    }

    /// The request of the worker of this `number` for work.
    pub(crate) fn work_request(&self, number: usize) -> WorkRequest {
        let workers = self.concurrency.workers();
        WorkRequest { number, workers, has_more_workers: self.concurrency.has_more_workers() }
    }

    /// The next small file, if one more may be in flight.
    pub(crate) fn next_small(&self) -> Option<(CopyItem, SmallSlot)> {
        let budget = &self.resources.budget;
        if !budget.has_room() {
            return None;
        }
        self.queue.take_small(self.concurrency.file_limits(), budget)
    }

    /// Returns true for a file that is copied as a whole, concurrently with many others: in one
    /// block, not by the servers themselves, and not in order.
    pub(crate) fn is_small(&self, item: &CopyItem) -> bool {
        let options = &self.resources.options;
        let max_bytes = MAX_SMALL_BYTES.min(options.block_bytes);
        let is_free = !matches!(item.target, Target::Output) && options.third_party.is_none();
        let is_small = |entry: &DirEntry| {
            let is_known = |size| (size > 0 || item.local.is_some()) && size <= max_bytes;
            entry.kind == FileKind::File && entry.size.is_some_and(is_known)
        };
        is_free && item.entry.as_ref().is_some_and(is_small)
    }

    /// Adds a file to the queue; waits while that is full.
    pub(crate) async fn found(&self, mut item: CopyItem) {
        item.is_small = self.is_small(&item);
        self.resources.progress.found_file();
        self.resources.progress.found_bytes(item.counted_bytes());
        if self.resources.options.stager.is_some() && item.local.is_none() {
            lock(&self.to_stage).push(item);
        } else {
            self.queue.found(item).await;
        }
    }

    /// Adds a small file of a tree to the queue, for a batch; waits while the queue is full.
    pub(crate) async fn found_small(&self, root: &Arc<TreeRoot>, file: TreeFile) {
        self.resources.progress.found_file();
        self.resources.progress.found_bytes(file.entry.counted_bytes());
        self.queue.found_small(SmallFile { root: Arc::clone(root), file }).await;
    }

    /// The tree of files of this machine that are copied in batches; none if they go one by one.
    pub(crate) fn tree_of_files(
        &self,
        source: &CopyPath,
        target: &Target,
    ) -> Result<Option<Arc<TreeRoot>>> {
        let root = TreeRoot::new(source, target, &self.resources.options);
        if source.local.is_none() || !root.takes_batches {
            return Ok(None);
        }
        if let Target::Remote(storage, path) = target {
            self.concurrency.add_workers_for(&*storage.source(path)?);
        }
        Ok(Some(Arc::new(root)))
    }

    /// Copies a symbolic link of this machine as a link.
    pub(crate) fn copy_link(&self, source: &Path, target: &Path) -> Result<()> {
        let CopyResources { options, job, progress, results, .. } = &*self.resources;
        progress.found_file();
        let part = PartialFile::name(target, job);
        if !archive::copy_link(source, target, &part, options.existing)? {
            results.skipped(0);
            return Ok(());
        }
        results.note_folder(target.parent());
        results.copied(0);
        progress.done_file();
        Ok(())
    }
}
