//! An HTTP/1.1 connection.

use crate::connect::metered_stream::ConnectionMeter;
use crate::http::request_body::BoxBody;
use hither_core::SlotGuard;
use http::response::Parts;
use http::{Version, header};
use hyper::client::conn::http1::SendRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A server that closes a connection which was idle for a shorter time does so for another reason
/// than that: the shortest default is Apache's, 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(4);

/// A connection that carries one request at a time, with its meter.
#[derive(Debug)]
pub(crate) struct Http1Connection {
    pub(crate) sender: SendRequest<BoxBody>,
    pub(crate) tap: Arc<ConnectionMeter>,
    /// The number of responses so far.
    pub(crate) answers: u64,
    /// The time at which it was last free for another request.
    pub(crate) idle_since: Instant,
    /// The claim on this connection among those of all processes.
    pub(crate) _claim: Option<Box<dyn SlotGuard>>,
}

impl Http1Connection {
    /// Returns true for an idle connection that the server has closed although it had kept it open
    /// for another request a moment ago: it may have been restarted.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.sender.is_closed() && self.answers > 0 && self.idle_since.elapsed() < KEEP_ALIVE
    }
}

/// Returns true for a response after which the server closes the connection.
pub(crate) fn is_last(head: &Parts) -> bool {
    let connection = head.headers.get(header::CONNECTION).map_or(&b""[..], |it| it.as_bytes());
    connection.eq_ignore_ascii_case(b"close")
        || (head.version == Version::HTTP_10 && connection.is_empty())
}
