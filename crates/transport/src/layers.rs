//! The layers of an HTTP request. Each decides one thing, in one file:
//!
//! | question | layer |
//! |---|---|
//! | Where is it sent, and is a redirect followed, with its secrets? | [`redirects`] |
//! | Is it sent whole or in pieces, and what if it was too large? | [`sizing`] |
//! | Is it sent now, and what if the server is busy? | [`admission`] |
//! | Which credential does it have, and what if that is rejected? | [`credential`] |
//! | What if its connection was closed? | [`stale_connections`] |
//!
//! A layer is a value that lives as long as one request, with a method that returns whether the
//! request is sent again. So the functions that send requests are loops over these values, from the
//! outermost layer to the innermost one: `HttpSource::exchange` for ranges of files,
//! [`Network::call`](crate::network::Network::call) for all other requests, `webdav/tree.rs` for
//! streams of records. Requests over `root://` share [`redirects`] and [`credential`].

pub(crate) mod admission;
pub(crate) mod credential;
pub(crate) mod redirects;
pub(crate) mod sizing;
pub(crate) mod stale_connections;
pub(crate) mod target_memory;
