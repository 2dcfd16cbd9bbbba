//! Trials of more connections, for servers that limit the rate of each.
//!
//! A reader knows what arrives and what it still lacks; a [`ConnectionTrial`] says from that how
//! many connections to use. The trial that the programs use is the tuner's, of the crate tune.

use crate::LinkEstimate;
use std::fmt::Debug;
use std::time::Duration;

/// Finds out whether more connections bring more, during one long read.
pub trait ConnectionTrial: Send + Debug {
    /// Takes the observation at the end of an interval. Returns the connections to use from now on.
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
    /// Bytes that were pushed and have not arrived, about: repeated requests do not count.
    pub lacking_bytes: u64,
    /// Estimates of the link.
    pub link: LinkEstimate,
    /// Connections that the reader uses.
    pub connections: usize,
    /// The most that it may use.
    pub max_connections: usize,
    /// Nothing was to arrive for some time since the last observation: it says nothing.
    pub has_paused: bool,
}
