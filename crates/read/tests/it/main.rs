//! The reader over a link in memory, in virtual time: round trips, budget, failures, cancellation.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod ahead;
mod budget;
mod cached;
mod cached_model;
mod failures;
mod random;
mod replicas;
mod rig;
mod single_ranges;
mod trips;
mod vectors;
