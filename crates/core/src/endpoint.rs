//! Capabilities of a server: learned, not assumed.
//!
//! The record of one endpoint (scheme, host and port) starts conservative, is raised on success and
//! lowered on refusal. It is kept in memory by the transport and on disk by the store, with an
//! expiry, and is untrusted when it is read from there: [`Endpoint::clamped`] clamps every figure.

pub mod limit_discovery;
pub mod store;
pub mod xrootd;
use crate::{LearnedLimit, Limits, LinkEstimate};
use serde::{Deserialize, Serialize};
use std::time::Duration;
pub use xrootd::{HandleNumbering, LearnedRedirect, MAX_DIRECTION, MAX_DIRECTIONS, XrootdEndpoint};

/// Response of a server to a request for several ranges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RangeSupport {
    /// No request has shown it yet.
    #[default]
    Unknown,
    /// Several ranges in one multipart response.
    Multi,
    /// One range per request only.
    Single,
    /// No ranges at all: the server sends the whole file, whatever the request names.
    Whole,
}

/// The record of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Endpoint {
    /// Response to requests for several ranges.
    pub ranges: RangeSupport,
    /// True if `bytes=-N` works.
    pub suffix: bool,
    /// Ranges in one request.
    pub range_count: LearnedLimit,
    /// Bytes of range text in one request, without `bytes=`.
    pub header_bytes: LearnedLimit,
    /// Bytes of the file in one response.
    pub answer_bytes: LearnedLimit,
    /// Smallest round-trip time seen, in microseconds; 0 if never measured.
    pub rtt_micros: u64,
    /// Shortest time from a request to its response, in microseconds; 0 if never measured.
    pub first_byte_micros: u64,
    /// Highest bandwidth seen, in bytes per second; 0 if never measured.
    pub bandwidth: u64,
    /// Maximum number of connections the server was seen to accept before it pushed back; 0 if it
    /// never did.
    pub max_connections: usize,
    /// Concurrent requests on one HTTP/2 connection; 1 if the server does not speak HTTP/2, 0 if it
    /// was never offered.
    pub streams: usize,
    /// Support of a list of ranges in the body of a `QUERY`: none if the server never offered it,
    /// false if it did and then rejected one.
    #[serde(default)]
    pub query: Option<bool>,
    /// Maximum number of ranges in one of them.
    pub query_ranges: usize,
    /// True if its entity tags differ for one version of a file, as those of several machines
    /// behind one name may.
    pub own_tags: bool,
    /// Capabilities for listing and writing.
    #[serde(default)]
    pub names: NamespaceSupport,
    /// Login parameters of the XRootD protocol, once a login has succeeded.
    #[serde(default)]
    pub xrootd: Option<XrootdEndpoint>,
}

/// Capabilities of a server besides sending files; none where no request has shown it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NamespaceSupport {
    /// It supports PROPFIND.
    pub lists: Option<bool>,
    /// It supports MOVE.
    pub moves: Option<bool>,
    /// It accepts a file in pieces, by PUT with `Content-Range`.
    pub pieces: Option<bool>,
    /// It supports trees as streams: false if it offered them and then rejected one.
    pub trees: Option<bool>,
    /// It accepts uploads of trees: false if it offered that and then rejected one.
    pub tree_uploads: Option<bool>,
    /// The server replaces existing files even if the request forbids it.
    pub replaces: bool,
    /// It has kept the time of an uploaded file.
    pub keeps_times: bool,
}

impl NamespaceSupport {
    /// This record, with the values of `older` where it has none.
    #[must_use]
    pub fn or(self, older: Self) -> Self {
        Self {
            lists: self.lists.or(older.lists),
            moves: self.moves.or(older.moves),
            pieces: self.pieces.or(older.pieces),
            trees: self.trees.or(older.trees),
            tree_uploads: self.tree_uploads.or(older.tree_uploads),
            replaces: self.replaces || older.replaces,
            keeps_times: self.keeps_times || older.keeps_times,
        }
    }
}

/// Ranges and header text that every server seen so far accepts: Apache stops at 200 ranges, and
/// 3,900 bytes leave room for other headers in the 4 KiB buffers of the smallest ones (davix uses
/// the same figure).
pub const CONSERVATIVE_RANGES: u64 = 200;
/// See [`CONSERVATIVE_RANGES`].
pub const CONSERVATIVE_HEADER_BYTES: u64 = 3_900;
/// No request grows beyond this, whatever a server accepts: its text has to leave in a few windows.
pub const MAX_HEADER_BYTES: u64 = 64 * 1024;
/// Text length grown to on success: the most common limit, 8 KiB, without the field's name and some
/// reserve. Longer texts are sent only to servers that are known to accept them.
pub const COMMON_HEADER_BYTES: u64 = 7_900;
/// No request holds more ranges than this, whatever a server accepts.
pub const MAX_RANGES: u64 = 10_000;

/// Maximum number of bytes of the file in one request: memory is bounded in whole requests, so one
/// of them must not use the whole budget.
pub const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// Maximum number of concurrent requests on one HTTP/2 connection, whatever its server allows:
/// nginx's limit, and more than the minimum that RFC 9113 (section 6.5.2) recommends.
pub const MAX_STREAMS: usize = 128;

/// A single range is requested however long its text is ([`Plan`](crate::Plan)), so this stands for
/// single ranges.
const MIN_HEADER_BYTES: u64 = 1;
/// The learned limit on the bytes of a response does not fall below this: a server that sends less
/// is unusable.
pub const MIN_ANSWER_BYTES: u64 = 4 * 1024;

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            ranges: RangeSupport::Unknown,
            suffix: true,
            range_count: LearnedLimit::starting(CONSERVATIVE_RANGES),
            header_bytes: LearnedLimit::starting(CONSERVATIVE_HEADER_BYTES),
            answer_bytes: LearnedLimit::starting(MAX_REQUEST_BYTES),
            rtt_micros: 0,
            first_byte_micros: 0,
            bandwidth: 0,
            max_connections: 0,
            streams: 0,
            query: None,
            query_ranges: MAX_QUERY_RANGES,
            own_tags: false,
            names: NamespaceSupport::default(),
            xrootd: None,
        }
    }
}

impl Endpoint {
    /// The record with every figure clamped to plausible values.
    #[must_use]
    pub fn clamped(mut self) -> Self {
        self.range_count = self.range_count.clamped(1, MAX_RANGES);
        self.header_bytes = self.header_bytes.clamped(MIN_HEADER_BYTES, MAX_HEADER_BYTES);
        self.answer_bytes = self.answer_bytes.clamped(MIN_ANSWER_BYTES, MAX_REQUEST_BYTES);
        self.rtt_micros = self.rtt_micros.min(60_000_000);
        self.first_byte_micros = self.first_byte_micros.min(60_000_000);
        self.max_connections = self.max_connections.min(1024);
        self.streams = self.streams.min(MAX_STREAMS);
        self.query_ranges = self.query_ranges.clamp(1, MAX_QUERY_RANGES);
        self.xrootd = self.xrootd.map(XrootdEndpoint::clamped);
        self
    }

    /// Called after a refusal: keeps the limits usable, and sets [`RangeSupport::Single`] where two
    /// ranges were too many.
    pub fn settle(&mut self) {
        self.header_bytes.current = self.header_bytes.current.max(MIN_HEADER_BYTES);
        self.answer_bytes.current = self.answer_bytes.current.max(MIN_ANSWER_BYTES);
        if self.range_count.rejected == 2 {
            self.ranges = RangeSupport::Single;
        }
    }

    /// Records the measurements of the path.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, which is what is meant"
    )]
    pub fn set_link(&mut self, link: &LinkEstimate) {
        if let Some(rtt) = link.rtt {
            self.rtt_micros = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX).max(1);
        }
        if let Some(bandwidth) = link.bandwidth {
            self.bandwidth = bandwidth as u64;
        }
        if let Some(first_byte) = link.response_time() {
            self.first_byte_micros =
                u64::try_from(first_byte.as_micros()).unwrap_or(u64::MAX).max(1);
        }
    }

    /// The stored estimate of the link.
    #[must_use]
    pub fn link(&self) -> LinkEstimate {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let bandwidth = (self.bandwidth > 0).then_some(self.bandwidth as f64);
        let known = |micros: u64| (micros > 0).then(|| Duration::from_micros(micros));
        let rtt = known(self.rtt_micros);
        let first_byte = known(self.first_byte_micros);
        LinkEstimate { rtt, bandwidth, first_byte, ..LinkEstimate::default() }
    }

    /// The limits that follow from the record for a many-range GET, or for a `QUERY` where the
    /// server accepts one.
    ///
    /// One more part costs 70 to 155 bytes of framing in the response and about 20 in the request,
    /// measured on nginx, Apache, Go and XrdHttp. Where one more range is one more request, it
    /// costs the heads of both: some 500 bytes.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let count =
            |allowance: &LearnedLimit| usize::try_from(allowance.current).unwrap_or(usize::MAX);
        let limits = Limits {
            max_ranges: count(&self.range_count).max(1),
            max_header_bytes: count(&self.header_bytes),
            max_range_bytes: u64::MAX,
            max_total_bytes: self.answer_bytes.current,
            range_cost_bytes: PART_COST_BYTES,
        };
        if self.query == Some(true) && self.ranges != RangeSupport::Whole {
            return Limits {
                max_ranges: self.query_ranges,
                max_header_bytes: usize::MAX,
                range_cost_bytes: FRAME_COST_BYTES,
                ..limits
            };
        }
        match self.ranges {
            RangeSupport::Unknown | RangeSupport::Multi if limits.max_ranges > 1 => limits,
            // Every request is a download of the whole file, so there must be only one; unwanted
            // bytes are dropped.
            RangeSupport::Whole => Limits::unlimited(),
            _ => Limits { max_ranges: 1, range_cost_bytes: REQUEST_COST_BYTES, ..limits },
        }
    }
}

/// Bytes on the wire for one more range in a request.
const PART_COST_BYTES: u64 = 120;
/// Bytes on the wire for one more range in a `QUERY`: its frame, and its place in the list.
const FRAME_COST_BYTES: u64 = 24;
/// Maximum ranges in a `QUERY`: the default limit of `hither serve`, with one to spare for a tail.
const MAX_QUERY_RANGES: usize = 19_999;
/// Bytes on the wire for one more request.
const REQUEST_COST_BYTES: u64 = 500;
