//! Client and server against each other, against recordings of real servers, against a real server
//! if one is installed, and against arbitrary bytes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests say where they fail by panicking, and why they skip"
)]

mod any_bytes;
mod driver;
mod handles;
mod messages;
mod pair;
mod progress;
mod real;
mod seeds;
mod transcripts;
mod xrootd;
