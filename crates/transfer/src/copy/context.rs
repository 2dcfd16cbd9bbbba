//! State that all tasks of a copy share, and the records that they make in it.

use crate::copy::archive::{self, DirectoryAttributes};
use crate::copy::blocking_queue::BlockingQueue;
use crate::copy::concurrency::{CopyConcurrency, CopyJob};
use crate::copy::job_clock::JobClock;
use crate::copy::memory_budget::MemoryBudget;
use crate::copy::piece_size::WorkerRates;
use crate::copy::queue::Queue;
use crate::copy::unseen::UnseenUploads;
use crate::copy::walk;
use crate::destination::Target;
use crate::destination::folding::PairCheck;
use crate::file::CopyItem;
use crate::file::partial_file::{FileMode, PartialFile};
use crate::file::version::FileVersion;
use crate::journal::Journal;
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use crate::summary::{CopyFailure, CopySummary, FileChecksum};
use crate::tree::group_sync::GroupSync;
use crate::tree::small_files::{SmallFile, TreeRoot};
use hither_core::storage::{MAX_SMALL_BYTES, TreeFile};
use hither_core::sync::lock;
use hither_core::{DirEntry, Error, FileKind, Result, SourceReport};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tracing::warn;

/// State that all tasks of a job share.
#[derive(Debug)]
pub(crate) struct CopyContext {
    pub(crate) options: CopyOptions,
    /// The clock of pauses between attempts.
    pub(crate) clock: JobClock,
    /// Name of the job.
    pub(crate) job: String,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) journal: Option<Journal>,
    pub(crate) progress: Arc<CopyProgress>,
    pub(crate) queue: Arc<Queue>,
    /// Files that are not asked for yet, if they are to be staged.
    pub(crate) to_stage: Mutex<Vec<CopyItem>>,
    pub(crate) rates: WorkerRates,
    pub(crate) tally: Mutex<CopySummary>,
    /// Local directories with new names in them, to be synced at the end.
    pub(crate) folders: Mutex<BTreeSet<PathBuf>>,
    /// The check of names that the destination may take for one.
    pub(crate) pairs: PairCheck,
    pub(crate) concurrency: CopyConcurrency,
    pub(crate) group_sync: GroupSync,
    pub(crate) unseen: UnseenUploads,
    /// The work of small files that may block.
    pub(crate) blocking: Arc<BlockingQueue>,
    /// Directories that get the permissions and times of their sources at the end.
    pub(crate) attributes: Mutex<Vec<DirectoryAttributes>>,
}

/// The right of a small file to be fetched or uploaded, and its room in memory.
#[derive(Debug)]
pub(crate) struct SmallSlot {
    shared: Arc<CopyContext>,
    bytes: u64,
}

impl Drop for SmallSlot {
    fn drop(&mut self) {
        self.shared.budget.release(self.bytes);
        self.shared.queue.fetched_small();
    }
}

impl CopyContext {
    /// The state of a job that begins.
    pub(crate) fn new(
        job: String,
        options: CopyOptions,
        queue: Queue,
        journal: Option<Journal>,
        progress: Arc<CopyProgress>,
    ) -> Arc<Self> {
        let budget = Arc::new(MemoryBudget::new(options.budget_bytes));
        let queue = Arc::new(queue);
        let concurrency = CopyJob::controlled(&options, &progress, &budget, &queue);
        Arc::new(Self {
            budget,
            queue,
            to_stage: Mutex::default(),
            rates: WorkerRates::default(),
            options,
            clock: JobClock::start(),
            job: Journal::name_of(journal.as_ref(), &job),
            journal,
            progress,
            tally: Mutex::default(),
            folders: Mutex::default(),
            pairs: PairCheck::default(),
            concurrency,
            group_sync: GroupSync::default(),
            unseen: UnseenUploads::default(),
            blocking: Arc::default(),
            attributes: Mutex::default(),
        })
    }

    /// The next small file, if one more may be under way.
    pub(crate) fn next_small(self: &Arc<Self>) -> Option<(CopyItem, SmallSlot)> {
        if !self.budget.has_room() {
            return None;
        }
        let item = self.queue.take_small(self.concurrency.file_limits())?;
        let bytes = item.counted_bytes();
        self.budget.hold(bytes);
        Some((item, SmallSlot { shared: Arc::clone(self), bytes }))
    }

    /// Returns true for a file that is copied as a whole, beside many others: in one block, not by
    /// the servers themselves, and not in order.
    pub(crate) fn is_small(&self, item: &CopyItem) -> bool {
        let max_bytes = MAX_SMALL_BYTES.min(self.options.block_bytes);
        let is_free = !matches!(item.target, Target::Output) && self.options.third_party.is_none();
        let is_small = |entry: &DirEntry| {
            let is_told = |size| (size > 0 || item.local.is_some()) && size <= max_bytes;
            entry.kind == FileKind::File && entry.size.is_some_and(is_told)
        };
        is_free && item.entry.as_ref().is_some_and(is_small)
    }

    /// Adds a file to the queue, when there is room in it.
    pub(crate) async fn found(&self, mut item: CopyItem) {
        item.is_small = self.is_small(&item);
        self.progress.found_file();
        self.progress.found_bytes(item.counted_bytes());
        if self.options.stager.is_some() && item.local.is_none() {
            lock(&self.to_stage).push(item);
        } else {
            self.queue.found(item).await;
        }
    }

    /// Adds a small file of a tree to the queue, for a batch, when there is room in it.
    pub(crate) async fn found_small(&self, root: &Arc<TreeRoot>, file: TreeFile) {
        self.progress.found_file();
        self.progress.found_bytes(file.entry.counted_bytes());
        self.queue.found_small(SmallFile { root: Arc::clone(root), file }).await;
    }

    /// Makes a directory at the target if it is not there.
    pub(crate) async fn make_directory(&self, target: &Target) -> Result<()> {
        if walk::make_directory(target).await? {
            self.tally().directories += 1;
            self.folders().extend(target.folder().map(Path::to_owned));
        }
        Ok(())
    }

    /// The permissions of a copy of a file with these.
    pub(crate) fn file_mode(&self, bits: u32) -> FileMode {
        FileMode::of_copy(bits, self.options.archive)
    }

    /// Copies a symbolic link of this machine as a link.
    pub(crate) fn copy_link(&self, source: &Path, target: &Path) -> Result<()> {
        self.progress.found_file();
        let part = PartialFile::name(target, &self.job);
        if !archive::copy_link(source, target, &part, self.options.existing)? {
            self.skipped(0);
            return Ok(());
        }
        self.folders().extend(target.parent().map(Path::to_owned));
        self.tally().files += 1;
        self.progress.done_file();
        Ok(())
    }

    /// Records a file that could not be copied.
    pub(crate) fn failed(&self, source: String, error: Error) {
        warn!(file = source, %error, "file failed");
        self.progress.done_file();
        self.tally().failures.push(CopyFailure { source, error });
    }

    /// Records a file that is left as it is.
    pub(crate) fn skipped(&self, bytes: u64) {
        self.tally().files_skipped += 1;
        self.progress.done_bytes(bytes);
        self.progress.done_file();
    }

    pub(crate) fn note_uploaded(&self, entry: DirEntry) {
        self.tally().last_uploaded = Some(entry);
    }

    /// Adds a notice.
    pub(crate) fn note(&self, notice: String) {
        self.tally().notices.push(notice);
    }

    /// Adds a notice that several files may have.
    pub(crate) fn note_once(&self, notice: String) {
        let mut tally = self.tally();
        if !tally.notices.contains(&notice) {
            tally.notices.push(notice);
        }
    }

    /// Adds what each replica of a file brought.
    pub(crate) fn note_sources(&self, reports: Vec<SourceReport>) {
        let mut tally = self.tally();
        for report in reports {
            let (count, failures) = tally.sources.entry(report.name).or_default();
            *count += report.bytes;
            *failures += report.failures;
        }
    }

    pub(crate) fn note_checksum(&self, checked: FileChecksum) {
        self.tally().checksums.push(checked);
    }

    pub(crate) fn note_resumed(&self, bytes: u64) {
        self.tally().bytes_resumed += bytes;
        self.progress.done_bytes(bytes);
    }

    /// Looks at the uploads that nothing has shown yet: at the `end` of the job, or when there are
    /// many of them. Those that are not as they should be fail; the journal has the others then.
    pub(crate) async fn look_at_unseen(&self, end: bool) {
        for (file, seen) in self.unseen.look(end).await {
            let done = seen.and_then(|seen| {
                file.check(&seen)?;
                let seen = FileVersion::of(&seen);
                let journal = self.journal.iter();
                journal.for_each(|it| it.done(&file.key, &file.version, &seen));
                Ok(())
            });
            if let Err(error) = done {
                let mut tally = self.tally();
                tally.files = tally.files.saturating_sub(1);
                tally.bytes = tally.bytes.saturating_sub(file.size);
                drop(tally);
                self.failed(file.source, error);
            }
        }
    }

    /// Of what was resumed, `bytes` were lost.
    pub(crate) fn note_lost(&self, bytes: u64) {
        let mut tally = self.tally();
        tally.bytes_resumed = tally.bytes_resumed.saturating_sub(bytes);
    }

    /// Counts `bytes` that arrived, of which `taken` were of use.
    pub(crate) fn note_arrived(&self, bytes: u64, taken: u64) {
        self.progress.arrived(bytes, bytes.saturating_sub(taken));
    }

    pub(crate) fn sync_folders(&self) {
        for folder in self.folders().iter() {
            // The files themselves are synced; not every file system can sync their names.
            drop(std::fs::File::open(folder).and_then(|folder| folder.sync_all()));
        }
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, CopySummary> {
        lock(&self.tally)
    }

    pub(crate) fn folders(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        lock(&self.folders)
    }
}
