//! Simulated links and programs: the cost of reads over a link, in virtual time.
//!
//! A [`Link`] has a round-trip time, a rate, a loss and a queue. Three crates share that
//! description: this one simulates it in virtual time, `hither-testkit` has a TCP proxy that delays
//! and limits, `hither-wan` emulates it packet by packet.
//!
//! - [`source`]: a [`Source`](hither_core::Source) behind a link, for tests that assert round
//!   trips, by tokio's clock or another.
//! - [`job`]: a recorded job on another link and with other settings.
//! - [`virtual_time`]: a clock that jumps, and the futures that wait for it.
//! - [`prefetch_model`]: a workload played through a [`Prefetcher`](hither_core::Prefetcher) by
//!   arithmetic alone.
//! - [`workload`]: programs that read, as lists of reads; the same for the same seed.
//! - [`dependency_chain`] and [`turns`]: round trips that a client waited for, from the times of
//!   its requests.
//! - [`random`]: the seeded generator of all of them.

pub mod dependency_chain;
pub mod job;
pub mod link;
pub mod prefetch_model;
pub mod random;
pub mod source;
pub mod turns;
pub mod virtual_time;
pub mod workload;

pub use link::Link;
