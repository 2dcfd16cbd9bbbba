//! A trial of more connections for a read, where a server limits each connection.
//!
//! A server that sends each connection some 300 kB a second (`limit_rate` of nginx, quotas of
//! storage systems) looks like a narrow path, but eight connections have eight times its
//! throughput. Only a trial distinguishes the two. The [`Tuner`] makes it, never with fewer
//! connections than the rules for reads. More connections are tried only while the outstanding
//! bytes take longer than a trial (`STEPS_LEFT`), and while the throughput is much lower than the
//! known bandwidth of the path (`PATH_SHARE`), so that a read that fills its path is not disturbed.

use crate::tuner::{Observation, TunedKnob, Tuner, TunerLimits};
use hither_core::source::connection_trial::{ConnectionTrial, TrialObservation};

/// The smallest number of steps of a trial that the outstanding bytes must last.
const STEPS_LEFT: f64 = 2.0;
/// The share of the path's bandwidth at which the path counts as the bottleneck of a read.
const PATH_SHARE: f64 = 0.25;
/// The assumed bandwidth of an unknown path, in bytes per second.
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

/// The rate, in bytes per second, that is enough for the outstanding bytes.
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
