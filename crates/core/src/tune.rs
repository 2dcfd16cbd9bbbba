//! Rules for load: how many connections to open, how much to ask of a server at a time, and when to
//! split a request that everything waits for.
//!
//! Every rule is a function of measured values. Nothing here sends or waits, so each rule can be
//! tested with a table of numbers.
//!
//! - Connections to open while the bandwidth is unknown: [`connections::speculative`], from the
//!   round-trip time; for transport, after a handshake.
//! - Connections for one job: [`connections::for_bytes`], [`connections::for_requests`] and
//!   [`connections::prefer_open`], from the bandwidth-delay product, bytes, requests and open
//!   connections; for `hither_read::schedule`.
//! - Connections for one positional read: [`connections::for_range`] and [`connections::for_read`],
//!   from bytes, requests and latency; for `hither_read::cache`. Its share while other reads wait:
//!   [`connections::fair_share`].
//! - Workers of a copy: [`connections::for_bulk`], from round-trip time and bandwidth; for
//!   transfer.
//! - Connections, files and uploads at a time of a job that lasts: [`tuner`], from what they
//!   brought; for transfer, and for long reads in `hither_read::schedule`. It starts from the
//!   numbers above.
//! - Requests in flight at one server: [`concurrency_limit`], from responses 429 and 503; for
//!   transport, before every request.
//! - Ranges and bytes in one request: [`limit_discovery`], from requests accepted and rejected; for
//!   [`crate::Endpoint`] and transport.
//! - Bytes per second, where the user limits them: [`bandwidth`], from the bytes that moved; for
//!   transfer.
//! - Gaps to read over where a request takes one range: [`request_cost`], from round-trip time and
//!   bandwidth; for [`crate::Limits`].
//! - Splitting the slowest request: [`straggler`], from bytes so far and the round-trip time; for
//!   `hither_read::schedule` and transfer.
//! - Round-trip time and bandwidth: [`link`], from handshakes and arrival times; for all of these.
//!
//! The rules for connections return the number that *helps*. Two limits bound it from above: the
//! caller's maximum ([`crate::Source::max_connections`]), and the server's adaptive
//! [`concurrency_limit::ConcurrencyLimit`], which every request must pass; a connection without an
//! admitted request stays idle. If a connection carries many requests (HTTP/2),
//! `hither_read::schedule` sends as many as the source takes, under the same limit.

pub mod bandwidth;
pub mod concurrency_limit;
pub mod connections;
pub mod read_trial;
pub mod straggler;
pub mod tuner;
