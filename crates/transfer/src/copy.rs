//! A copy from beginning to end.
//!
//! A number of workers, each a task of its own, take work from one [`Queue`]: they open files, fetch and write pieces, and
//! finish what has become complete. Walkers fill the queue while workers empty it. One large file occupies all workers with
//! its blocks; of many small ones each worker has its own; what is in between sorts itself out. How many workers there are
//! follows from the path once the first answer has shown it ([`hither_core::workers::bulk`]).
//!
//! A file that fails does not stop the others. What bounds memory is [`MemoryBudget`]: bytes that came and are not written.

pub(crate) mod memory_budget;
pub(crate) mod piece_size;
pub(crate) mod queue;
pub(crate) mod setup;
pub(crate) mod walk;
use crate::copy::memory_budget::MemoryBudget;
use crate::copy::piece_size::WorkerRates;
use crate::copy::queue::{NextTask, Queue};
use crate::destination::{CopyPath, Destination};
use crate::file::fetch;
use crate::file::finish;
use crate::file::finish::Finished;
use crate::file::open;
use crate::file::open::OpenResult;
use crate::file::{CopyItem, FileCopy, Piece};
use crate::journal::Journal;
use crate::options::{CopyOptions, Verify};
use crate::progress::CopyProgress;
use crate::summary::{CopyFailure, CopySummary, FileChecksum};
use hither_core::sync::lock;
use hither_core::tune::connections;
use hither_core::{DirEntry, Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What all tasks of a job share.
#[derive(Debug)]
pub(crate) struct CopyContext {
    pub(crate) options: CopyOptions,
    /// The text that stands for the job.
    pub(crate) job: String,
    pub(crate) budget: MemoryBudget,
    pub(crate) journal: Option<Journal>,
    pub(crate) progress: Arc<CopyProgress>,
    pub(crate) queue: Queue,
    pub(crate) pace: WorkerRates,
    tally: Mutex<CopySummary>,
    /// Local directories with new names in them, to be put on the disk at the end.
    folders: Mutex<BTreeSet<PathBuf>>,
    workers: AtomicUsize,
    workers_changed: Notify,
}

/// How often a worker without work looks whether somebody needs relief.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// Copies `sources` to `destination`. Runs on the current tokio runtime, of whose blocking threads it makes use; dropping
/// the future ends it, and leaves what [`CopyOptions::journal`] needs to go on.
///
/// # Errors
///
/// What concerns the job as a whole: [`ErrorKind::Invalid`] for sources and destination that do not go together, and
/// whatever looking at the destination or opening the journal fails with. What concerns single files is in the summary.
pub async fn copy(
    sources: Vec<CopyPath>,
    destination: Destination,
    options: CopyOptions,
    progress: Arc<CopyProgress>,
) -> Result<CopySummary> {
    if matches!(options.verify, Verify::Value(_)) && (sources.len() != 1 || options.recursive) {
        let message = "one value of a checksum is given, so one file must be copied";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let job = setup::job_name(&sources, &destination);
    let lasting = matches!(destination, Destination::Place(_) | Destination::File(_));
    let folder = options.journal.as_ref().filter(|_| lasting);
    let journal = folder.map(|folder| Journal::open(folder, &job)).transpose()?;
    let into = match journal.as_ref().and_then(Journal::goes_into) {
        Some(into) => into,
        None => {
            let into = setup::goes_into(&destination, sources.len() > 1).await?;
            if let Some(journal) = &journal {
                journal.begin(&job, into)?;
            }
            into
        }
    };
    // Files that follow each other on one output must not mix.
    let one_at_a_time = matches!(destination, Destination::Output);
    let max_open = if one_at_a_time { 1 } else { options.max_workers.max(1) };
    let shared = Arc::new(CopyContext {
        budget: MemoryBudget::new(options.budget_bytes),
        queue: Queue::new(max_open, sources.len()),
        pace: WorkerRates::default(),
        workers: AtomicUsize::new(connections::MIN_BULK.min(options.max_workers).max(1)),
        options,
        job,
        journal,
        progress,
        tally: Mutex::default(),
        folders: Mutex::default(),
        workers_changed: Notify::new(),
    });
    let mut walkers = JoinSet::new();
    for source in sources {
        let target = destination.target(&source, into)?;
        let shared = Arc::clone(&shared);
        walkers.spawn(async move {
            let name = source.name();
            if let Err(error) = setup::begin(&shared, source, target).await {
                shared.failed(name, error);
            }
            shared.queue.found_all();
        });
    }
    run_workers(&shared).await;
    walkers.join_all().await;
    shared.sync_folders();
    conclude(shared)
}

/// The summary; and the journal goes if nothing is left to do.
fn conclude(shared: Arc<CopyContext>) -> Result<CopySummary> {
    let shared = Arc::try_unwrap(shared).map_err(|_| {
        Error::new(ErrorKind::Local, "a task of the copy is still running after its end")
    })?;
    let mut summary = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.bytes_arrived = shared.progress.figures().bytes_arrived;
    summary.bytes_resent += shared.progress.useless_bytes();
    if let Some(journal) = shared.journal
        && summary.failures.is_empty()
    {
        journal.remove();
    }
    Ok(summary)
}

/// Runs as many workers as are wanted by now, until there is nothing more to do.
async fn run_workers(shared: &Arc<CopyContext>) {
    let mut running = JoinSet::new();
    let mut started = 0;
    loop {
        while started < shared.workers() {
            started += 1;
            running.spawn(run_worker(Arc::clone(shared), started));
        }
        tokio::select! {
            ended = running.join_next() => {
                match ended {
                    None => return,
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        let failure = Error::new(ErrorKind::Local, "a worker has died").with_source(error);
                        shared.failed("the copy".to_owned(), failure);
                        return;
                    }
                }
            }
            () = shared.workers_changed.notified() => {}
        }
    }
}

async fn run_worker(shared: Arc<CopyContext>, worker: usize) {
    loop {
        let mut changed = pin!(shared.queue.changed());
        // From here on, not from when it is waited for: nothing that happens in between is missed.
        changed.as_mut().enable();
        match shared.queue.take(worker) {
            NextTask::Over => {
                shared.queue.more();
                return;
            }
            NextTask::Wait => {
                // Whoever has to wait looks around from time to time: who is slow shows only with time.
                drop(tokio::time::timeout(LOOK_AROUND, changed).await);
            }
            NextTask::Open(item) => shared.open(item).await,
            NextTask::Piece(file, piece) => shared.fetch(worker, &file, &piece).await,
        }
    }
}

impl CopyContext {
    async fn open(self: &Arc<Self>, item: CopyItem) {
        match open::open(self, item.clone()).await {
            Ok(OpenResult::File(file)) => {
                self.want_workers(&file);
                self.queue.opened(Arc::clone(&file));
                if file.is_to_be_finished() {
                    self.finish(&file).await;
                }
            }
            Ok(OpenResult::Skipped(bytes)) => {
                self.tally().files_skipped += 1;
                self.progress.done_bytes(bytes);
                self.progress.done_file();
                self.queue.closed(None, None);
            }
            Err(error) => {
                self.failed(item.name, error);
                self.queue.closed(None, None);
            }
        }
    }

    async fn fetch(self: &Arc<Self>, worker: usize, file: &Arc<FileCopy>, piece: &Arc<Piece>) {
        let result = fetch::run(file, piece).await;
        self.budget.release(piece.inlet.waiting_bytes());
        if file.is_blind {
            file.dropped(piece.inlet.arrived());
        }
        match result {
            Ok(()) if file.ended(worker, piece) => self.finish(file).await,
            // For the workers that wait because no more pieces of this file may be on their way.
            Ok(()) => self.queue.more(),
            Err(error) => {
                if file.give_up() {
                    self.lost(file, error).await;
                }
            }
        }
    }

    async fn finish(self: &Arc<Self>, file: &Arc<FileCopy>) {
        match finish::finish(file).await {
            Ok(Finished::Done) => {
                let mut tally = self.tally();
                tally.files += 1;
                tally.bytes += file.version.size;
                drop(tally);
                if let Some(folder) = file.item.target.folder() {
                    self.folders().insert(folder.to_owned());
                }
                self.progress.done_file();
                self.queue.closed(Some(file), None);
            }
            Ok(Finished::Again) => {
                self.progress.undone_bytes(file.version.size);
                self.tally().bytes_resent += file.version.size;
                self.queue.more();
            }
            Err(error) => self.lost(file, error).await,
        }
    }

    /// A file failed. If it changed, it is copied anew, once.
    async fn lost(self: &Arc<Self>, file: &Arc<FileCopy>, error: Error) {
        let again = error.kind() == ErrorKind::Changed && !file.item.restarted;
        let can_go_on = self.journal.is_some() && file.can_go_on().await;
        if again || !can_go_on {
            finish::abandon(file).await;
        }
        let item = again.then(|| {
            self.progress.undone_bytes(file.written_bytes());
            self.note(format!("{error}: begun again"));
            CopyItem { entry: None, restarted: true, ..file.item.clone() }
        });
        if item.is_none() {
            self.failed(file.item.name.clone(), error);
        }
        self.queue.closed(Some(file), item);
    }

    /// Workers that are wanted by now.
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::Acquire)
    }

    /// The path to where the file is, or goes, may be worth more workers.
    fn want_workers(&self, file: &FileCopy) {
        let link = file.source.link();
        let cap = self.options.max_workers.max(1);
        // An upload says itself how many blocks at a time are of use; other targets take what comes.
        let by_target = if file.is_exact() { file.max_pieces.min(cap) } else { 1 };
        let wanted = connections::for_bulk(&link, cap).max(by_target);
        let before = self.workers.fetch_max(wanted, Ordering::AcqRel);
        if wanted > before {
            file.source.preconnect(wanted.min(file.source.max_connections()));
            self.workers_changed.notify_one();
        }
    }

    /// A file was found.
    pub(crate) fn found(&self, item: CopyItem) {
        self.progress.found_file();
        self.progress.found_bytes(item.entry.as_ref().map_or(0, |entry| entry.size));
        self.queue.found(item);
    }

    /// A directory was made.
    pub(crate) fn made_directory(&self) {
        self.tally().directories += 1;
    }

    /// Something could not be copied.
    pub(crate) fn failed(&self, source: String, error: Error) {
        self.progress.done_file();
        self.tally().failures.push(CopyFailure { source, error });
    }

    pub(crate) fn note_uploaded(&self, entry: DirEntry) {
        self.tally().last_uploaded = Some(entry);
    }

    pub(crate) fn note(&self, notice: String) {
        self.tally().notices.push(notice);
    }

    pub(crate) fn note_checksum(&self, checked: FileChecksum) {
        self.tally().checksums.push(checked);
    }

    pub(crate) fn note_resumed(&self, bytes: u64) {
        self.tally().bytes_resumed += bytes;
        self.progress.done_bytes(bytes);
    }

    /// Bytes of files came in, and so many of them were of use.
    pub(crate) fn note_arrived(&self, bytes: u64, taken: u64) {
        self.progress.arrived(bytes, bytes.saturating_sub(taken));
    }

    fn sync_folders(&self) {
        for folder in self.folders().iter() {
            // The files themselves are on the disk; that their names are, not every file system can promise.
            drop(std::fs::File::open(folder).and_then(|folder| folder.sync_all()));
        }
    }

    fn tally(&self) -> MutexGuard<'_, CopySummary> {
        lock(&self.tally)
    }

    fn folders(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        lock(&self.folders)
    }
}
