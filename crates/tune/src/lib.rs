//! The tuner: finds the concurrency with the highest throughput, from measurements alone.
//!
//! - [`Tuner`] controls one knob of a job that lasts: connections, small files or uploads at a time
//!   of a copy. Its caller reports the bytes or files moved so far, with the time
//!   ([`Observation`]), and uses the [`Tuner::setting`].
//! - [`ReadTrial`] is the tuner of a long read, as a
//!   [`ConnectionTrial`](hither_core::source::connection_trial::ConnectionTrial) that a reader
//!   begins where a server may limit each of its connections.
//!
//! - [`ConcurrencyController`] has the tuners of a job that moves files, and sets how many workers,
//!   uploads and small files it has at a time.
//!
//! It is pure: nothing here measures, opens a connection or starts a worker. The rules of the crate
//! load give the first setting, from the properties of the path.
//!
//! # Where to start reading
//!
//! - how many connections, small files and uploads a copy has at a time: `src/controller.rs`, then
//!   `src/tuner.rs`.

mod controller;
mod read_trial;
mod tuner;

pub use controller::{
    ConcurrencyController, ConcurrencyLimits, ControlledJob, ControllerOptions, FileLimits,
    JobTotals, JobTuners, MovedFiles, SAMPLE_INTERVAL, SmallFileLimits, TuningMemory, UploadState,
};
pub use read_trial::ReadTrial;
pub use tuner::{
    Bottleneck, CongestionControl, Observation, PathSignal, Reason, StageTimes, TunedKnob, Tuner,
    TunerLimits, TuningDecision, TuningPhase,
};
