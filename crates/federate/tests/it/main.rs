//! The federation over storages in memory, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod listing;
mod many;
mod reading;
mod relaying;
mod rig;
mod writing;
