//! A copy from start to summary.
//!
//! A number of workers (`worker`), each a task of its own, take work from one [`Queue`]: they open
//! files, fetch and write pieces, and finish files that are complete. Walkers (`walk`) fill the
//! queue while workers empty it. One large file occupies all workers with its pieces; of many small
//! files each worker has its own. The number of workers follows from the link once the first
//! response has shown it, and then from the throughput measured with other numbers
//! ([`hither_tune::ConcurrencyController`]).
//!
//! Small files out of a tree move in batches where the server has streams of them
//! ([`crate::tree`]).
//!
//! A file that fails does not stop the others. [`MemoryBudget`] bounds the bytes that have arrived
//! and are not written yet. Workers wait for each other only for that memory, and where a target
//! takes blocks in order.

pub(crate) mod archive;
pub(crate) mod attempt;
pub(crate) mod bandwidth_limiter;
pub(crate) mod concurrency;
pub(crate) mod context;
pub(crate) mod listed;
pub(crate) mod piece_size;
pub(crate) mod queue;
pub(crate) mod resources;
pub(crate) mod setup;
pub(crate) mod small_slot;
pub(crate) mod target_directory;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod walk;
pub(crate) mod worker;

use crate::copy::context::CopyContext;
use crate::copy::queue::Queue;
use crate::copy::resources::CopyResources;
use crate::destination::{CopyPath, Destination};
use crate::journal::Journal;
use crate::options::{CopyOptions, Verify};
use crate::progress::CopyProgress;
use crate::server_actions::staging;
use crate::summary::CopySummary;
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result};
use std::sync::Arc;
use tokio::task::JoinSet;
use tracing::debug;

/// Copies `sources` to `destination` on the current tokio runtime, including its blocking threads.
/// Dropping the future stops the copy; with [`CopyOptions::journal`] the next one resumes it.
///
/// # Errors
///
/// Errors of the job as a whole: [`ErrorKind::Invalid`] for sources and destination that do not go
/// together, and errors from the destination or the journal. Errors of single files are in the
/// summary.
pub async fn copy(
    sources: Vec<CopyPath>,
    destination: Destination,
    options: CopyOptions,
    progress: Arc<CopyProgress>,
) -> Result<CopySummary> {
    if matches!(options.verify, Verify::Value(_)) && (sources.len() != 1 || options.recursive) {
        let message = "a checksum value was given, but it fits only a copy of one file";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    setup::refuse_shared_targets(&sources, &destination)?;
    let job = setup::job_name(&sources, &destination);
    let is_persistent = matches!(destination, Destination::Path(_) | Destination::File(_));
    let folder = options.journal.as_ref().filter(|_| is_persistent);
    let mut notices = Vec::new();
    let opened = folder.map(|folder| Journal::open(folder, &job, &mut notices)).transpose()?;
    let mut journal = opened.flatten();
    let into = match journal.as_ref().and_then(Journal::goes_into) {
        Some(into) => into,
        None => {
            let into = setup::goes_into(&destination, sources.len() > 1, options.recursive).await?;
            journal = journal.and_then(|journal| journal.begin(&job, into, &mut notices));
            into
        }
    };
    // Files that follow each other on one output must not mix.
    let one_at_a_time = matches!(destination, Destination::Output);
    let max_open = if one_at_a_time { 1 } else { usize::MAX };
    // The stager is one more finder: it queues files when they are on disk.
    let queue = Queue::new(max_open, sources.len() + usize::from(options.stager.is_some()));
    let shared = CopyContext::new(&job, options, queue, journal, progress);
    shared.results().summary().notices = notices;
    if into {
        setup::refuse_alike_targets(&sources, &destination).await?;
    }
    let mut finders = JoinSet::new();
    for source in sources {
        let target = destination.target(&source, into)?;
        let shared = Arc::clone(&shared);
        finders.spawn(async move {
            let name = source.name();
            if let Err(error) = setup::begin(&shared, source, target).await {
                shared.results().failed(name, error);
            }
            shared.queue.found_all();
        });
    }
    run(&shared, finders).await;
    conclude(shared)
}

/// Ends a queue when its copy ends or is dropped.
struct ClosesQueue<'a>(&'a Queue);

impl Drop for ClosesQueue<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Copies what `finders` find, until they and all copies have ended.
pub(crate) async fn run(shared: &Arc<CopyContext>, finders: JoinSet<()>) {
    let work = async {
        // After a panic no worker takes files from the queue, and finders would wait without end.
        let _closes = ClosesQueue(&shared.queue);
        worker::run_all(shared).await;
    };
    let find = async {
        finders.join_all().await;
        if let Some(stager) = &shared.resources.options.stager {
            staging::run(shared, &**stager).await;
            shared.queue.found_all();
        }
    };
    futures_util::future::join(work, find).await;
    let resources = &shared.resources;
    resources.results.confirm_unseen(true, resources.journal.as_ref()).await;
    let missing = shared.resources.options.filter.missing();
    shared.results().summary().failures.extend(missing);
    let attributes = std::mem::take(&mut *lock(&shared.attributes));
    for (target, error) in archive::set_attributes(&attributes) {
        shared.results().failed(target, error);
    }
    shared.results().sync_folders();
}

/// Returns the summary, and removes the journal if nothing is left to do.
pub(crate) fn conclude(shared: Arc<CopyContext>) -> Result<CopySummary> {
    let tuning = shared.concurrency.end();
    let resources = Arc::into_inner(shared).and_then(|it| Arc::into_inner(it.resources));
    let Some(CopyResources { results, progress, journal, .. }) = resources else {
        let what = "a task of the copy is still running after its end";
        return Err(Error::new(ErrorKind::Local, what));
    };
    let mut summary = results.into_summary();
    summary.tuning = tuning;
    summary.bytes_arrived = progress.figures().bytes_arrived;
    summary.bytes_resent += progress.useless_bytes();
    debug!(stages = ?progress.stages(), "copy ended");
    if let Some(journal) = journal {
        if let Some(error) = journal.write_error() {
            let notice = format!("{error}: what was copied after that cannot be resumed");
            summary.notices.push(notice);
        }
        if summary.failures.is_empty() {
            journal.remove();
        }
    }
    Ok(summary)
}
