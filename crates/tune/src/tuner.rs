//! The tuner: finds the number of connections, or of concurrent small files, with the highest
//! throughput.
//!
//! The rules of the crate load follow from the path, and assume that one connection can fill it in
//! the end. Other limits of a copy do not show in the path: a server that sends each connection
//! some 300 kB a second (`limit_rate` of nginx), a service time for each request, a disk that is
//! slower than the network, competing traffic. Only measurements distinguish these. The tuner is a
//! function of measurements: its caller reports totals several times a second ([`Tuner::observe`])
//! and uses the [`Tuner::setting`].
//!
//! **Attribution first.** An interval shows by its [`StageTimes`] whether a higher setting can help
//! at all ([`Bottleneck`]). It cannot where the stage behind the network is slower, and intervals
//! with too little work are ignored.
//!
//! **Phases.**
//!
//! 1. *Ladder*: the setting is doubled as long as that gains 10 % of throughput. One doubling may
//!    gain less: two connections are often no faster than one where four are. If fewer connections
//!    are faster, the ladder goes down.
//! 2. *Settle*: the smallest setting within 3 % of the best, on a curve through all the rates
//!    (`response_curve`), because each rate alone is known to 10 % only.
//! 3. *Hold*: nothing changes. After a pause another setting, half an octave up or down, is
//!    measured between intervals with the present one. The pause doubles after each trial without a
//!    gain. A cumulative sum of deviations (CUSUM) notices when the capacity changes, and the
//!    ladder begins again.
//! 4. *Share*: when packets queue on the path ([`PathSignal`]), more connections only take
//!    bandwidth from other flows. The setting falls by a fifth each time and grows by a little
//!    while no queue is seen (`shared_path`): transfers that do this share a path evenly.
//!
//! A setting is a limit. Connections above it are parked, not closed: opening them again would cost
//! slow start in each measurement. Only on a shared path are busy connections above the setting
//! closed at once ([`Tuner::is_sharing`]), because they use bandwidth that belongs to other flows.

mod decision;
mod hold;
mod interval;
mod path_signal;
mod response_curve;
mod shared_path;
#[cfg(test)]
mod tests;

pub use decision::{Reason, TunedKnob, TuningDecision, TuningPhase};
pub use interval::{Bottleneck, Observation, StageTimes};
pub use path_signal::{CongestionControl, PathSignal};

use hold::{HoldResult, Holding};
use interval::{Interval, IntervalMeter};
use response_curve::ResponseCurve;
use shared_path::SharedPath;
use std::collections::VecDeque;
use std::time::Duration;

/// The loss of throughput, as a logarithm, that a smaller setting may cost.
const MIN_GAIN: f64 = 0.03;
/// The gain below which a doubling counts as a miss: more than the noise of a short interval. A
/// smaller gain is still a point of the curve on which the setting is chosen.
const STEP_GAIN: f64 = 0.1;
/// The number of misses after which the ladder ends.
const MAX_MISSES: u32 = 1;
/// The number of settings that are measured between ladder and hold.
const SETTLE_STEPS: u32 = 3;
/// The number of consecutive intervals with a queue after which the path counts as shared.
const QUEUED_INTERVALS: u32 = 2;
/// The time for which a refusal of a server caps the setting.
const REFUSAL_HOLDS: Duration = Duration::from_secs(60);
/// The largest number of decisions that are kept: an hour on a path that is shared all the time.
const MAX_DECISIONS: usize = 512;

/// Limits of a [`Tuner`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunerLimits {
    /// The smallest setting that is tried.
    pub min: usize,
    /// The largest one.
    pub max: usize,
}

/// The controller of one knob of a job.
#[derive(Debug, Clone)]
pub struct Tuner {
    knob: TunedKnob,
    limits: TunerLimits,
    setting: usize,
    phase: Phase,
    curve: ResponseCurve,
    meter: IntervalMeter,
    /// Intervals in a row with a queue on the path.
    queued: u32,
    /// The largest setting before a server refused one more, and when it did.
    refused: Option<(usize, Duration)>,
    decisions: VecDeque<TuningDecision>,
}

#[derive(Debug, Clone)]
enum Phase {
    Ladder(Ladder),
    /// Settings left to measure before the setting is chosen.
    Settle(u32),
    Hold(Holding),
    Share(SharedPath),
}

/// A search by factors of two.
#[derive(Debug, Clone, Copy)]
struct Ladder {
    /// The best setting so far and the logarithm of its rate; none before the first interval.
    best: Option<(usize, f64)>,
    misses: u32,
    is_descending: bool,
}

impl Ladder {
    const START: Self = Self { best: None, misses: 0, is_descending: false };
}

impl Tuner {
    /// A tuner that starts with `setting`, when `done` units had been moved at `now`.
    #[must_use]
    pub fn new(
        knob: TunedKnob,
        setting: usize,
        limits: TunerLimits,
        done: u64,
        now: Duration,
    ) -> Self {
        let min = limits.min.clamp(1, setting.max(1));
        let limits = TunerLimits { min, max: limits.max.max(setting).max(1) };
        Self {
            knob,
            limits,
            setting: setting.max(1),
            phase: Phase::Ladder(Ladder::START),
            curve: ResponseCurve::default(),
            meter: IntervalMeter::new(done, now),
            queued: 0,
            refused: None,
            decisions: VecDeque::new(),
        }
    }

    /// The setting to use now.
    #[must_use]
    pub fn setting(&self) -> usize {
        self.setting
    }

    /// The setting found, if the tuner has settled.
    #[must_use]
    pub fn settled(&self) -> Option<usize> {
        match &self.phase {
            Phase::Hold(holding) => holding.has_reference().then(|| holding.setting()),
            Phase::Ladder(_) | Phase::Settle(_) | Phase::Share(_) => None,
        }
    }

    /// Returns true if packets queue on the path: connections above the setting take bandwidth from
    /// other flows.
    #[must_use]
    pub fn is_sharing(&self) -> bool {
        matches!(self.phase, Phase::Share(_))
    }

    /// The decisions so far, the oldest first; at most the last 512.
    pub fn decisions(&self) -> impl Iterator<Item = &TuningDecision> {
        self.decisions.iter()
    }

    /// Raises the setting to the number of another rule. The ladder begins again from there.
    pub fn raise(&mut self, setting: usize) {
        let setting = setting.min(self.limits.max);
        if setting > self.setting {
            self.setting = setting;
            self.restart();
        }
    }

    /// Sets the largest setting that is tried.
    pub fn set_max(&mut self, max: usize) {
        self.limits.max = max.max(self.limits.min).max(self.setting);
    }

    /// Lowers the largest setting that is tried, and the setting with it, for a minute, because a
    /// server refused more. The ladder begins again from there.
    pub fn lower_max(&mut self, max: usize) {
        let interval = self.meter.so_far();
        let before = self.refused.map_or(self.limits.max, |(before, _)| before);
        self.refused = Some((before, interval.ended));
        self.limits.max = max.max(self.limits.min);
        if self.setting > self.limits.max {
            self.restart();
            self.decide(self.limits.max, &interval, Reason::Refused);
        }
    }

    /// Records a measurement. The caller does so several times in each interval of a quarter of a
    /// second or eight round trips.
    pub fn observe(&mut self, seen: &Observation) {
        if seen.active > self.setting {
            return self.meter.restart_at(seen);
        }
        let is_search = matches!(self.phase, Phase::Ladder(_) | Phase::Settle(_));
        if let Some(interval) = self.meter.observe(seen, is_search) {
            self.end_interval(&interval);
        }
    }

    /// Continues after a pause without work: the interval of the pause begins again.
    pub fn resume(&mut self, seen: &Observation) {
        self.meter.restart_at(seen);
    }

    /// The length of an interval while it searches, on a path of this latency.
    #[must_use]
    pub fn search_interval(latency: Duration) -> Duration {
        interval::search_interval(latency)
    }

    fn end_interval(&mut self, interval: &Interval) {
        if interval.bottleneck == Bottleneck::Idle {
            return;
        }
        if let Some((before, _)) =
            self.refused.filter(|(_, at)| interval.ended.saturating_sub(*at) >= REFUSAL_HOLDS)
        {
            self.refused = None;
            self.limits.max = before;
        }
        self.queued = if interval.signal.is_queued() { self.queued + 1 } else { 0 };
        if self.queued >= QUEUED_INTERVALS && !matches!(self.phase, Phase::Share(_)) {
            let to = SharedPath::first_setting(self.setting, self.limits.min);
            self.phase = Phase::Share(SharedPath::new(to));
            self.decide(to, interval, Reason::QueueSeen);
            return;
        }
        match self.phase.clone() {
            Phase::Ladder(ladder) => self.end_step(ladder, interval),
            Phase::Settle(left) => self.end_settle_step(left, interval),
            Phase::Hold(holding) => self.hold(holding, interval),
            Phase::Share(shared) => self.share(shared, interval),
        }
    }

    /// Ends a step of the ladder.
    fn end_step(&mut self, mut ladder: Ladder, interval: &Interval) {
        if interval.bottleneck == Bottleneck::Downstream {
            let to = ladder.best.map_or(self.setting, |(best, _)| best.min(self.setting));
            return self.settle(to, interval, Reason::DownstreamSlower);
        }
        let rate = interval.ln_rate();
        if !interval.is_bursty {
            self.curve.record(self.setting, rate);
        }
        // The first bytes of new connections count here: a limit for each of them may come later.
        let with_start = interval.ln_whole_rate();
        let gain = ladder.best.map(|(_, best)| {
            if ladder.is_descending { rate - best } else { with_start.max(rate) - best }
        });
        let least = if ladder.is_descending { -MIN_GAIN } else { STEP_GAIN };
        let has_gained = gain.is_none_or(|gain| gain >= least);
        if has_gained {
            ladder.best = Some((self.setting, rate));
            ladder.misses = 0;
        } else {
            ladder.misses += 1;
        }
        if let Some(next) = self.next_step(&ladder) {
            let reason = match gain {
                None => Reason::FirstStep,
                Some(gain) if has_gained => Reason::Gained { gain },
                Some(gain) => Reason::SmallGain { gain },
            };
            self.phase = Phase::Ladder(ladder);
            return self.decide(next, interval, reason);
        }
        if !ladder.is_descending && self.is_worth_descending() {
            let lowest = self.curve.lowest().unwrap_or(self.setting);
            let next = (lowest / 2).max(self.limits.min);
            let best = self.curve.rate(lowest).map(|rate| (lowest, rate));
            self.phase = Phase::Ladder(Ladder { best, misses: 0, is_descending: true });
            return self.decide(next, interval, Reason::FewerAreFaster);
        }
        let best = ladder.best.map_or(self.setting, |(best, _)| best);
        if interval.is_bursty {
            return self.settle(best, interval, Reason::SmallestGood);
        }
        self.phase = Phase::Settle(SETTLE_STEPS);
        self.decide(self.curve.smallest_good(best), interval, Reason::SmallestGood);
    }

    /// Measures the chosen setting, and chooses again with that rate.
    fn end_settle_step(&mut self, left: u32, interval: &Interval) {
        if !interval.is_bursty {
            self.curve.record(self.setting, interval.ln_rate());
        }
        let to = self.curve.smallest_good(self.setting);
        if left > 1 && to != self.setting {
            self.phase = Phase::Settle(left - 1);
            return self.decide(to, interval, Reason::SmallestGood);
        }
        self.settle(to, interval, Reason::SmallestGood);
    }

    /// The next setting of a ladder; none at its end.
    fn next_step(&self, ladder: &Ladder) -> Option<usize> {
        if ladder.is_descending {
            let goes_on = ladder.misses == 0 && self.setting > self.limits.min;
            return goes_on.then(|| (self.setting / 2).max(self.limits.min));
        }
        let goes_on = ladder.misses <= MAX_MISSES && self.setting < self.limits.max;
        goes_on.then(|| self.setting.saturating_mul(2).min(self.limits.max))
    }

    /// Returns true if the lowest setting tried was faster than all higher ones.
    fn is_worth_descending(&self) -> bool {
        self.curve.lowest().is_some_and(|lowest| lowest > self.limits.min)
            && self.curve.falls_from_lowest(STEP_GAIN)
    }

    fn settle(&mut self, to: usize, interval: &Interval, reason: Reason) {
        let tries_half = reason == Reason::SmallestGood && !self.curve.is_slower_at_half(to);
        self.phase = Phase::Hold(Holding::new(to, tries_half));
        self.decide(to, interval, reason);
    }

    fn hold(&mut self, mut holding: Holding, interval: &Interval) {
        let can_rise = interval.bottleneck != Bottleneck::Downstream;
        let result = holding.end_interval(interval.ln_rate(), can_rise, self.limits);
        let to = holding.in_use();
        self.phase = Phase::Hold(holding);
        match result {
            HoldResult::Unchanged => self.set(to),
            HoldResult::Trial => self.decide(to, interval, Reason::Trial),
            HoldResult::Kept { gain } => {
                if to > self.setting {
                    self.restart();
                }
                self.decide(to, interval, Reason::TrialKept { gain });
            }
            HoldResult::Reverted { gain } => {
                self.decide(to, interval, Reason::TrialReverted { gain });
            }
            HoldResult::Changed { change } => {
                let from = if change < 0.0 { self.setting / 2 } else { self.setting };
                self.restart();
                self.decide(from.max(self.limits.min), interval, Reason::Changed { change });
            }
        }
    }

    fn share(&mut self, mut shared: SharedPath, interval: &Interval) {
        let is_queued = interval.signal.is_queued();
        let to = shared.end_interval(is_queued, self.limits);
        if shared.is_free() {
            self.restart();
            return self.decide(to, interval, Reason::QueueGone);
        }
        self.phase = Phase::Share(shared);
        if to != self.setting {
            let reason = if is_queued { Reason::QueueSeen } else { Reason::NoQueue };
            self.decide(to, interval, reason);
        }
    }

    fn restart(&mut self) {
        self.phase = Phase::Ladder(Ladder::START);
        self.curve = ResponseCurve::default();
        self.meter.restart();
    }

    /// Changes the setting to `to`, and records the reason.
    fn decide(&mut self, to: usize, interval: &Interval, reason: Reason) {
        let phase = match &self.phase {
            Phase::Ladder(_) => TuningPhase::Ladder,
            Phase::Settle(_) => TuningPhase::Settle,
            Phase::Hold(_) => TuningPhase::Hold,
            Phase::Share(_) => TuningPhase::Share,
        };
        if self.decisions.len() == MAX_DECISIONS {
            self.decisions.pop_front();
        }
        self.decisions.push_back(TuningDecision {
            at: interval.ended,
            knob: self.knob,
            phase,
            rate: interval.rate,
            bottleneck: interval.bottleneck,
            signal: interval.signal,
            from: self.setting,
            to,
            reason,
        });
        self.set(to);
    }

    fn set(&mut self, to: usize) {
        if to != self.setting {
            self.setting = to;
            self.meter.restart();
        }
    }
}
