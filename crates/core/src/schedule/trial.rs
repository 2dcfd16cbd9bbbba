//! More connections by trial, where a server limits each of them.
//!
//! A server that sends each connection some 300 kB a second (`limit_rate` of nginx, quotas of
//! storage systems) looks like a narrow path, but eight connections bring eight times as much. Only
//! a trial tells the two apart, and the [`Tuner`] makes it: never with fewer connections than the
//! rules for reads say. It runs while a reader lacks much (`MIN_BYTES`). More connections are tried
//! only while what is lacking takes longer than a trial (`STEPS_LEFT`), and while much less arrives
//! than the path is known to carry (`PATH_SHARE`), so that a read that fills its path is not
//! disturbed.
//!
//! By then the requests are in flight on few connections. So others take over halves of those that
//! lack most, as they do of stragglers.

use super::Reader;
use crate::Clock;
use crate::tune::link::LinkEstimate;
use crate::tune::tuner::{Observation, TunedKnob, Tuner, TunerLimits};
use futures_core::future::BoxFuture;
use std::fmt;
use std::time::Duration;

/// Bytes that a reader must lack for a trial.
const MIN_BYTES: u64 = 512 << 10;
/// Minimum bytes that a further connection takes over.
const MIN_HALF_BYTES: u64 = 128 << 10;
/// Steps of a trial that the bytes that are lacking must take at least.
const STEPS_LEFT: f64 = 2.0;
/// Share of the bandwidth of the path from which on it is the path that limits a read.
const PATH_SHARE: f64 = 0.25;
/// Bandwidth of a path of which nothing is known, in bytes per second.
const UNKNOWN_BANDWIDTH: f64 = 8e6;
/// Interval at which the bytes that arrived are counted: servers may send nothing for a second.
const INTERVAL: Duration = Duration::from_millis(50);

/// The trial of a reader.
#[derive(Default)]
pub(super) struct ReadTrial {
    /// Boxed, because it is large and most readers never have one.
    running: Option<Box<Tuner>>,
    /// Nothing was to arrive since the last interval.
    has_paused: bool,
    /// Bytes that were pushed and have not arrived, about: repeated requests do not count.
    lacking_bytes: u64,
    arrived_bytes: u64,
    interval: Option<BoxFuture<'static, ()>>,
}

impl fmt::Debug for ReadTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTrial").field("running", &self.running).finish_non_exhaustive()
    }
}

impl ReadTrial {
    pub(super) fn pushed(&mut self, bytes: u64) {
        self.lacking_bytes = self.lacking_bytes.saturating_add(bytes);
    }

    pub(super) fn withdrawn(&mut self, bytes: u64) {
        self.lacking_bytes = self.lacking_bytes.saturating_sub(bytes);
    }

    pub(super) fn arrived(&mut self, bytes: u64) {
        self.withdrawn(bytes);
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
    }

    /// Returns true if the reader lacks enough for a trial.
    fn is_worthwhile(&self) -> bool {
        self.lacking_bytes >= MIN_BYTES
    }

    /// The interval in progress; none while the reader lacks too little for a trial.
    pub(super) fn interval(&mut self, clock: &dyn Clock) -> Option<&mut BoxFuture<'static, ()>> {
        if self.interval.is_none() && self.is_worthwhile() {
            self.interval = Some(clock.sleep(INTERVAL));
        } else if self.interval.is_none() {
            // What arrives until there is another one says nothing.
            self.has_paused = true;
        }
        self.interval.as_mut()
    }

    /// The rate, in bytes per second, that is enough for what is lacking.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn enough(&self, link: &LinkEstimate) -> f64 {
        let path = link.bandwidth.unwrap_or(UNKNOWN_BANDWIDTH) * PATH_SHARE;
        let step = Tuner::search_interval(link.latency().unwrap_or_default());
        path.min(self.lacking_bytes as f64 / (STEPS_LEFT * step.as_secs_f64()))
    }
}

impl Reader<'_> {
    /// Counts the bytes that arrived, at the end of an interval.
    pub(super) fn end_interval(&mut self) {
        self.trial.interval = None;
        let link = self.source.link();
        if !self.trial.is_worthwhile() || !self.source.is_one_server() {
            return;
        }
        let connections = self.connections;
        let limits = TunerLimits { min: connections, max: self.source.max_connections() };
        let seen = Observation {
            now: self.source.clock().now(),
            done: self.trial.arrived_bytes,
            latency: link.latency().unwrap_or_default(),
            enough: Some(self.trial.enough(&link)),
            ..Observation::default()
        };
        let knob = TunedKnob::Connections;
        let begin = || Box::new(Tuner::new(knob, connections, limits, seen.done, seen.now));
        let tuner = self.trial.running.get_or_insert_with(begin);
        tuner.raise(connections);
        if std::mem::take(&mut self.trial.has_paused) {
            tuner.resume(&seen);
        } else {
            tuner.observe(&seen);
        }
        self.connections = tuner.setting();
        if self.connections > connections {
            self.source.preconnect(self.connections);
            self.launch();
            self.spread();
        }
    }

    /// Connections that the trial uses for a read of `bytes`; 0 without one.
    pub(super) fn tried_connections(&self, bytes: u64) -> usize {
        let tried = self.trial.running.as_ref().map_or(0, |tuner| tuner.setting());
        tried.min(usize::try_from(bytes / MIN_HALF_BYTES).unwrap_or(usize::MAX))
    }

    /// Has further connections take over halves of the requests that lack most.
    fn spread(&mut self) {
        while self.running.len() < self.connections {
            let largest = self.requests.values_mut().max_by_key(|request| request.left_bytes());
            let half = largest.and_then(|request| request.give_half(MIN_HALF_BYTES));
            let Some(half) = half else { return };
            // Those bytes are charged already, to the request that they come from.
            self.send(half, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_begins_where_what_is_lacking_takes_longer_than_two_steps() {
        let unknown = LinkEstimate::default();
        let mut trial = ReadTrial::default();
        trial.pushed(MIN_BYTES - 1);
        assert!(!trial.is_worthwhile());
        trial.pushed(400_001);
        assert!(trial.is_worthwhile());
        // Two steps of a quarter of a second.
        let half_a_second = 2.0 * (MIN_BYTES + 400_000) as f64;
        assert!((trial.enough(&unknown) - half_a_second).abs() < 1.0);
        trial.pushed(100 << 20);
        assert!((trial.enough(&unknown) - UNKNOWN_BANDWIDTH * PATH_SHARE).abs() < 1.0);
    }
}
