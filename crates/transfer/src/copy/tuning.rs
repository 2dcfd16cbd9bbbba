//! Tuners of a copy: its workers, and its small files at a time, while files come from a server.
//!
//! Both begin with what the link is worth ([`hither_core::tune::connections`]), or with what an
//! earlier copy between the same two servers settled on ([`TuningMemory`]), and go on by
//! measurement ([`hither_core::tune::tuner`]). Whoever runs the workers takes samples. A worker
//! that the tuner does not use is parked, and its connection stays open in the pool.

use crate::copy::context::CopyContext;
use crate::file::FileCopy;
use crate::options::TuningMemory;
use hither_core::Source;
use hither_core::sync::lock;
use hither_core::tune::connections::MIN_SMALL_FILES;
use hither_core::tune::tuner::{
    Observation, PathSignal, StageTimes, TunedKnob, Tuner, TunerLimits, TuningDecision,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::debug;

/// Interval at which samples are taken.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);
/// The fewest workers: one is busy while the other waits.
const MIN_WORKERS: usize = 2;
/// Size from which on a file is large, in bytes.
const LARGE_BYTES: u64 = 64 << 20;

/// The tuners of a copy; none before its first file from a server.
#[derive(Debug, Default)]
pub(crate) struct CopyTuning {
    workers: Mutex<Option<RunningTuner>>,
    small_files: Mutex<Option<RunningTuner>>,
}

#[derive(Debug)]
struct RunningTuner {
    source: Arc<dyn Source>,
    tuner: Tuner,
    /// What the rule for the link said last.
    rule: usize,
    /// The name under which the result is remembered.
    key: String,
    began: Duration,
    sampled: Duration,
    /// Times in which small files waited to be fetched, and in which they did not.
    stages: StageTimes,
}

impl RunningTuner {
    fn observe(&mut self, seen: &Observation) {
        self.tuner.observe(seen);
        self.sampled = seen.now;
    }

    /// Raises the setting if the rule for the link says more than it did.
    fn follow(&mut self, rule: usize) {
        if rule > self.rule {
            self.rule = rule;
            self.tuner.raise(rule);
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

    /// Begins to tune the workers of a copy that has `rule` of them by the rule for the link of
    /// `file`, and may have `max`. Returns their number from now on.
    pub(crate) fn workers(&self, file: &FileCopy, rule: usize, max: usize) -> usize {
        let mut running = lock(&self.workers);
        if let Some(running) = &mut *running {
            running.follow(rule);
            return running.tuner.setting();
        }
        let max = max.min(file.source.max_connections()).max(rule);
        let class = if file.version.size >= LARGE_BYTES { "large" } else { "medium" };
        let done = file.shared.progress.figures().bytes_arrived;
        let limits = TunerLimits { min: MIN_WORKERS, max };
        let begun = begin(file, TunedKnob::Connections, class, rule, limits, done);
        running.insert(begun).tuner.setting()
    }

    /// The same for small files at a time.
    pub(crate) fn small_files(&self, file: &FileCopy, rule: usize, max: usize) -> usize {
        let mut running = lock(&self.small_files);
        if let Some(running) = &mut *running {
            running.follow(rule.min(max));
            return running.tuner.setting().min(max);
        }
        let done = file.shared.progress.figures().files_done;
        let limits = TunerLimits { min: MIN_SMALL_FILES, max };
        let begun = begin(file, TunedKnob::SmallFiles, "small", rule, limits, done);
        running.insert(begun).tuner.setting()
    }

    /// Remembers what was settled on, and returns the decisions, with times since their tuner
    /// began.
    pub(crate) fn end(&self, memory: Option<&dyn TuningMemory>) -> Vec<TuningDecision> {
        let mut decisions = Vec::new();
        for running in [&self.workers, &self.small_files] {
            let Some(running) = lock(running).take() else { continue };
            if let (Some(memory), Some(setting)) = (memory, running.tuner.settled()) {
                memory.remember(&running.key, setting);
            }
            let since = |it: &TuningDecision| TuningDecision {
                at: it.at.saturating_sub(running.began),
                ..*it
            };
            decisions.extend(running.tuner.decisions().map(since));
        }
        decisions
    }
}

/// Begins a tuner with what is remembered for the servers of `file`, or by the rule for the link.
fn begin(
    file: &FileCopy,
    knob: TunedKnob,
    class: &str,
    rule: usize,
    limits: TunerLimits,
    done: u64,
) -> RunningTuner {
    let target = file.item.target.server();
    let key = format!("{} {} {target} {class}", knob.name(), file.item.storage.name());
    let memory = file.shared.options.tuning.as_deref();
    let known = memory.and_then(|memory| memory.recall(&key));
    let least = limits.min.min(limits.max);
    let first = known.map_or(rule, |known| known.clamp(least, limits.max));
    let now = file.source.clock().now();
    debug!(key, rule, known, "tuning begins");
    RunningTuner {
        source: Arc::clone(&file.source),
        tuner: Tuner::new(knob, first, limits, done, now),
        rule,
        key,
        began: now,
        sampled: now,
        stages: StageTimes::default(),
    }
}

impl CopyContext {
    /// Adapts workers and small files to what other numbers of them have brought.
    pub(crate) fn sample_tuners(&self) {
        let memory = self.options.tuning.as_deref();
        let signal = memory.map_or_else(PathSignal::default, |it| it.path_signal());
        if let Some((source, workers)) = self.sample_workers(signal) {
            let before = self.workers.load(Ordering::Acquire);
            if workers < before {
                debug!(workers, before, "workers parked");
                self.workers.store(workers, Ordering::Release);
            } else {
                self.raise_workers(&*source, workers);
            }
        }
        if let Some(files) = self.sample_small_files(signal) {
            self.small_files.store(files, Ordering::Release);
        }
    }

    fn sample_workers(&self, signal: PathSignal) -> Option<(Arc<dyn Source>, usize)> {
        let mut running = lock(&self.tuning.workers);
        let running = running.as_mut()?;
        let times = self.progress.stages().fetch;
        running.observe(&Observation {
            now: running.source.clock().now(),
            done: self.progress.figures().bytes_arrived,
            latency: running.source.link().latency().unwrap_or_default(),
            stages: StageTimes { busy: times.busy, starved: times.starved, blocked: times.blocked },
            workers: self.workers(),
            active: self.fetching.load(Ordering::Acquire),
            signal,
        });
        Some((Arc::clone(&running.source), running.tuner.setting()))
    }

    fn sample_small_files(&self, signal: PathSignal) -> Option<usize> {
        let mut running = lock(&self.tuning.small_files);
        let running = running.as_mut()?;
        let now = running.source.clock().now();
        let passed = now.saturating_sub(running.sampled);
        if !self.budget.has_room() {
            running.stages.blocked += passed;
        } else if self.queue.has_small() {
            running.stages.busy += passed;
        } else {
            running.stages.starved += passed;
        }
        let before = running.tuner.setting();
        running.observe(&Observation {
            now,
            done: self.progress.figures().files_done,
            latency: running.source.link().latency().unwrap_or_default(),
            stages: running.stages,
            workers: 1,
            active: 0,
            signal,
        });
        Some(running.tuner.setting()).filter(|setting| *setting != before)
    }
}
