//! The hold phase: the chosen setting, trials of others, and the detection of a change of capacity.

use super::response_curve::at_octave;
use super::{MIN_GAIN, TunerLimits};

/// The number of intervals whose rates are the reference for later ones.
const REFERENCE_INTERVALS: f64 = 4.0;
/// The number of intervals that the mean and the deviation are averaged over.
const MEMORY: f64 = 32.0;
/// The smallest deviation of rates that is assumed.
const MIN_DEVIATION: f64 = 0.02;
/// The deviation that is assumed for a new setting, and its weight in intervals.
const FIRST_DEVIATION: f64 = 0.05;
const FIRST_WEIGHT: f64 = 2.0;
/// The slack of the CUSUM in each interval, as a part of the deviation, and the sum at which it
/// alarms: by chance about once in 9,000 intervals.
const SLACK: f64 = 0.5;
const ALARM: f64 = 8.0;
/// The smallest change of the rate, as a logarithm, after which the ladder begins again.
const MIN_CHANGE: f64 = 0.1;
/// The number of intervals before the first trial. It doubles after each trial without a gain.
const FIRST_PAUSE: u32 = 8;
/// The most intervals between two trials.
const MAX_PAUSE: u32 = 64;
/// Factor of a trial, in octaves; of the first ones, where half might do as well: one.
const TRIAL_OCTAVES: f64 = 0.5;
/// Pairs of intervals in a trial.
const PAIRS: u32 = 2;

/// The outcome of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum HoldResult {
    Unchanged,
    Trial,
    Kept { gain: f64 },
    Reverted { gain: f64 },
    Changed { change: f64 },
}

#[derive(Debug, Clone)]
pub(super) struct Holding {
    setting: usize,
    /// Mean logarithm of the rate, its variance, and the intervals in them.
    mean: f64,
    variance: f64,
    count: f64,
    /// Sums of deviations above and below.
    above: f64,
    below: f64,
    /// Sum and number of the deviations since a sum was zero.
    drift: (f64, f64),
    until_trial: u32,
    pause: u32,
    goes_up: bool,
    /// Half of the setting may be as fast: that is tried first.
    tries_half: bool,
    trial: Option<Trial>,
}

/// A setting that is tried: B, A, B, A, where A is the present one.
#[derive(Debug, Clone, Copy)]
struct Trial {
    other: usize,
    is_other: bool,
    rates: f64,
    others: f64,
    pairs: u32,
}

impl Holding {
    /// A setting that was found; `tries_half` if half of it is not known to be slower.
    pub(super) fn new(setting: usize, tries_half: bool) -> Self {
        Self {
            setting,
            mean: 0.0,
            variance: FIRST_DEVIATION * FIRST_DEVIATION,
            count: 0.0,
            above: 0.0,
            below: 0.0,
            drift: (0.0, 0.0),
            until_trial: if tries_half { FIRST_PAUSE / 2 } else { FIRST_PAUSE },
            pause: FIRST_PAUSE,
            goes_up: !tries_half,
            tries_half,
            trial: None,
        }
    }

    pub(super) fn setting(&self) -> usize {
        self.setting
    }

    /// The setting to use: that of the trial while there is one.
    pub(super) fn in_use(&self) -> usize {
        self.trial.filter(|it| it.is_other).map_or(self.setting, |it| it.other)
    }

    /// Returns true once the rate of the setting is known.
    pub(super) fn has_reference(&self) -> bool {
        self.count >= REFERENCE_INTERVALS
    }

    fn deviation(&self) -> f64 {
        self.variance.sqrt().max(MIN_DEVIATION)
    }

    pub(super) fn end_interval(
        &mut self,
        rate: f64,
        can_rise: bool,
        limits: TunerLimits,
    ) -> HoldResult {
        if let Some(trial) = self.trial {
            return self.end_trial_interval(trial, rate);
        }
        if let Some(change) = self.change(rate) {
            return HoldResult::Changed { change };
        }
        self.learn(rate);
        self.until_trial = self.until_trial.saturating_sub(1);
        if self.until_trial > 0 {
            return HoldResult::Unchanged;
        }
        let other = self.next_trial(can_rise, limits);
        let Some(other) = other else {
            self.until_trial = self.pause;
            return HoldResult::Unchanged;
        };
        self.trial = Some(Trial { other, is_other: true, rates: 0.0, others: 0.0, pairs: 0 });
        HoldResult::Trial
    }

    /// The setting to try next: up and down by turns.
    fn next_trial(&mut self, can_rise: bool, limits: TunerLimits) -> Option<usize> {
        for _ in 0..2 {
            let up = self.goes_up;
            self.goes_up = !up;
            let octaves = match (up, self.tries_half) {
                (true, _) => TRIAL_OCTAVES,
                (false, false) => -TRIAL_OCTAVES,
                (false, true) => -1.0,
            };
            let other = at_octave(self.setting, octaves).clamp(limits.min, limits.max);
            if other != self.setting && (can_rise || !up) {
                return Some(other);
            }
        }
        None
    }

    fn end_trial_interval(&mut self, mut trial: Trial, rate: f64) -> HoldResult {
        if trial.is_other {
            trial.others += rate;
            trial.is_other = false;
            self.trial = Some(trial);
            return HoldResult::Unchanged;
        }
        trial.rates += rate;
        trial.pairs += 1;
        if trial.pairs < PAIRS {
            trial.is_other = true;
            self.trial = Some(trial);
            return HoldResult::Unchanged;
        }
        self.trial = None;
        let pairs = f64::from(trial.pairs);
        let gain = (trial.others - trial.rates) / pairs;
        // Only half of an interval after a change counts, so that it deviates more than others.
        let error = self.deviation() * (2.0 * 2.0 / pairs).sqrt();
        let is_better = if trial.other > self.setting {
            gain >= MIN_GAIN.max(3.0 * error)
        } else {
            gain - error / 2.0 >= -MIN_GAIN
        };
        if is_better {
            let pause = self.pause;
            *self = Self::new(trial.other, self.tries_half);
            // A setting that is only as good does not bring the next trial forward.
            if !self.tries_half {
                (self.pause, self.until_trial) = (pause, pause);
            }
            return HoldResult::Kept { gain };
        }
        self.tries_half = false;
        self.pause = (2 * self.pause).min(MAX_PAUSE);
        self.until_trial = self.pause;
        HoldResult::Reverted { gain }
    }

    /// The change of the rate, if that has changed.
    fn change(&mut self, rate: f64) -> Option<f64> {
        if !self.has_reference() {
            return None;
        }
        let deviation = self.deviation();
        let z = (rate - self.mean) / deviation;
        self.above = (self.above + z - SLACK).max(0.0);
        self.below = (self.below - z - SLACK).max(0.0);
        if self.above == 0.0 && self.below == 0.0 {
            self.drift = (0.0, 0.0);
        } else {
            self.drift = (self.drift.0 + rate - self.mean, self.drift.1 + 1.0);
        }
        if self.above < ALARM && self.below < ALARM {
            return None;
        }
        let change = self.drift.0 / self.drift.1.max(1.0);
        (self.above, self.below, self.drift) = (0.0, 0.0, (0.0, 0.0));
        if change.abs() < MIN_CHANGE {
            self.mean += change;
            return None;
        }
        Some(change)
    }

    fn learn(&mut self, rate: f64) {
        self.count += 1.0;
        let deviation = rate - self.mean;
        if self.count <= 1.0 {
            self.mean = rate;
            return;
        }
        // An outlier is a change or an accident, not the usual deviation.
        let limit = 3.0 * self.deviation();
        let deviation = deviation.clamp(-limit, limit);
        let weight = 1.0 / self.count.min(MEMORY);
        self.mean += weight * deviation;
        let weight = 1.0 / (self.count + FIRST_WEIGHT).min(MEMORY);
        self.variance += weight * (deviation * deviation - self.variance);
    }
}
