//! Decisions on retries in virtual time, and walks through directories.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directory_walk;
mod retry;
