//! The bottleneck of a job: its name, its evidence, what to change, and what that saves.
//!
//! The evidence is measured outside: the requests of each connection with their times, what the
//! kernel says of the connections, the times of decoding and writing, and what the server tells of
//! its own share. Everything here is arithmetic on it.
//!
//! **First the time, then the cause.** [`activity`] divides the duration of the job into phases,
//! each instant into one: bytes arrive; else the server is waited for; else the path; else a
//! redirect is followed, or a connection opened; else nothing is under way: this machine works.
//! [`attribution`] then says for each phase what made it long. Only the transfer needs more than
//! one look: a slow path, a small window, a cap per connection, loss, and slow disks at both ends
//! all show as bytes that arrive slowly.
//!
//! | evidence | bottleneck |
//! |---|---|
//! | the threads that decode are busy | decoding |
//! | the stage that writes is busy, and hardly starved | this machine's disk |
//! | the server tells that it reads files most of the time | its disk |
//! | one server sends at half the rate of another | the slow replica |
//! | more connections bring more, and segments are missing | loss |
//! | the rate still grows at the end, after few round trips | slow start |
//! | more connections bring more, each a window per round trip | the window |
//! | more connections bring more | the cap per connection |
//! | more connections bring no more, responses begin late | the server's disk |
//! | more connections bring no more | the path's rate |
//!
//! The cause that has most seconds is the bottleneck. Whether more connections bring more cannot be
//! seen in a job that had all it wanted: [`JobEvidence::probe`] has the rates of a short
//! measurement afterwards. Without one, those cases are inferred, and the diagnosis says so.
//!
//! [`server_log`] does the same from the other end: from the records that a server wrote of its
//! requests. [`Diagnosis::to_text`] and [`timeline`] put a diagnosis into sentences and pictures.
//!
//! Nothing here measures: connections record their activity in transport, jobs and probes are the
//! library's.
//!
//! # Where to start reading
//!
//! - how the bottleneck of a job is named: `src/lib.rs`, then `src/attribution/transfer.rs`,
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
