//! The concurrency of a job that moves files: workers, uploads, small files at a time, and files
//! that servers move between them.
//!
//! A [`ConcurrencyController`] sets four numbers of a [`ControlledJob`]:
//!
//! - *workers*, which open files and move pieces of them: so no more large files are copied at a
//!   time than there are workers, or than the user allows (`--transfers`,
//!   [`ConcurrencyLimits::files`]);
//! - *uploads*, the large files at a time that each go to their server in one request;
//! - *small files* at a time, which have no worker;
//! - files at a time that two *servers* move between them: a worker waits for each.
//!
//! Each number begins with the rule for the link ([`hither_load::connections`]), or with the result
//! of an earlier job between the same two servers ([`TuningMemory`]), and then follows measurements
//! ([`Tuner`](crate::Tuner)). The job calls [`ConcurrencyController::sample`] at
//! [`SAMPLE_INTERVAL`]. A worker above the number is parked, and its connection stays open.
//!
//! The limits that the user sets ([`ConcurrencyLimits`]) take precedence: with a set number of
//! workers or a limit of bandwidth, nothing is tuned.
//!
//! The controller is pure. It measures through the trait, starts no worker and opens no connection
//! but by [`Source::preconnect`].

mod job;
mod moved_files;
#[cfg(test)]
mod tests;
mod tuners;

pub use job::{
    ConcurrencyLimits, ControlledJob, ControllerOptions, FileLimits, JobTotals, TuningMemory,
    UploadState,
};
pub use moved_files::{MovedFiles, SmallFileLimits};
pub use tuners::JobTuners;

use crate::tuner::{Observation, PathSignal, StageTimes, TunedKnob, TunerLimits, TuningDecision};
use hither_core::Source;
use hither_load::connections;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tracing::debug;
use tuners::{TunedPath, TunerStart, WorkerSample};

/// Target of the log: that of the copies whose concurrency is controlled, so that one filter shows
/// all that a copy decides.
const LOG_TARGET: &str = "hither_transfer";
/// Interval at which samples are taken.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// The smallest number of workers: one is busy while the other waits.
const MIN_WORKERS: usize = 2;
/// The assumed latency of a path between two servers, which cannot be measured here. Servers report
/// their progress every five seconds, and an interval lasts eight latencies.
const THIRD_PARTY_LATENCY: Duration = Duration::from_secs(1);

/// The controller of the concurrency of one job.
#[derive(Debug)]
pub struct ConcurrencyController<J> {
    options: ControllerOptions,
    job: J,
    /// Workers that help, unless another number is set.
    workers: AtomicUsize,
    /// Large uploads at a time that help.
    uploads: AtomicUsize,
    /// Small files at a time that help.
    small_files: AtomicUsize,
    /// Files that servers are moving now.
    moving: AtomicUsize,
    tuners: Arc<JobTuners>,
}

impl<J: ControlledJob> ConcurrencyController<J> {
    /// The controller of `job`, before it begins.
    pub fn new(options: ControllerOptions, job: J) -> Self {
        let workers = connections::MIN_BULK.min(options.max_workers).max(1);
        Self {
            options,
            job,
            workers: AtomicUsize::new(workers),
            uploads: AtomicUsize::new(usize::MAX),
            small_files: AtomicUsize::new(connections::MIN_SMALL_FILES),
            moving: AtomicUsize::new(0),
            tuners: Arc::default(),
        }
    }

    /// The job.
    pub fn job(&self) -> &J {
        &self.job
    }

    /// The tuners, for those who show their decisions.
    pub fn tuners(&self) -> &Arc<JobTuners> {
        &self.tuners
    }

    /// Number of workers that are to run.
    pub fn workers(&self) -> usize {
        let limits = self.job.limits();
        let workers = limits.workers.unwrap_or_else(|| self.workers.load(Ordering::Acquire));
        workers.min(limits.max_workers)
    }

    /// Most files at a time.
    pub fn file_limits(&self) -> FileLimits {
        let ConcurrencyLimits { workers, files, .. } = self.job.limits();
        let large = files.unwrap_or_else(|| self.options.max_workers.max(self.workers())).max(1);
        // If the user sets the number of workers, the number of uploads is the same.
        let uploads =
            if workers.is_some() { usize::MAX } else { self.uploads.load(Ordering::Acquire) };
        let small = self.small_files.load(Ordering::Acquire);
        FileLimits {
            large: large.min(uploads),
            small: small.min(workers.unwrap_or(usize::MAX)).max(1),
            all: files.unwrap_or(usize::MAX).max(1),
        }
    }

    /// Returns true if samples are to be taken.
    pub fn is_tuning(&self) -> bool {
        self.tuners.is_running()
    }

    /// Returns true if more workers than by the rule for the link are being tried, or were measured
    /// to help.
    pub fn has_more_workers(&self) -> bool {
        self.tuners.has_more_workers()
    }

    /// Adapts the number of workers to a large file that was opened.
    pub fn opened(&self, files: &MovedFiles<'_>) {
        let cap = self.options.max_workers.min(files.by_bandwidth).max(1);
        let by_path = match files.replicas {
            Some(replicas) => replicas.bulk_connections(cap),
            None => connections::for_bulk(&files.source.link(), cap),
        };
        let wanted = by_path.max(files.target_blocks.min(cap));
        let is_tuned = self.job.limits().is_tuned() && files.by_bandwidth == usize::MAX;
        let was_tuning = self.is_tuning();
        let workers = match files.knob.filter(|_| is_tuned) {
            Some(TunedKnob::Connections) => self.tune_connections(files, wanted),
            Some(knob @ (TunedKnob::Uploads | TunedKnob::Blocks)) => {
                self.tune_uploads(knob, files, wanted)
            }
            Some(TunedKnob::SmallFiles | TunedKnob::ThirdPartyFiles) | None => wanted,
        };
        self.raise_workers(Some(&**files.source), workers);
        if !was_tuning {
            self.job.workers_changed();
        }
    }

    /// Adapts the number of small files at a time to one that was opened.
    pub fn opened_small(&self, files: &MovedFiles<'_>, limits: &SmallFileLimits) {
        let source = files.source;
        let by_source = if limits.is_local {
            usize::MAX
        } else {
            connections::for_small_files(&source.link(), source.max_small_files())
        };
        let rule = match by_source.min(limits.by_target) {
            usize::MAX => connections::MIN_SMALL_FILES,
            rule => rule,
        };
        let rule = rule.min(files.by_bandwidth).max(1);
        let is_tuned = self.job.limits().is_tuned() && !limits.is_local;
        let number = if is_tuned && files.by_bandwidth == usize::MAX {
            let by_target = source.max_small_files().min(limits.by_target);
            let max = by_target.min(self.options.max_small_files);
            let limits = TunerLimits { min: rule, max };
            let start = self.start(TunedKnob::SmallFiles, &files.servers, "small", rule, limits);
            self.tuners.small_files(TunerStart { path: files.path(), ..start })
        } else {
            rule
        };
        self.small_files.store(number.max(1), Ordering::Release);
    }

    /// Adapts the number of files that two servers move to one that they are asked to move. The
    /// names of the servers are `servers`.
    pub fn moves_between(&self, servers: &str) {
        if self.job.limits().workers.is_some() {
            return;
        }
        let max = self.options.max_workers;
        let was_tuning = self.is_tuning();
        let rule = connections::MIN_BULK.min(max);
        let limits = TunerLimits { min: MIN_WORKERS, max };
        let start = self.start(TunedKnob::ThirdPartyFiles, servers, "files", rule, limits);
        let files = self.tuners.to_server(start);
        self.raise_workers(None, files);
        if !was_tuning {
            self.job.workers_changed();
        }
    }

    /// Counts a file that servers begin to move.
    pub fn begin_move(&self) {
        self.moving.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a file that servers have moved, or have not.
    pub fn end_move(&self) {
        self.moving.fetch_sub(1, Ordering::AcqRel);
    }

    /// Lowers the limit after servers have refused to move one more file concurrently. Returns the
    /// number of files that they are moving.
    pub fn refuse_move(&self) -> usize {
        let others = self.moving.fetch_sub(1, Ordering::AcqRel).saturating_sub(1);
        self.tuners.refused_more(others);
        others
    }

    /// Raises the number of workers by the rule for the link of `source`.
    pub fn add_workers_for(&self, source: &dyn Source) {
        let wanted = connections::for_bulk(&source.link(), self.options.max_workers.max(1));
        self.raise_workers(Some(source), wanted);
    }

    /// Adapts the numbers of workers and small files to the measured throughput.
    pub fn sample(&self) {
        let memory = self.job.memory();
        let signal = memory.map_or_else(PathSignal::default, TuningMemory::path_signal);
        let totals = self.job.totals();
        let now = self.job.now();
        if let Some(knob) = self.tuners.knob()
            && let Some(sample) =
                self.tuners.sample_workers(now, self.observation(knob, &totals, signal))
        {
            self.apply(&sample);
        }
        if let Some(files) = self.tuners.sample_small_files(now, &totals, signal) {
            self.small_files.store(files, Ordering::Release);
        }
    }

    /// Stores the settled numbers, and returns the decisions.
    pub fn end(&self) -> Vec<TuningDecision> {
        self.tuners.end(self.job.memory())
    }

    fn tune_connections(&self, files: &MovedFiles<'_>, rule: usize) -> usize {
        let max = self.options.max_workers.min(files.source.max_connections()).max(rule);
        let limits = TunerLimits { min: MIN_WORKERS, max };
        let start = self.start(TunedKnob::Connections, &files.servers, files.class(), rule, limits);
        let is_replicated = files.replicas.is_some_and(|replicas| replicas.usable().len() > 1);
        self.tuners.workers(TunerStart { path: files.path(), ..start }, is_replicated)
    }

    /// Adapts the number of files, or blocks of them, that are uploaded at a time. Returns the
    /// number of workers, which is `wanted` by rule.
    fn tune_uploads(&self, knob: TunedKnob, files: &MovedFiles<'_>, wanted: usize) -> usize {
        if self.job.memory().is_none() {
            return wanted;
        }
        // A worker holds the block that it sends and the next one.
        let by_memory = self.options.budget_bytes / (2 * files.block_bytes).max(1);
        let max_workers = self.options.max_workers;
        let most = max_workers.min(usize::try_from(by_memory).unwrap_or(usize::MAX));
        let upload = |rule: usize, min: usize| {
            let limits = TunerLimits { min, max: most.max(rule) };
            self.tuners.to_server(self.start(knob, &files.servers, files.class(), rule, limits))
        };
        if knob == TunedKnob::Blocks {
            return upload(wanted, MIN_WORKERS);
        }
        // An interruption loses the whole file, so no more files are uploaded at a time than help.
        let blocks = files.size.div_ceil(files.block_bytes.max(1));
        let by_blocks = wanted / usize::try_from(blocks).unwrap_or(usize::MAX).max(1);
        let rule = connections::MIN_BULK.max(by_blocks).min(max_workers).max(1);
        // A trial of fewer concurrent files would have to wait until others have been uploaded.
        let uploads = upload(rule, rule);
        self.uploads.store(uploads, Ordering::Release);
        uploads.max(wanted)
    }

    /// The start of a tuner on the path to a server.
    fn start<'a>(
        &'a self,
        knob: TunedKnob,
        servers: &'a str,
        class: &'static str,
        rule: usize,
        limits: TunerLimits,
    ) -> TunerStart<'a> {
        TunerStart {
            path: TunedPath::ToServer,
            knob,
            servers,
            class,
            rule,
            limits,
            memory: self.job.memory(),
            job_time: self.job.now(),
            done: self.observation(knob, &self.job.totals(), PathSignal::default()).done,
        }
    }

    /// The totals of what a tuner of `knob` controls, but for the time.
    fn observation(&self, knob: TunedKnob, totals: &JobTotals, signal: PathSignal) -> Observation {
        let seen = Observation {
            stages: totals.stages,
            workers: self.workers(),
            active: totals.fetching,
            ..Observation::default()
        };
        match knob {
            TunedKnob::Connections => Observation { done: totals.bytes_arrived, signal, ..seen },
            TunedKnob::SmallFiles => Observation { done: totals.files_done, signal, ..seen },
            TunedKnob::ThirdPartyFiles => Observation {
                done: totals.bytes_moved_by_servers,
                latency: THIRD_PARTY_LATENCY,
                active: 0,
                ..seen
            },
            TunedKnob::Uploads | TunedKnob::Blocks => {
                let memory = self.job.memory();
                let state = memory.map_or_else(UploadState::default, TuningMemory::upload_state);
                let is_whole = knob == TunedKnob::Uploads;
                Observation {
                    done: state.confirmed_bytes,
                    latency: state.latency,
                    // Writing is what is measured.
                    stages: StageTimes { blocked: Duration::ZERO, ..totals.stages },
                    active: if is_whole { totals.open_files } else { totals.fetching },
                    signal: state.signal,
                    ..seen
                }
            }
        }
    }

    fn apply(&self, sample: &WorkerSample) {
        let WorkerSample { source, knob, setting, is_shared } = sample;
        let workers = *setting;
        if *knob == TunedKnob::Uploads {
            self.uploads.store(workers, Ordering::Release);
            // Workers above the limit finish their files, so that no server waits for the rest of
            // one.
            return self.raise_workers(None, workers);
        }
        let before = self.workers.load(Ordering::Acquire);
        if workers < before {
            debug!(target: LOG_TARGET, workers, before, is_shared, "workers parked");
            self.workers.store(workers, Ordering::Release);
            if *is_shared {
                self.job.take_back(workers);
            }
        } else {
            self.raise_workers(source.as_deref(), workers);
        }
    }

    fn raise_workers(&self, source: Option<&dyn Source>, wanted: usize) {
        let before = self.workers.fetch_max(wanted, Ordering::AcqRel);
        if wanted > before {
            let name = source.map(Source::name);
            debug!(target: LOG_TARGET, workers = wanted, before, source = name, "workers added");
            if let Some(source) = source {
                source.preconnect(wanted.min(source.max_connections()));
            }
            self.job.workers_changed();
        }
    }
}
