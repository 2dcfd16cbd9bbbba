//! Tuners of a copy: its workers, and its small files at a time, while files come from a server;
//! the files or blocks at a time that are uploaded; or the files at a time that two servers move
//! between them.
//!
//! All begin with what the link is worth ([`hither_load::connections`]), or with what an
//! earlier copy between the same two servers settled on ([`TuningMemory`]), and go on by
//! measurement ([`hither_tune`]). Whoever runs the workers takes samples. A worker
//! that the tuner does not use is parked, and its connection stays open in the pool.

use crate::options::TuningMemory;
use hither_core::Source;
use hither_core::sync::lock;
use hither_tune::{
    Observation, PathSignal, StageTimes, TunedKnob, Tuner, TunerLimits, TuningDecision,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tracing::debug;

/// Interval at which samples are taken.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);
/// The fewest workers: one is busy while the other waits.
const MIN_WORKERS: usize = 2;
/// Size from which on a file is large, in bytes.
const LARGE_BYTES: u64 = 64 << 20;

/// The eighth part of the time in which files moved by servers show a rate: a server tells of its
/// progress every five seconds.
pub(crate) const THIRD_PARTY_LATENCY: Duration = Duration::from_secs(1);

/// The path that a tuner measures.
#[derive(Debug, Clone)]
enum TunedPath {
    /// From a server to here.
    Source(Arc<dyn Source>),
    /// To a server, or between two of them, since this time. Whoever observes knows its latency.
    ToServer(Instant),
}

impl TunedPath {
    fn now(&self) -> Duration {
        match self {
            Self::Source(source) => source.clock().now(),
            Self::ToServer(began) => began.elapsed(),
        }
    }

    fn latency(&self, observed: Duration) -> Duration {
        match self {
            Self::Source(source) => source.link().latency().unwrap_or_default(),
            Self::ToServer(_) => observed,
        }
    }
}

/// The outcome of a sample of the workers.
#[derive(Debug)]
pub(crate) struct WorkerSample {
    /// The source of the files; none if the path is one to a server.
    pub(crate) source: Option<Arc<dyn Source>>,
    pub(crate) knob: TunedKnob,
    /// Its setting from now on.
    pub(crate) setting: usize,
    /// Others share the path.
    pub(crate) is_shared: bool,
}

/// The files that a tuner begins with.
#[derive(Debug)]
pub(crate) struct TunedFiles<'a> {
    pub(crate) source: &'a Arc<dyn Source>,
    /// The names of the two servers.
    pub(crate) servers: String,
    /// The size of the first one, in bytes.
    pub(crate) size: u64,
    /// They have replicas on other servers, which join in one by one.
    pub(crate) is_replicated: bool,
    pub(crate) memory: Option<&'a dyn TuningMemory>,
    /// Units that had been moved before.
    pub(crate) done: u64,
}

/// The tuners of a copy; none before its first file from a server.
#[derive(Debug, Default)]
pub(crate) struct CopyTuning {
    workers: Mutex<Option<RunningTuner>>,
    small_files: Mutex<Option<RunningTuner>>,
}

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
    /// Times in which files waited for their turn, and in which they did not.
    stages: StageTimes,
}

impl RunningTuner {
    /// Begins with what is remembered for the servers, or by the rule for the link.
    fn begin(
        path: TunedPath,
        knob: TunedKnob,
        servers: &str,
        class: &str,
        (rule, limits): (usize, TunerLimits),
        memory: Option<&dyn TuningMemory>,
        done: u64,
    ) -> Self {
        let key = format!("{} {servers} {class}", knob.name());
        let known = memory.and_then(|memory| memory.recall(&key));
        let least = limits.min.min(limits.max);
        let first = known.map_or(rule, |known| known.clamp(least, limits.max));
        let now = path.now();
        debug!(key, rule, known, "tuning begins");
        Self {
            path,
            knob,
            tuner: Tuner::new(knob, first, limits, done, now),
            rule,
            key,
            began: now,
            sampled: now,
            stages: StageTimes::default(),
        }
    }

    /// Adds the time since the last sample, in which whoever takes files took no more (`is_full`),
    /// or there were enough of them (`has_enough`). Returns the sums.
    fn spent(&mut self, is_full: bool, has_enough: bool) -> StageTimes {
        let passed = self.path.now().saturating_sub(self.sampled);
        match (is_full, has_enough) {
            (true, _) => self.stages.blocked += passed,
            (false, true) => self.stages.busy += passed,
            (false, false) => self.stages.starved += passed,
        }
        self.stages
    }

    fn observe(&mut self, seen: Observation) {
        self.sampled = self.path.now();
        let latency = self.path.latency(seen.latency);
        self.tuner.observe(&Observation { now: self.sampled, latency, ..seen });
    }

    /// Raises the setting if the rule for the link says more than it did: until something was
    /// measured, or (`is_newer`) if it has learned what no measurement shows.
    fn follow(&mut self, rule: usize, is_newer: bool) {
        if rule > self.rule {
            self.rule = rule;
            if is_newer || self.tuner.decisions().next().is_none() {
                self.tuner.raise(rule);
            }
        }
    }
}

impl CopyTuning {
    /// Returns true if samples are to be taken.
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.workers).is_some() || lock(&self.small_files).is_some()
    }

    /// Returns true if more workers than the link is worth are tried, or have been found to help.
    pub(crate) fn has_more_workers(&self) -> bool {
        lock(&self.workers).as_ref().is_some_and(|it| it.tuner.setting() > it.rule)
    }

    /// The number of workers where the rule for the link says `rule` and `max` are allowed. Begins
    /// to tune it.
    pub(crate) fn workers(&self, files: &TunedFiles<'_>, rule: usize, max: usize) -> usize {
        let mut running = lock(&self.workers);
        if let Some(running) = &mut *running
            && matches!(running.path, TunedPath::Source(_))
        {
            running.follow(rule, files.is_replicated);
            return running.tuner.setting();
        }
        let max = max.min(files.source.max_connections()).max(rule);
        let limits = TunerLimits { min: MIN_WORKERS, max };
        let begun = files.begin(TunedKnob::Connections, files.class(), rule, limits);
        running.insert(begun).tuner.setting()
    }

    /// The same for small files at a time, of which there are never fewer than by the rule.
    pub(crate) fn small_files(&self, files: &TunedFiles<'_>, rule: usize, max: usize) -> usize {
        let mut running = lock(&self.small_files);
        if let Some(running) = &mut *running {
            // The server may take more than it had shown when the tuner began.
            running.tuner.set_max(max);
            running.follow(rule.min(max), true);
            return running.tuner.setting().min(max);
        }
        let limits = TunerLimits { min: rule, max };
        let begun = files.begin(TunedKnob::SmallFiles, "small", rule, limits);
        running.insert(begun).tuner.setting()
    }

    /// The number of files at a time that two servers move, the names of which are `servers`, when
    /// `done` bytes have been moved. Begins to tune it.
    pub(crate) fn third_party_files(
        &self,
        servers: &str,
        memory: Option<&dyn TuningMemory>,
        rule: usize,
        max: usize,
        done: u64,
    ) -> usize {
        let limits = TunerLimits { min: MIN_WORKERS, max };
        let knob = TunedKnob::ThirdPartyFiles;
        self.to_server(knob, servers, "files", (rule, limits), memory, done)
    }

    /// The number of files or blocks (`knob`) like those of `files` that are uploaded at a time.
    /// Begins to tune it.
    pub(crate) fn uploads(
        &self,
        files: &TunedFiles<'_>,
        knob: TunedKnob,
        rule: usize,
        max: usize,
    ) -> usize {
        // A trial of fewer files at a time would wait until others have been uploaded.
        let min = if knob == TunedKnob::Uploads { rule } else { MIN_WORKERS };
        let by_rule = (rule, TunerLimits { min, max });
        self.to_server(knob, &files.servers, files.class(), by_rule, files.memory, files.done)
    }

    fn to_server(
        &self,
        knob: TunedKnob,
        servers: &str,
        class: &str,
        by_rule: (usize, TunerLimits),
        memory: Option<&dyn TuningMemory>,
        done: u64,
    ) -> usize {
        let mut running = lock(&self.workers);
        // Files that servers did not move go through here.
        let is_other = |it: &RunningTuner| it.knob == TunedKnob::ThirdPartyFiles && it.knob != knob;
        if running.as_ref().is_some_and(is_other) {
            *running = None;
        }
        let running = running.get_or_insert_with(|| {
            let path = TunedPath::ToServer(Instant::now());
            RunningTuner::begin(path, knob, servers, class, by_rule, memory, done)
        });
        running.tuner.setting()
    }

    /// Notes that servers which move `files` at a time have refused one more.
    pub(crate) fn refused_more(&self, files: usize) {
        if let Some(running) = &mut *lock(&self.workers) {
            running.tuner.lower_max(files);
        }
    }

    /// The number that workers are tuned by, if they are.
    pub(crate) fn knob(&self) -> Option<TunedKnob> {
        lock(&self.workers).as_ref().map(|running| running.knob)
    }

    /// Records what workers brought, but for the time; and for the latency, if they fetch from a
    /// server.
    pub(crate) fn sample_workers(&self, seen: Observation) -> Option<WorkerSample> {
        let mut running = lock(&self.workers);
        let running = running.as_mut()?;
        if running.knob == TunedKnob::Uploads {
            // Workers that read ahead for a file do not count, files do.
            let stages = running.spent(false, seen.active >= running.tuner.setting());
            running.observe(Observation { stages, workers: 1, ..seen });
        } else {
            running.observe(seen);
        }
        let source = match &running.path {
            TunedPath::Source(source) => Some(Arc::clone(source)),
            TunedPath::ToServer(_) => None,
        };
        Some(WorkerSample {
            source,
            knob: running.knob,
            setting: running.tuner.setting(),
            is_shared: running.tuner.is_sharing(),
        })
    }

    /// Records that `done` files are done, and whether others wait for room in memory (`is_full`)
    /// or to be fetched (`has_more`). Returns the number of small files at a time if it changes.
    pub(crate) fn sample_small_files(
        &self,
        done: u64,
        is_full: bool,
        has_more: bool,
        signal: PathSignal,
    ) -> Option<usize> {
        let mut running = lock(&self.small_files);
        let running = running.as_mut()?;
        let stages = running.spent(is_full, has_more);
        let before = running.tuner.setting();
        running.observe(Observation { done, stages, workers: 1, signal, ..Observation::default() });
        Some(running.tuner.setting()).filter(|setting| *setting != before)
    }

    /// Remembers what was settled on, and returns the decisions.
    pub(crate) fn end(&self, memory: Option<&dyn TuningMemory>) -> Vec<TuningDecision> {
        let decisions = self.decisions();
        for running in [&self.workers, &self.small_files] {
            let Some(running) = lock(running).take() else { continue };
            if let (Some(memory), Some(setting)) = (memory, running.tuner.settled()) {
                memory.remember(&running.key, setting);
            }
        }
        decisions
    }

    /// The decisions so far, with times since their tuner began.
    pub(crate) fn decisions(&self) -> Vec<TuningDecision> {
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
}

impl TunedFiles<'_> {
    fn class(&self) -> &'static str {
        if self.size >= LARGE_BYTES { "large" } else { "medium" }
    }

    fn begin(
        &self,
        knob: TunedKnob,
        class: &str,
        rule: usize,
        limits: TunerLimits,
    ) -> RunningTuner {
        let path = TunedPath::Source(Arc::clone(self.source));
        let by_rule = (rule, limits);
        RunningTuner::begin(path, knob, &self.servers, class, by_rule, self.memory, self.done)
    }
}
