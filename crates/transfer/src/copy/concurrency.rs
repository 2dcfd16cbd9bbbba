//! The concurrency of a copy: the measurements that its [`ConcurrencyController`] reads, and the
//! numbers that it sets.

use crate::control::CopyControl;
use crate::copy::bandwidth_limiter::BandwidthLimiter;
use crate::copy::queue::{MAX_FOUND, Queue};
use crate::copy::resources::CopyResources;
use crate::copy::resources::job_clock::JobClock;
use crate::copy::resources::memory_budget::MemoryBudget;
use crate::file::FileCopy;
use crate::file::item::CopyItem;
use crate::progress::CopyProgress;
use hither_core::Clock;
use hither_tune::{
    ConcurrencyController, ConcurrencyLimits, ControlledJob, ControllerOptions, JobTotals,
    MovedFiles, TunedKnob, TuningMemory,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The controller of a copy.
pub(crate) type CopyConcurrency = ConcurrencyController<CopyJob>;

/// A copy, as its controller sees it.
#[derive(Debug)]
pub(crate) struct CopyJob {
    clock: JobClock,
    control: Arc<CopyControl>,
    /// Most files at a time by the options.
    transfers: Option<usize>,
    memory: Option<Arc<dyn TuningMemory>>,
    progress: Arc<CopyProgress>,
    budget: Arc<MemoryBudget>,
    queue: Arc<Queue>,
    /// Workers that have a piece, including those above the limit that finish theirs.
    fetching: AtomicUsize,
    workers_changed: Notify,
}

impl CopyJob {
    /// The controller of a new copy, whose progress shows the decisions.
    pub(crate) fn controlled(resources: &CopyResources, queue: &Arc<Queue>) -> CopyConcurrency {
        let CopyResources { options, progress, budget, .. } = resources;
        let limits = ControllerOptions {
            max_workers: options.max_workers,
            max_small_files: MAX_FOUND / 2,
            budget_bytes: options.budget_bytes,
        };
        let job = Self {
            clock: JobClock::start(),
            control: Arc::clone(&options.control),
            transfers: options.transfers,
            memory: options.tuning.clone(),
            progress: Arc::clone(progress),
            budget: Arc::clone(budget),
            queue: Arc::clone(queue),
            fetching: AtomicUsize::new(0),
            workers_changed: Notify::new(),
        };
        let controller = ConcurrencyController::new(limits, job);
        progress.show_tuners(controller.tuners());
        controller
    }

    /// Counts a piece that a worker has taken.
    pub(crate) fn begin_piece(&self) {
        self.fetching.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the count of a piece that a worker has finished.
    pub(crate) fn end_piece(&self) {
        self.fetching.fetch_sub(1, Ordering::AcqRel);
    }

    /// Completes when more workers may run, or samples are to be taken.
    pub(crate) async fn more_workers(&self) {
        self.workers_changed.notified().await;
    }
}

impl ControlledJob for CopyJob {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn limits(&self) -> ConcurrencyLimits {
        let control = &self.control;
        ConcurrencyLimits {
            workers: control.workers(),
            max_workers: control.max_workers(),
            files: self.transfers,
            is_part: control.is_part(),
        }
    }

    fn totals(&self) -> JobTotals {
        let figures = self.progress.figures();
        JobTotals {
            bytes_arrived: figures.bytes_arrived,
            bytes_moved_by_servers: self.progress.bytes_moved_by_servers(),
            files_done: figures.files_done,
            stages: self.progress.fetch.times(),
            fetching: self.fetching.load(Ordering::Acquire),
            open_files: self.queue.in_hand(),
            is_full: !self.budget.has_room(),
            has_small_files: self.queue.has_small(),
        }
    }

    fn memory(&self) -> Option<&dyn TuningMemory> {
        self.memory.as_deref()
    }

    fn workers_changed(&self) {
        self.workers_changed.notify_one();
    }

    fn take_back(&self, workers: usize) {
        self.queue.take_back(workers);
    }
}

/// The names of the servers between which a file moves.
pub(crate) fn servers_of(item: &CopyItem) -> String {
    format!("{} {}", item.storage.name(), item.target.server())
}

/// The files that move as `file` does.
pub(crate) fn moved_files<'a>(
    file: &'a FileCopy,
    limiter: Option<&Arc<BandwidthLimiter>>,
) -> MovedFiles<'a> {
    let item = file.item();
    let source = file.source();
    let target = file.target();
    let is_exact = target.is_exact();
    let knob = match target.upload() {
        Some(_) if target.is_stream() => Some(TunedKnob::Uploads),
        Some(_) => Some(TunedKnob::Blocks),
        None if item.local.is_none() && !is_exact => Some(TunedKnob::Connections),
        None => None,
    };
    MovedFiles {
        source: source.source(),
        replicas: source.replicas().map(|replicas| &**replicas),
        servers: servers_of(item),
        size: source.size(),
        block_bytes: file.blocks().block_bytes(),
        by_bandwidth: limiter.map_or(usize::MAX, |limiter| limiter.max_workers(item.directions())),
        // An upload limits the blocks in flight itself; other targets take any number.
        target_blocks: if is_exact { file.blocks().max_pieces() } else { 1 },
        knob,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::attempt;
    use crate::copy::queue::NextTask;
    use crate::copy::tests::scripted::{Scripted, context};
    use crate::destination::Target;
    use crate::options::CopyOptions;

    #[test]
    fn limits_that_change_while_a_copy_runs_come_before_its_options() {
        let shared = context(CopyOptions { transfers: Some(8), ..CopyOptions::default() });
        let limits = || shared.concurrency.job().limits();
        assert_eq!((limits().files, limits().workers, limits().is_part), (Some(8), None, false));
        let control = &shared.resources.options.control;
        control.set_workers(5);
        control.set_part(true);
        assert_eq!((limits().files, limits().workers, limits().is_part), (Some(8), Some(5), true));
    }

    #[test]
    fn totals_count_the_pieces_that_workers_have() {
        let shared = context(CopyOptions::default());
        let job = shared.concurrency.job();
        job.begin_piece();
        job.begin_piece();
        job.end_piece();
        assert_eq!((job.totals().fetching, job.totals().is_full), (1, false));
        shared.resources.budget.hold(shared.resources.options.budget_bytes);
        assert!(job.totals().is_full);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_tuned_for_files_from_servers() {
        let storage = Scripted::default();
        let shared = context(CopyOptions::default());
        shared.queue.found(storage.item(Target::Discard)).await;
        let take = || shared.queue.take(shared.work_request(1), shared.concurrency.file_limits());
        let NextTask::Open(item) = take() else { panic!("no file") };
        attempt::begin(&shared, *item).await;
        let NextTask::Piece(file, _) = take() else { panic!("no piece") };
        let moved = moved_files(&file, None);
        assert_eq!(moved.knob, Some(TunedKnob::Connections));
        assert_eq!((moved.by_bandwidth, moved.target_blocks), (usize::MAX, 1));
        let limiter = Arc::new(BandwidthLimiter::with_rate(1, Arc::new(JobClock::start())));
        assert!(moved_files(&file, Some(&limiter)).by_bandwidth < usize::MAX);
    }
}
