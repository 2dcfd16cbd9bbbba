//! Integration tests of the library.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod breaks;
mod byte_reads;
mod changes;
mod draw_matches_root;
mod draw_of_lists;
mod every_server;
mod many;
mod positional;
mod program;
mod replicas;
mod report_equals_log;
mod requests;
mod rig;
mod staleness;
mod truncation;
