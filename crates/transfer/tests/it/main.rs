//! Copies from beginning to end: between local directories, and from a server that misbehaves on
//! demand.

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
