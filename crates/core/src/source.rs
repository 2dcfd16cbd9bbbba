//! Sources of bytes: positional, vectored, minimal.

pub mod clock;
pub mod connection_trial;
pub mod limits;
pub mod link;
pub mod request_cost;
pub(crate) mod version_binding;
pub use crate::source::version_binding::VersionBinding;
use crate::{Clock, Endpoint, Limits, LinkEstimate, Result};
use bytes::Bytes;
use futures_core::future::BoxFuture;
use std::fmt::Debug;
use std::ops::Range;

/// One request: ranges that fit the source's [`Limits`], sorted, disjoint and not empty.
/// [`crate::plan`] makes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The ranges, ascending.
    pub ranges: Vec<Range<u64>>,
    /// The last this many bytes of the file, whose size need not be known; 0 for none.
    pub tail: u64,
    /// If the file no longer has this validator, the request fails with
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed).
    pub validator: Option<String>,
    /// Size that the file must have, in bytes; an answer that states another one fails with
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed) before any of it is delivered.
    pub size: Option<u64>,
    /// The version that responses must be of, whichever request gets the first one.
    pub version: VersionBinding,
    /// Another server can be used instead: the request does not wait for one that refuses
    /// connections.
    pub failover: bool,
    /// By its name and its listing the file is not an HTML page: a response with such a page, as a
    /// login page, fails with [`ErrorKind::Protocol`](crate::ErrorKind::Protocol), unless it has
    /// the size that the file must have.
    pub refuses_pages: bool,
}

impl Request {
    /// Bytes of the file that are requested, the tail included.
    #[must_use]
    pub fn requested_bytes(&self) -> u64 {
        crate::range::total_bytes(&self.ranges).saturating_add(self.tail)
    }
}

/// A run of bytes that arrived. It may be smaller than any requested range; parts may arrive in any
/// order.
#[derive(Debug, Clone)]
pub struct Part {
    /// Position of the first byte in the file.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// Receives the parts of a response as they arrive. Called on the I/O runtime: it must not block
/// nor decode.
pub type PartSink = Box<dyn FnMut(Part) + Send>;

/// Metadata of the file from a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseMeta {
    /// Size of the file, if stated.
    pub size: Option<u64>,
    /// Strong validator: an entity tag with its quotes, else a date of last modification as sent.
    pub validator: Option<String>,
    /// The response did not state the size: its end showed it.
    pub is_size_counted: bool,
    /// Bytes of payload that were not requested.
    pub unasked_bytes: u64,
}

/// Returns true for an entity tag, which has quotes (RFC 9110 section 8.8.3). Some servers list
/// them without.
#[must_use]
pub fn is_entity_tag(validator: &str) -> bool {
    validator.strip_prefix("W/").unwrap_or(validator).starts_with('"')
}

/// Returns true if two validators are of different versions of a file. Entity tags are compared
/// weakly (RFC 9110 section 8.8.3.2); a tag and a date cannot be compared.
///
/// ```
/// use hither_core::validators_differ;
/// assert!(validators_differ("W/\"a\"", "\"b\""));
/// assert!(!validators_differ("W/\"a\"", "\"a\""));
/// assert!(!validators_differ("\"a\"", "Sun, 22 Nov 2026 10:00:00 GMT"));
/// ```
#[must_use]
pub fn validators_differ(one: &str, other: &str) -> bool {
    let one = one.strip_prefix("W/").unwrap_or(one);
    let other = other.strip_prefix("W/").unwrap_or(other);
    one.starts_with('"') == other.starts_with('"') && one != other
}

/// A file that can be read by ranges.
///
/// Contract: parts delivered to the sink hold exactly the bytes of the file; when [`Source::fetch`]
/// succeeds, every requested byte has been delivered. Parts delivered before a failure are valid
/// and need not be requested again. Before a part of a file that can change is delivered, its
/// version is bound ([`VersionBinding::bind`]). Dropping the future cancels the request.
pub trait Source: Send + Sync + Debug {
    /// Name of the source for messages; without secrets.
    fn name(&self) -> String;
    /// The server that the last request was sent to, if a redirect led there.
    fn redirected_to(&self) -> Option<String> {
        None
    }
    /// Limits of one request at this moment; they change as the source learns.
    fn limits(&self) -> Limits;
    /// Estimates of the link to the server at this moment.
    fn link(&self) -> LinkEstimate;
    /// The clock by which the source's timings are taken.
    fn clock(&self) -> &dyn Clock;
    /// Capabilities of the server, learned so far.
    fn endpoint(&self) -> Endpoint;
    /// Maximum number of connections: the smaller of the caller's and the server's limit.
    fn max_connections(&self) -> usize;
    /// Maximum number of requests in flight: more than the connections where one connection carries
    /// several, as many otherwise. It changes as the source learns.
    fn max_requests(&self) -> usize {
        self.max_connections()
    }
    /// Maximum number of small files that may be fetched from the server at a time, as
    /// [`Source::max_requests`].
    fn max_small_files(&self) -> usize {
        self.max_requests()
    }
    /// Announces that many small files of the server will be fetched concurrently: connections that
    /// carry several requests help.
    fn expect_small_files(&self) {}
    /// Returns false if several servers share the requests, with their own rule for the number of
    /// connections.
    fn is_one_server(&self) -> bool {
        true
    }
    /// Connections that could send a request now without connecting first.
    fn idle_connections(&self) -> usize;
    /// Starts connecting until there are `connections` in all; returns immediately.
    fn preconnect(&self, connections: usize);
    /// Announces a job that needs several connections if the path is long: as soon as the first one
    /// has measured the latency, others may be opened during its first request. Returns
    /// immediately.
    fn expect_bulk(&self) {}
    /// Lets the next responses be of another version of the file than those before: the file is
    /// opened again. A source that remembers no version has nothing to do.
    fn forget_version(&self) {}
    /// Maximum number of bytes of the first request of a file whose version is not known yet. A
    /// source that has bytes of the file on this machine needs the server only for the version.
    fn max_first_bytes(&self) -> u64 {
        u64::MAX
    }
    /// Sends one request on one connection: one round trip.
    fn fetch(&self, request: Request, sink: PartSink) -> BoxFuture<'_, Result<ResponseMeta>>;
}
