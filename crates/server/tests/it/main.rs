//! The server as clients see it: over sockets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bounds;
mod client;
mod connections;
mod ranges;
mod reading;
mod replicas;
mod rig;
mod running;
mod suite;
mod third_party;
mod writing;
