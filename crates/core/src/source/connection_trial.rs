//! Trials of more connections, for servers that limit the rate of each.
//!
//! A reader counts the bytes that arrived and those still missing; a [`ConnectionTrial`] derives
//! from them how many connections to use. The programs use the tuner of the crate tune.

use crate::LinkEstimate;
use std::fmt::Debug;
use std::time::Duration;

/// Finds out during one long read whether more connections increase its throughput.
pub trait ConnectionTrial: Send + Debug {
    /// Takes the observation at the end of an interval. Returns the connections to use next.
    fn observe(&mut self, seen: &TrialObservation) -> usize;
    /// The connections in use.
    fn connections(&self) -> usize;
}

/// Begins a trial with its first observation, which it also takes by [`ConnectionTrial::observe`].
pub type BeginTrial = fn(&TrialObservation) -> Box<dyn ConnectionTrial>;

/// Observation of a reader at the end of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialObservation {
    /// Time by the clock of the source.
    pub now: Duration,
    /// Bytes that have arrived since the trial became possible.
    pub arrived_bytes: u64,
    /// Approximate number of bytes that were pushed and have not arrived; repeated requests do not
    /// count.
    pub lacking_bytes: u64,
    /// Estimates of the link.
    pub link: LinkEstimate,
    /// Connections that the reader uses.
    pub connections: usize,
    /// The maximum that it may use.
    pub max_connections: usize,
    /// Too few bytes were outstanding for some time since the last observation: this one measures
    /// nothing.
    pub has_paused: bool,
}
