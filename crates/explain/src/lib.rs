//! The bottleneck of a job: its name, its evidence, the change to make, and the time that it saves.
//!
//! The evidence is measured elsewhere: the requests of each connection with their times, the
//! kernel's counters of the connections, the times of decoding and writing, and the times that the
//! server states. This crate only does arithmetic on it.
//!
//! **First the time, then the cause.** [`activity`] divides the duration of the job into phases.
//! Each instant belongs to one: bytes arrive; else the job waits for the server; else for the path;
//! else it follows a redirect, or opens a connection; else no request is in flight: this machine
//! works. [`attribution`] then finds the cause of each phase. Only the transfer needs several
//! figures: a slow path, a small window, a cap per connection, loss, and slow disks at both ends
//! all show as bytes that arrive slowly.
//!
//! | evidence | bottleneck |
//! |---|---|
//! | the threads that decode are busy | decoding |
//! | the stage that writes is busy, and hardly starved | this machine's disk |
//! | the server states that it reads files most of the time | its disk |
//! | one server sends at half the rate of another | the slow replica |
//! | more connections increase the rate, and segments are missing | loss |
//! | the rate still grows at the end, after few round trips | slow start |
//! | more connections increase the rate, each a window per round trip | the window |
//! | more connections increase the rate | the cap per connection |
//! | more connections do not increase the rate, responses begin late | the server's disk |
//! | more connections do not increase the rate | the path's rate |
//!
//! The cause with the most seconds is the bottleneck. A job that had all the connections it wanted
//! does not show whether more would increase the rate: [`JobEvidence::probe`] has the rates of a
//! short measurement afterwards. Without one, those cases are inferred, and the diagnosis says so.
//!
//! [`server_log`] does the same at the other end: from the log that a server wrote of its requests.
//! [`Diagnosis::to_text`] and [`timeline`] present a diagnosis as text and images.
//!
//! This crate measures nothing: connections record their activity in `hither-transport`; jobs and
//! probes belong to `hither`.
//!
//! # Where to start reading
//!
//! - how the bottleneck of a job is found: `src/lib.rs`, then `src/attribution/transfer.rs`,
//!   `crates/transport/src/counters/activity.rs`, `crates/hither/src/explanation.rs`.

pub mod activity;
pub mod attribution;
mod diagnosis;
mod evidence;
pub mod server_log;
pub mod timeline;

#[cfg(test)]
mod tests;

pub use activity::{ArrivalSeries, ConnectionActivity, JobPhase, PhaseSeconds, RequestActivity};
pub use diagnosis::{Bottleneck, Diagnosis, EvidenceItem};
pub use evidence::{JobEvidence, ProbeStep, StageSeconds, TcpCounters};
