//! An HTTP/1.1 connection.

use crate::connect::metered_stream::ConnectionMeter;
use crate::http::request_body::BoxBody;
use hither_core::SlotGuard;
use hyper::client::conn::http1::SendRequest;
use std::sync::Arc;

/// A connection that carries one request at a time, with its meter.
#[derive(Debug)]
pub(crate) struct Http1Connection {
    pub(crate) sender: SendRequest<BoxBody>,
    pub(crate) tap: Arc<ConnectionMeter>,
    /// The number of responses so far.
    pub(crate) answers: u64,
    /// The claim on this connection among those of all processes.
    pub(crate) _claim: Option<Box<dyn SlotGuard>>,
}
