//! Integration tests of the library.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod breaks;
mod byte_reads;
mod changes;
mod every_server;
mod many;
mod names;
mod oracle;
mod positional;
mod replicas;
mod report_equals_log;
mod requests;
mod staleness;
mod support;
mod truncation;
