//! Intervals: rates and bottlenecks, computed from totals.
//!
//! An interval lasts a quarter of a second while the tuner searches, else half a second; on a long
//! path, eight round trips, in which a congestion window grows from ten segments to thousands.
//! After a change of the setting only the second half counts.
//!
//! A server that limits each connection sends in bursts: the bytes allowed for a second, and then
//! nothing for the rest of it. An interval with such pauses lasts a second. It ends sooner where
//! the tuner can decide sooner: in the first interval, and later when a burst of new connections
//! shows that they help. Its rate is that of a whole second in any case.

use super::path_signal::PathSignal;
use std::time::Duration;

/// The shortest interval of a search.
const MIN_STEP: Duration = Duration::from_millis(250);
/// The shortest interval outside of a search.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Round trips in an interval on a long path.
const ROUND_TRIPS: u32 = 8;
/// The interval where bytes arrive in bursts.
const BURST_INTERVAL: Duration = Duration::from_secs(1);
/// Observations in a row without a byte that show a burst.
const SILENT_OBSERVATIONS: u32 = 3;
/// Factor on the rate by which new connections show at once that they help, before they settle.
const QUICK_GAIN: f64 = 1.25;
/// The share of a stage's time that makes it the bottleneck.
const BOTTLENECK_SHARE: f64 = 0.5;

/// Times of a stage that bytes go through, summed over workers since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Working; in the stage that fetches, requests were under way.
    pub busy: Duration,
    /// Waiting for the stage before; in the stage that fetches, for something to request.
    pub starved: Duration,
    /// Waiting for the next stage, or for a limit.
    pub blocked: Duration,
}

/// Measurements at one time: totals since the start of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observation {
    /// The time.
    pub now: Duration,
    /// Units moved: bytes that arrived, or files.
    pub done: u64,
    /// Round-trip time of the path.
    pub latency: Duration,
    /// Times of the stage that fetches; zero where they are not measured.
    pub stages: StageTimes,
    /// Workers that these times are sums over.
    pub workers: usize,
    /// Requests in flight, where they may exceed the setting: when it falls, requests in flight end
    /// by themselves. 0 where they cannot.
    pub active: usize,
    /// The rate, in units per second, above which more throughput is useless; none if there is no
    /// such rate.
    pub enough: Option<f64>,
    /// The state of the path.
    pub signal: PathSignal,
}

/// The stage that limited an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// The network or the server: another setting may help.
    Network,
    /// The stage behind the network, or a limit that the user set.
    Downstream,
    /// None: there was too little to do.
    Idle,
}

impl Bottleneck {
    /// The name for tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Downstream => "write",
            Self::Idle => "idle",
        }
    }
}

/// An interval that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub(super) ended: Duration,
    /// Units per second, in its second half after a change.
    pub(super) rate: f64,
    /// Units per second in all of it.
    pub(super) whole_rate: f64,
    pub(super) is_bursty: bool,
    pub(super) bottleneck: Bottleneck,
    pub(super) signal: PathSignal,
}

impl Interval {
    pub(super) fn ln_rate(&self) -> f64 {
        self.rate.max(1e-3).ln()
    }

    pub(super) fn ln_whole_rate(&self) -> f64 {
        self.whole_rate.max(1e-3).ln()
    }
}

/// Takes observations and returns intervals.
#[derive(Debug, Clone)]
pub(super) struct IntervalMeter {
    began: Observation,
    /// The first observation in the second half.
    middle: Option<Observation>,
    last: Observation,
    silent: u32,
    is_bursty: bool,
    /// The rate of the last interval, in units per second.
    last_rate: Option<f64>,
    /// The setting was changed at the beginning of the interval.
    is_changed: bool,
}

impl IntervalMeter {
    pub(super) fn new(done: u64, now: Duration) -> Self {
        let began = Observation { done, now, ..Observation::default() };
        Self {
            began,
            middle: None,
            last: began,
            silent: 0,
            is_bursty: false,
            last_rate: None,
            is_changed: true,
        }
    }

    #[cfg(test)]
    pub(super) fn done(&self) -> u64 {
        self.last.done
    }

    /// The interval so far.
    pub(super) fn so_far(&self) -> Interval {
        let rate = rate(&self.began, &self.last);
        Interval {
            ended: self.last.now,
            rate,
            whole_rate: rate,
            is_bursty: false,
            bottleneck: bottleneck(&self.began, &self.last),
            signal: self.last.signal,
        }
    }

    /// Begins an interval after a change at this observation: earlier ones do not count.
    pub(super) fn restart_at(&mut self, seen: &Observation) {
        self.last = *seen;
        self.restart();
    }

    /// Begins an interval after a change of the setting.
    pub(super) fn restart(&mut self) {
        self.began = self.last;
        self.middle = None;
        self.silent = 0;
        self.is_bursty = false;
        self.is_changed = true;
    }

    /// Records an observation; returns the interval that it ends.
    pub(super) fn observe(&mut self, seen: &Observation, is_search: bool) -> Option<Interval> {
        self.silent = if seen.done > self.last.done { 0 } else { self.silent + 1 };
        self.is_bursty |= self.silent >= SILENT_OBSERVATIONS && seen.done > self.began.done;
        self.last = *seen;
        let length = if is_search {
            search_interval(seen.latency)
        } else {
            search_interval(seen.latency).max(MIN_INTERVAL)
        };
        let elapsed = seen.now.saturating_sub(self.began.now);
        if elapsed >= length / 2 && self.middle.is_none() {
            self.middle = Some(*seen);
        }
        if elapsed < length {
            return None;
        }
        let whole_rate = rate(&self.began, seen);
        // Bursts of new connections show that they help before the pause after them has ended.
        let has_gained = self.last_rate.is_none_or(|last| whole_rate >= QUICK_GAIN * last);
        let waits = self.is_bursty && !(self.is_changed && has_gained);
        if waits && elapsed < length.max(BURST_INTERVAL) {
            return None;
        }
        let middle = self.middle.filter(|_| self.is_changed && !self.is_bursty);
        let pause = BURST_INTERVAL.max(elapsed);
        let of_burst = whole_rate * elapsed.as_secs_f64() / pause.as_secs_f64();
        let rate = match middle {
            Some(middle) => rate(&middle, seen),
            None if self.is_bursty => of_burst,
            None => whole_rate,
        };
        let interval = Interval {
            ended: seen.now,
            rate,
            whole_rate,
            is_bursty: self.is_bursty,
            bottleneck: match seen.enough {
                Some(enough) if rate >= enough => Bottleneck::Idle,
                _ => bottleneck(&self.began, seen),
            },
            signal: seen.signal,
        };
        self.restart();
        self.last_rate = Some(rate);
        self.is_changed = false;
        Some(interval)
    }
}

/// The length of an interval of a search on a path of this latency.
pub(super) fn search_interval(latency: Duration) -> Duration {
    MIN_STEP.max(latency.saturating_mul(ROUND_TRIPS))
}

/// Units per second between two observations.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn rate(from: &Observation, to: &Observation) -> f64 {
    let seconds = to.now.saturating_sub(from.now).as_secs_f64();
    to.done.saturating_sub(from.done) as f64 / seconds.max(1e-6)
}

/// The bottleneck, by the times of a stage in an interval. The clocks do not contain a request that
/// is still in flight, so the rest of the time of all workers counts as busy.
fn bottleneck(from: &Observation, to: &Observation) -> Bottleneck {
    let spent = |of: fn(&StageTimes) -> Duration| {
        of(&to.stages).saturating_sub(of(&from.stages)).as_secs_f64()
    };
    let blocked = spent(|it| it.blocked);
    let starved = spent(|it| it.starved);
    let workers = u32::try_from(to.workers).unwrap_or(u32::MAX);
    let time = to.now.saturating_sub(from.now).saturating_mul(workers).as_secs_f64();
    let all = time.max(spent(|it| it.busy) + blocked + starved);
    if all > 0.0 && blocked >= BOTTLENECK_SHARE * all {
        Bottleneck::Downstream
    } else if all > 0.0 && starved >= BOTTLENECK_SHARE * all {
        Bottleneck::Idle
    } else {
        Bottleneck::Network
    }
}
