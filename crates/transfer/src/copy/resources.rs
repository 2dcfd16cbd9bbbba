//! Resources that the files of a copy share: options, memory, threads, the journal, and the record
//! of results. A file knows these resources, but not its queue.

use crate::copy::resources::blocking_queue::BlockingQueue;
use crate::copy::resources::job_clock::JobClock;
use crate::copy::resources::memory_budget::MemoryBudget;
pub(crate) mod blocking_queue;
pub(crate) mod job_clock;
pub(crate) mod memory_budget;
pub(crate) mod results;
pub(crate) mod unseen;

use crate::copy::piece_size::WorkerRates;
use crate::copy::resources::results::CopyResults;
use crate::file::target::partial_file::FileMode;
use crate::journal::Journal;
use crate::options::CopyOptions;
use crate::progress::CopyProgress;
use crate::tree::group_sync::GroupSync;
use std::sync::Arc;

/// The resources of one copy.
#[derive(Debug)]
pub(crate) struct CopyResources {
    pub(crate) options: CopyOptions,
    /// The clock of pauses between attempts.
    pub(crate) clock: JobClock,
    /// Name of the job.
    pub(crate) job: String,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) journal: Option<Journal>,
    pub(crate) progress: Arc<CopyProgress>,
    pub(crate) results: CopyResults,
    pub(crate) rates: WorkerRates,
    pub(crate) group_sync: GroupSync,
    /// The work of small files that may block.
    pub(crate) blocking: Arc<BlockingQueue>,
}

impl CopyResources {
    /// The resources of a new job.
    pub(crate) fn new(
        job: &str,
        options: CopyOptions,
        journal: Option<Journal>,
        progress: Arc<CopyProgress>,
    ) -> Self {
        Self {
            budget: Arc::new(MemoryBudget::new(options.budget_bytes)),
            options,
            clock: JobClock::start(),
            job: Journal::name_of(journal.as_ref(), job),
            journal,
            results: CopyResults::new(Arc::clone(&progress)),
            progress,
            rates: WorkerRates::default(),
            group_sync: GroupSync::default(),
            blocking: Arc::default(),
        }
    }

    /// The permissions of a copy of a file with these.
    pub(crate) fn file_mode(&self, bits: u32) -> FileMode {
        FileMode::of_copy(bits, self.options.archive)
    }
}
