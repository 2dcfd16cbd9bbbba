//! The job that is controlled: its limits, its totals, and the actions of the controller on it.

use crate::tuner::{PathSignal, StageTimes};
use std::fmt::Debug;
use std::time::Duration;

/// A job whose concurrency is controlled.
pub trait ControlledJob: Send + Sync + Debug {
    /// Time, by the clock of the job.
    fn now(&self) -> Duration;
    /// The limits that the user or the calling program has set.
    fn limits(&self) -> ConcurrencyLimits;
    /// The totals so far.
    fn totals(&self) -> JobTotals;
    /// The stored settings and the state of the path, for the tuners.
    fn memory(&self) -> Option<&dyn TuningMemory>;
    /// Wakes the job: more workers may run, or samples have to be taken from now on.
    fn workers_changed(&self);
    /// Takes the unfinished work of the workers above this number back.
    fn take_back(&self, workers: usize);
}

/// Information for tuners that a job itself does not have: stored settings, and the state of the
/// path.
pub trait TuningMemory: Send + Sync + Debug {
    /// The setting that was remembered under `key`, if it is recent enough.
    fn recall(&self, key: &str) -> Option<usize>;
    /// Remembers a setting under `key`.
    fn remember(&self, key: &str, setting: usize);
    /// The state of the path by the connections that receive data now.
    fn path_signal(&self) -> PathSignal;
    /// The state of uploads by the connections that send data now.
    fn upload_state(&self) -> UploadState;
}

/// The state of uploads, by the kernel's statistics of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UploadState {
    /// Bytes that servers' kernels have acknowledged so far. They are known at once, while a server
    /// responds only when it has a whole block or file.
    pub confirmed_bytes: u64,
    /// The longest of the round-trip times to their addresses.
    pub latency: Duration,
    /// The state of the path.
    pub signal: PathSignal,
}

/// Limits that the user or the calling program has set, and that may change while the job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcurrencyLimits {
    /// The number of workers, which replaces tuning; none if it is not set.
    pub workers: Option<usize>,
    /// Most workers.
    pub max_workers: usize,
    /// Most files at a time; none if it is not set.
    pub files: Option<usize>,
    /// The job is a part of a larger one, and too short to be tuned.
    pub is_part: bool,
}

impl ConcurrencyLimits {
    /// Returns true if the job may choose its numbers by measurement.
    pub(super) fn is_tuned(self) -> bool {
        !self.is_part && self.workers.is_none()
    }
}

/// Totals of a job since its start, and its state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// Bytes that came in.
    pub bytes_arrived: u64,
    /// Bytes that servers have moved between them.
    pub bytes_moved_by_servers: u64,
    /// Files that are done.
    pub files_done: u64,
    /// Times of the stage that fetches.
    pub stages: StageTimes,
    /// Workers that have a piece, including those above the limit that finish theirs.
    pub fetching: usize,
    /// Large files that were begun and are not done.
    pub open_files: usize,
    /// The memory budget allows no more small files.
    pub is_full: bool,
    /// Small files wait to be fetched.
    pub has_small_files: bool,
}

/// Options of a [`ConcurrencyController`](super::ConcurrencyController).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerOptions {
    /// Most workers.
    pub max_workers: usize,
    /// Most small files at a time.
    pub max_small_files: usize,
    /// Memory for bytes in flight.
    pub budget_bytes: u64,
}

/// The most files at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Large ones.
    pub large: usize,
    /// Small ones that are being fetched or uploaded.
    pub small: usize,
    /// Both together.
    pub all: usize,
}
