//! Integration tests of the library.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod draw_matches_root;
mod query_properties;
