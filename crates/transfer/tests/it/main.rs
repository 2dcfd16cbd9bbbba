//! Complete copies: between local directories, and from a server with programmable faults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod from_server;
mod limits;
mod listed;
mod local;
mod server_files;
mod sync;
mod to_server;
mod uploads;
mod walk;
