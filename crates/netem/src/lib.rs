//! Descriptions of networks, and counts of round trips, shared by emulators.
//!
//! A [`Link`] has a round-trip time, a rate, a loss and a queue. Three crates share that
//! description: `hither-simulate` simulates it in virtual time, `hither-testkit` has a TCP proxy
//! that delays and limits, `hither-wan` emulates it packet by packet.
//!
//! - [`link`]: the description of a link, its parsing, and the links of the talk by their letters.
//! - [`dependency_chain`] and [`turns`]: round trips of a client, from the times of its requests.
//! - [`random`]: the seeded random generator.
//!
//! This crate sends, delays and drops no packets, and does not depend on the protocol over a link.
//!
//! # Where to start reading
//!
//! - what a link is, and how its options are read: `src/link.rs`;
//! - what counts as a round trip: `src/dependency_chain.rs`, by turns alone `src/turns.rs`.

pub mod dependency_chain;
pub mod link;
pub mod random;
pub mod turns;

pub use link::Link;
