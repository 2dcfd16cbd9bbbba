//! Simulated links and programs: the cost of reads over a link, in virtual time.
//!
//! [`hither_netem`] has the description of a link. Here time is virtual, and no packet is sent.
//!
//! - [`source`]: a [`Source`](hither_core::Source) behind a link, for tests that assert round
//!   trips, on tokio's clock or another.
//! - [`job`]: a recorded job over another link and with other settings.
//! - [`virtual_time`]: a clock that jumps to the next timer, and the futures that wait for it.
//!
//! # Where to start reading
//!
//! - a recorded job on another link: `src/job.rs`, `src/virtual_time.rs`, `src/source.rs`.

pub mod job;
pub mod source;
pub mod virtual_time;
