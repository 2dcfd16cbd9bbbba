//! The tuners of a job: one of its workers or uploads, and one of its small files at a time.

use super::LOG_TARGET;
use super::job::{JobTotals, TuningMemory};
use crate::tuner::{
    Observation, PathSignal, StageTimes, TunedKnob, Tuner, TunerLimits, TuningDecision,
};
use hither_core::Source;
use hither_core::sync::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::debug;

/// The path that a tuner measures.
#[derive(Debug)]
pub(super) enum TunedPath {
    /// From a server to here, by the clock of the source.
    Source(Arc<dyn Source>),
    /// To a server, or between two of them, by the clock of the job. Its latency is observed.
    ToServer,
}

impl TunedPath {
    /// The time, which is `job_time` by the clock of the job.
    fn now(&self, job_time: Duration) -> Duration {
        match self {
            Self::Source(source) => source.clock().now(),
            Self::ToServer => job_time,
        }
    }

    fn latency(&self, observed: Duration) -> Duration {
        match self {
            Self::Source(source) => source.link().latency().unwrap_or_default(),
            Self::ToServer => observed,
        }
    }
}

/// The start values of a tuner.
#[derive(Debug)]
pub(super) struct TunerStart<'a> {
    pub(super) path: TunedPath,
    pub(super) knob: TunedKnob,
    /// The names of the two servers.
    pub(super) servers: &'a str,
    /// The class of files. Each class has a stored setting of its own.
    pub(super) class: &'static str,
    /// The number by the rule for the link.
    pub(super) rule: usize,
    pub(super) limits: TunerLimits,
    pub(super) memory: Option<&'a dyn TuningMemory>,
    /// The time by the clock of the job.
    pub(super) job_time: Duration,
    /// Units that have been moved before.
    pub(super) done: u64,
}

impl TunerStart<'_> {
    /// Begins with the stored setting for the servers, or with the rule for the link.
    fn begin(self) -> RunningTuner {
        let Self { path, knob, servers, class, rule, limits, memory, job_time, done } = self;
        let key = format!("{} {servers} {class}", knob.name());
        let known = memory.and_then(|memory| memory.recall(&key));
        let least = limits.min.min(limits.max);
        let first = known.map_or(rule, |known| known.clamp(least, limits.max));
        let now = path.now(job_time);
        debug!(target: LOG_TARGET, key, rule, known, "tuning begins");
        let tuner = Tuner::new(knob, first, limits, done, now);
        let stages = StageTimes::default();
        RunningTuner { path, knob, tuner, rule, key, began: now, sampled: now, stages }
    }
}

/// A running tuner.
#[derive(Debug)]
struct RunningTuner {
    path: TunedPath,
    knob: TunedKnob,
    tuner: Tuner,
    /// The number by the rule for the link, the last time.
    rule: usize,
    /// The name under which the result is remembered.
    key: String,
    began: Duration,
    sampled: Duration,
    /// The times during which files waited for their turn, and during which they did not.
    stages: StageTimes,
}

impl RunningTuner {
    /// Adds the time since the last sample, during which the job could take no more files
    /// (`is_full`), or had enough of them (`has_enough`). Returns the sums.
    fn spent(&mut self, job_time: Duration, is_full: bool, has_enough: bool) -> StageTimes {
        let passed = self.path.now(job_time).saturating_sub(self.sampled);
        match (is_full, has_enough) {
            (true, _) => self.stages.blocked += passed,
            (false, true) => self.stages.busy += passed,
            (false, false) => self.stages.starved += passed,
        }
        self.stages
    }

    fn observe(&mut self, job_time: Duration, seen: Observation) {
        self.sampled = self.path.now(job_time);
        let latency = self.path.latency(seen.latency);
        self.tuner.observe(&Observation { now: self.sampled, latency, ..seen });
    }

    /// Raises the setting if the rule for the link returns more than before: until the first
    /// measurement, or (`is_newer`) if the rule uses a newer value that no measurement shows.
    fn follow(&mut self, rule: usize, is_newer: bool) {
        if rule > self.rule {
            self.rule = rule;
            if is_newer || self.tuner.decisions().next().is_none() {
                self.tuner.raise(rule);
            }
        }
    }
}

/// The tuners of a job; none before its first file from or to a server.
#[derive(Debug, Default)]
pub struct JobTuners {
    workers: Mutex<Option<RunningTuner>>,
    small_files: Mutex<Option<RunningTuner>>,
}

/// The outcome of a sample of the workers.
#[derive(Debug)]
pub(super) struct WorkerSample {
    /// The source of the files; none if the path is one to a server.
    pub(super) source: Option<Arc<dyn Source>>,
    pub(super) knob: TunedKnob,
    /// Its setting from now on.
    pub(super) setting: usize,
    /// Other flows share the path.
    pub(super) is_shared: bool,
}

impl JobTuners {
    /// The decisions so far, with times since their tuner began.
    #[must_use]
    pub fn decisions(&self) -> Vec<TuningDecision> {
        let mut decisions = Vec::new();
        for running in [&self.workers, &self.small_files] {
            let running = lock(running);
            let Some(running) = &*running else { continue };
            let since = |it: &TuningDecision| TuningDecision {
                at: it.at.saturating_sub(running.began),
                ..*it
            };
            decisions.extend(running.tuner.decisions().map(since));
        }
        decisions
    }

    pub(super) fn is_running(&self) -> bool {
        lock(&self.workers).is_some() || lock(&self.small_files).is_some()
    }

    pub(super) fn has_more_workers(&self) -> bool {
        lock(&self.workers).as_ref().is_some_and(|it| it.tuner.setting() > it.rule)
    }

    /// The knob by which workers are tuned, if they are.
    pub(super) fn knob(&self) -> Option<TunedKnob> {
        lock(&self.workers).as_ref().map(|running| running.knob)
    }

    /// The number of workers that fetch. Starts its tuner, unless it runs already.
    pub(super) fn workers(&self, start: TunerStart<'_>, is_replicated: bool) -> usize {
        let mut running = lock(&self.workers);
        if let Some(running) = &mut *running
            && matches!(running.path, TunedPath::Source(_))
        {
            running.follow(start.rule, is_replicated);
            return running.tuner.setting();
        }
        running.insert(start.begin()).tuner.setting()
    }

    /// The same for concurrent small files. Their number is never below that of the rule.
    pub(super) fn small_files(&self, start: TunerStart<'_>) -> usize {
        let mut running = lock(&self.small_files);
        if let Some(running) = &mut *running {
            let max = start.limits.max;
            // The known limit of the server may have risen since the tuner began.
            running.tuner.set_max(max);
            running.follow(start.rule.min(max), true);
            return running.tuner.setting().min(max);
        }
        running.insert(start.begin()).tuner.setting()
    }

    /// The same for uploads.
    pub(super) fn to_server(&self, start: TunerStart<'_>) -> usize {
        let mut running = lock(&self.workers);
        // Files that servers did not move go through this machine.
        let is_other =
            |it: &RunningTuner| it.knob == TunedKnob::ThirdPartyFiles && it.knob != start.knob;
        if running.as_ref().is_some_and(is_other) {
            *running = None;
        }
        running.get_or_insert_with(|| start.begin()).tuner.setting()
    }

    /// Records that servers which move `files` at a time have refused one more.
    pub(super) fn refused_more(&self, files: usize) {
        if let Some(running) = &mut *lock(&self.workers) {
            running.tuner.lower_max(files);
        }
    }

    /// Records the bytes that workers have transferred.
    pub(super) fn sample_workers(
        &self,
        job_time: Duration,
        seen: Observation,
    ) -> Option<WorkerSample> {
        let mut running = lock(&self.workers);
        let running = running.as_mut()?;
        if running.knob == TunedKnob::Uploads {
            // The number of files counts, not that of the workers that read ahead for them.
            let has_enough = seen.active >= running.tuner.setting();
            let stages = running.spent(job_time, false, has_enough);
            running.observe(job_time, Observation { stages, workers: 1, ..seen });
        } else {
            running.observe(job_time, seen);
        }
        let source = match &running.path {
            TunedPath::Source(source) => Some(Arc::clone(source)),
            TunedPath::ToServer => None,
        };
        Some(WorkerSample {
            source,
            knob: running.knob,
            setting: running.tuner.setting(),
            is_shared: running.tuner.is_sharing(),
        })
    }

    /// Records which files are done. Returns the number of small files at a time if it changes.
    pub(super) fn sample_small_files(
        &self,
        job_time: Duration,
        totals: &JobTotals,
        signal: PathSignal,
    ) -> Option<usize> {
        let mut running = lock(&self.small_files);
        let running = running.as_mut()?;
        let stages = running.spent(job_time, totals.is_full, totals.has_small_files);
        let before = running.tuner.setting();
        let done = totals.files_done;
        let seen = Observation { done, stages, workers: 1, signal, ..Observation::default() };
        running.observe(job_time, seen);
        Some(running.tuner.setting()).filter(|setting| *setting != before)
    }

    /// Stores the settled numbers, and returns the decisions.
    pub(super) fn end(&self, memory: Option<&dyn TuningMemory>) -> Vec<TuningDecision> {
        let decisions = self.decisions();
        for running in [&self.workers, &self.small_files] {
            let Some(running) = lock(running).take() else { continue };
            if let (Some(memory), Some(setting)) = (memory, running.tuner.settled()) {
                memory.remember(&running.key, setting);
            }
        }
        decisions
    }
}
