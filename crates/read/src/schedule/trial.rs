//! More connections by trial, where a server limits each of them.
//!
//! Only a trial distinguishes a server that limits each connection from a narrow path. It runs
//! while a reader lacks many bytes (`MIN_BYTES`), by the [`ConnectionTrial`] that
//! [`ReaderConfig::trial`] begins.
//!
//! When it starts, the requests are in flight on few connections. So further connections take over
//! halves of the requests that lack most bytes, as they do of stragglers.

use super::Reader;
use futures_core::future::BoxFuture;
use hither_core::Clock;
use hither_core::source::connection_trial::{ConnectionTrial, TrialObservation};
use std::fmt;
use std::time::Duration;

/// Bytes that a reader must lack for a trial.
const MIN_BYTES: u64 = 512 << 10;
/// Minimum bytes that a further connection takes over.
const MIN_HALF_BYTES: u64 = 128 << 10;
/// Interval at which the bytes that arrived are counted: servers may send nothing for a second.
const INTERVAL: Duration = Duration::from_millis(50);

/// The trial of a reader.
#[derive(Default)]
pub(super) struct ReadTrial {
    running: Option<Box<dyn ConnectionTrial>>,
    /// Too few bytes were outstanding at some time since the last interval.
    has_paused: bool,
    /// Approximate number of bytes that were pushed and have not arrived; repeated requests do not
    /// count.
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
            // Bytes that arrive before the next interval measure nothing.
            self.has_paused = true;
        }
        self.interval.as_mut()
    }
}

impl Reader<'_> {
    /// Counts the bytes that arrived, at the end of an interval.
    pub(super) fn end_interval(&mut self) {
        self.trial.interval = None;
        if !self.trial.is_worthwhile() || !self.source.is_one_server() {
            return;
        }
        let Some(begin) = self.config.trial else { return };
        let connections = self.connections;
        let seen = TrialObservation {
            now: self.source.clock().now(),
            arrived_bytes: self.trial.arrived_bytes,
            lacking_bytes: self.trial.lacking_bytes,
            link: self.source.link(),
            connections,
            max_connections: self.source.max_connections(),
            has_paused: std::mem::take(&mut self.trial.has_paused),
        };
        self.connections = self.trial.running.get_or_insert_with(|| begin(&seen)).observe(&seen);
        if self.connections > connections {
            self.source.preconnect(self.connections);
            self.launch();
            self.spread();
        }
    }

    /// Connections that the trial uses for a read of `bytes`; 0 without one.
    pub(super) fn tried_connections(&self, bytes: u64) -> usize {
        let tried = self.trial.running.as_ref().map_or(0, |trial| trial.connections());
        tried.min(usize::try_from(bytes / MIN_HALF_BYTES).unwrap_or(usize::MAX))
    }

    /// Lets further connections take over halves of the requests that lack most bytes.
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
    fn a_trial_begins_where_much_is_lacking() {
        let mut trial = ReadTrial::default();
        trial.pushed(MIN_BYTES - 1);
        assert!(!trial.is_worthwhile());
        trial.pushed(1);
        assert!(trial.is_worthwhile());
    }
}
