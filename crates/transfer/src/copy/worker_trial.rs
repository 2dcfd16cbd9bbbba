//! More workers by trial, where a server limits each connection.

use hither_core::Source;
use hither_core::sync::lock;
use hither_core::tune::connection_trial::ConnectionTrial;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Interval at which the bytes that arrived are looked at.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

/// The trial of a copy; none before its first large file from a server.
#[derive(Debug, Default)]
pub(crate) struct WorkerTrial(Mutex<Option<RunningTrial>>);

#[derive(Debug)]
struct RunningTrial {
    source: Arc<dyn Source>,
    trial: ConnectionTrial,
    /// Workers before any trial.
    workers: usize,
}

impl WorkerTrial {
    /// Begins with some workers for files of `source`, of at most `max`, when `bytes` have arrived.
    /// Returns false if it had begun.
    pub(crate) fn begin(
        &self,
        source: &Arc<dyn Source>,
        workers: usize,
        max: usize,
        bytes: u64,
    ) -> bool {
        let mut running = lock(&self.0);
        if running.is_some() {
            return false;
        }
        let max = max.min(source.max_connections());
        let trial = ConnectionTrial::new(workers, max, bytes, source.clock().now());
        *running = Some(RunningTrial { source: Arc::clone(source), trial, workers });
        true
    }

    /// Returns true if it has begun.
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Returns true if more workers than the link is worth are tried, or have been found to help.
    pub(crate) fn has_more(&self) -> bool {
        let running = lock(&self.0);
        running.as_ref().is_some_and(|it| it.trial.connections() > it.workers)
    }

    /// The source of the files, and the number of workers to go on with after some `workers`, when
    /// `bytes` have arrived in all.
    pub(crate) fn sample(&self, workers: usize, bytes: u64) -> Option<(Arc<dyn Source>, usize)> {
        let mut running = lock(&self.0);
        let RunningTrial { source, trial, .. } = running.as_mut()?;
        trial.raise(workers);
        let latency = source.link().latency().unwrap_or_default();
        trial.observe(bytes, latency, source.clock().now());
        Some((Arc::clone(source), trial.connections()))
    }
}
