//! The server as clients see it, over sockets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod any_bytes;
mod bounds;
mod client;
mod configuration;
mod connections;
mod hostile;
mod memory;
mod races;
mod ranges;
mod reading;
mod replicas;
mod rig;
mod running;
mod third_party;
mod writing;
