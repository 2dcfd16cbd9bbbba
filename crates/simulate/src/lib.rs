//! Simulated links and programs: the cost of reads over a link, in virtual time.
//!
//! The description of a link is that of [`hither_netem`]; here its time passes virtually, and no
//! packet is sent.
//!
//! - [`source`]: a [`Source`](hither_core::Source) behind a link, for tests that assert round
//!   trips, by tokio's clock or another.
//! - [`job`]: a recorded job on another link and with other settings.
//! - [`virtual_time`]: a clock that jumps, and the futures that wait for it.
//! - [`prefetch_model`]: a workload played through a [`Prefetcher`](hither_read::Prefetcher) by
//!   arithmetic alone.
//! - [`workload`]: programs that read, as lists of reads; the same for the same seed.
//!
//! # Where to start reading
//!
//! - a recorded job on another link: `src/job.rs`, `src/virtual_time.rs`, `src/source.rs`.

pub mod job;
pub mod prefetch_model;
pub mod source;
pub mod virtual_time;
pub mod workload;
