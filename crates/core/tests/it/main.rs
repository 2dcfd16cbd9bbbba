//! Decisions on retries, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod retry;
