//! More connections of a read by trial, where a server limits each of them.
//!
//! A server that sends each connection some 300 kB a second (`limit_rate` of nginx, quotas of
//! storage systems) looks like a narrow path, but eight connections bring eight times as much. Only
//! a trial tells the two apart, and the [`Tuner`] makes it: never with fewer connections than the
//! rules for reads say. More connections are tried only while what is lacking takes longer than a
//! trial (`STEPS_LEFT`), and while much less arrives than the path is known to carry
//! (`PATH_SHARE`), so that a read that fills its path is not disturbed.

use crate::tuner::{Observation, TunedKnob, Tuner, TunerLimits};
use hither_core::source::connection_trial::{ConnectionTrial, TrialObservation};

/// Steps of a trial that the bytes that are lacking must take at least.
const STEPS_LEFT: f64 = 2.0;
/// Share of the bandwidth of the path from which on it is the path that limits a read.
const PATH_SHARE: f64 = 0.25;
/// Bandwidth of a path of which nothing is known, in bytes per second.
const UNKNOWN_BANDWIDTH: f64 = 8e6;

/// The trial of a reader.
#[derive(Debug)]
pub struct ReadTrial(Tuner);

impl ReadTrial {
    /// Begins a trial; [`BeginTrial`](hither_core::source::connection_trial::BeginTrial) of a
    /// reader.
    #[must_use]
    pub fn begin(seen: &TrialObservation) -> Box<dyn ConnectionTrial> {
        let limits = TunerLimits { min: seen.connections, max: seen.max_connections };
        let knob = TunedKnob::Connections;
        let tuner = Tuner::new(knob, seen.connections, limits, seen.arrived_bytes, seen.now);
        Box::new(Self(tuner))
    }
}

impl ConnectionTrial for ReadTrial {
    fn observe(&mut self, seen: &TrialObservation) -> usize {
        let observation = Observation {
            now: seen.now,
            done: seen.arrived_bytes,
            latency: seen.link.latency().unwrap_or_default(),
            enough: Some(enough(seen)),
            ..Observation::default()
        };
        self.0.raise(seen.connections);
        if seen.has_paused {
            self.0.resume(&observation);
        } else {
            self.0.observe(&observation);
        }
        self.0.setting()
    }

    fn connections(&self) -> usize {
        self.0.setting()
    }
}

/// The rate, in bytes per second, that is enough for what is lacking.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn enough(seen: &TrialObservation) -> f64 {
    let path = seen.link.bandwidth.unwrap_or(UNKNOWN_BANDWIDTH) * PATH_SHARE;
    let step = Tuner::search_interval(seen.link.latency().unwrap_or_default());
    path.min(seen.lacking_bytes as f64 / (STEPS_LEFT * step.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::LinkEstimate;
    use std::time::Duration;

    #[test]
    fn a_rate_is_enough_by_which_the_rest_takes_two_steps_or_which_fills_a_quarter_of_the_path() {
        let seen = |lacking_bytes| TrialObservation {
            now: Duration::ZERO,
            arrived_bytes: 0,
            lacking_bytes,
            link: LinkEstimate::default(),
            connections: 1,
            max_connections: 64,
            has_paused: false,
        };
        // Two steps of a quarter of a second.
        assert!((enough(&seen(900_000)) - 1_800_000.0).abs() < 1.0);
        assert!((enough(&seen(100 << 20)) - UNKNOWN_BANDWIDTH * PATH_SHARE).abs() < 1.0);
    }
}
