//! The body of a request as it arrives, with timeouts, a maximum length, and its checksums.
//!
//! One timeout runs while nothing arrives. A minimum rate counts only the time spent waiting for
//! the client: in each minute of that, [`min_rate`](BodyLimits::min_rate) bytes per second must
//! arrive, so a client cannot hold a connection with occasional bytes. Time that the disk takes
//! does not count.

use crate::connection::rate_check::RateCheck;
use crate::http_error::HttpError;
use crate::method::digest_fields::ContentDigests;
use crate::monitoring::request_record::RequestTimings;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The body of a request as it arrives.
#[derive(Debug)]
pub(crate) struct IncomingBody {
    body: Incoming,
    stall: Duration,
    rate: RateCheck,
    digests: ContentDigests,
    /// The fields after the body.
    trailers: HeaderMap,
    pub(crate) tally: Arc<RequestTimings>,
}

/// The bounds of a body that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// The longest time without any byte.
    pub(crate) stall: Duration,
    /// The minimum rate in bytes per second, in each minute of waiting.
    pub(crate) min_rate: u64,
}

impl IncomingBody {
    pub(crate) fn new(
        body: Incoming,
        limits: BodyLimits,
        digests: ContentDigests,
        tally: Arc<RequestTimings>,
    ) -> Self {
        let rate = RateCheck::new(limits.min_rate);
        let trailers = HeaderMap::new();
        Self { body, stall: limits.stall, rate, digests, trailers, tally }
    }

    /// The announced length in bytes.
    pub(crate) fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Returns true if the request has no body.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_end_stream()
    }

    /// The fields that came after the body, once all of it has arrived.
    pub(crate) fn trailers(&self) -> &HeaderMap {
        &self.trailers
    }

    /// Returns the next bytes; none at the end. Fails there if the body has not the checksums that
    /// its request announced for it.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let began = Instant::now();
            let frame = match tokio::time::timeout(self.stall, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return self.digests.verify(&self.trailers).map(|()| None),
                Ok(Some(Err(_))) => {
                    let what = "the request body ended early";
                    return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
                }
                Err(_) => {
                    let what = "timeout: no more of the request body arrived";
                    return Err(HttpError::new(StatusCode::REQUEST_TIMEOUT, what));
                }
            };
            let waited = began.elapsed();
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.tally.waited(waited);
            if !self.rate.add(waited, bytes as u64) {
                let what = "the request body arrives more slowly than this server's minimum rate";
                return Err(HttpError::new(StatusCode::REQUEST_TIMEOUT, what));
            }
            match frame.into_data() {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => {
                    self.tally.received(bytes.len());
                    self.digests.update(&bytes);
                    return Ok(Some(bytes));
                }
                Err(frame) => self.trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
    }

    /// Returns the whole body if it has at most `max_bytes`.
    pub(crate) async fn collect(&mut self, max_bytes: usize) -> Result<Bytes, HttpError> {
        let too_large = || {
            let what = format!("the request body is larger than {max_bytes} bytes");
            HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, what)
        };
        if self.length().is_some_and(|length| length > max_bytes as u64) {
            return Err(too_large());
        }
        let mut all = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if bytes.len() > max_bytes - all.len() {
                return Err(too_large());
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all.freeze())
    }
}
