//! Networks as emulators describe and count them.
//!
//! A [`Link`] has a round-trip time, a rate, a loss and a queue. Three crates share that
//! description: `hither-simulate` simulates it in virtual time, `hither-testkit` has a TCP proxy
//! that delays and limits, `hither-wan` emulates it packet by packet.
//!
//! - [`link`]: the description of a link, its texts, and the links of the talk by their letters.
//! - [`dependency_chain`] and [`turns`]: round trips that a client waited for, from the times of
//!   its requests.
//! - [`random`]: the seeded generator of all of them.
//!
//! Nothing here sends, delays or drops a packet, and nothing knows what is read over a link.

pub mod dependency_chain;
pub mod link;
pub mod random;
pub mod turns;

pub use link::Link;
