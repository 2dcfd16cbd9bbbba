//! Tests of the crate's public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod properties;
