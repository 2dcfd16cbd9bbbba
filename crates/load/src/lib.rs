//! Load rules: number of connections to open, number of requests to send to a server at a time, and
//! time to split a request that all others wait for.
//!
//! Every rule is a function of measured values. Nothing here sends or waits, so each rule can be
//! tested with a table of numbers.
//!
//! - Connections to open while the bandwidth is unknown: [`connections::speculative`], from the
//!   round-trip time; for transport, after a handshake.
//! - Connections for one job: [`connections::for_bytes`], [`connections::for_requests`] and
//!   [`connections::prefer_open`], from the bandwidth-delay product, bytes, requests and open
//!   connections; for the scheduler of reads.
//! - Connections for one positional read: [`connections::for_range`] and [`connections::for_read`],
//!   from bytes, requests and latency; for the cache of reads. Its share while other reads wait:
//!   [`connections::fair_share`].
//! - Workers of a copy: [`connections::for_bulk`], from round-trip time and bandwidth; for
//!   transfer.
//! - Requests in flight at one server: [`concurrency_limit`], from responses with status 429 and
//!   503; for transport, before every request.
//! - Bytes per second, where the user limits them: [`bandwidth`], from the bytes that moved; for
//!   transfer.
//! - Splitting the slowest request: [`straggler`], from bytes so far and the round-trip time; for
//!   the scheduler of reads and transfer.
//!
//! The rules for connections return the number that *helps*. Two limits bound it from above: the
//! caller's maximum ([`hither_core::Source::max_connections`]), and the server's adaptive
//! [`concurrency_limit::ConcurrencyLimit`], which every request must pass; a connection without an
//! admitted request stays idle. If a connection carries many requests (HTTP/2),
//! the scheduler of reads sends as many as the source takes, under the same limit.
//!
//! The estimates of the link ([`LinkEstimate`](hither_core::LinkEstimate)) are measured elsewhere.
//! The crate tune finds concurrency by experiment.
//!
//! # Where to start reading
//!
//! - how many connections help: `src/connections.rs`; who has more opened or tried:
//!   `crates/read/src/schedule.rs`, `crates/tune/src/tuner.rs`;
//! - how many requests a server has at a time once it has refused one: `src/concurrency_limit.rs`;
//! - when a slow request is split: `src/straggler.rs`; what `--bwlimit` does: `src/bandwidth.rs`.

pub mod bandwidth;
pub mod concurrency_limit;
pub mod connections;
pub mod straggler;
