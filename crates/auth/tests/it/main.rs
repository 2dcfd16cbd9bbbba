//! Hostile tokens, as the fuzz target tests them.

#![expect(clippy::unwrap_used, reason = "tests say where they fail by panicking")]

mod any_bytes;
mod seeds;
