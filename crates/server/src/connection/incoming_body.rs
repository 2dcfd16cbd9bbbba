//! The body of a request as it arrives, with clocks and a bound.
//!
//! One clock runs while nothing comes, the other adds up all the time that was spent waiting for the client: after a minute of
//! that it must have sent [`ServerLimits::min_rate`](crate::Limits) bytes for each second, so nobody holds a place by a byte now and
//! then. The time that the disk takes is not held against the client.

use crate::http_error::HttpError;
use crate::monitoring::request_record::RequestTimings;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// See the module above.
#[derive(Debug)]
pub(crate) struct IncomingBody {
    body: Incoming,
    stall: Duration,
    pace: Pace,
    pub(crate) tally: Arc<RequestTimings>,
}

/// The bounds of a body that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// The longest time without any byte.
    pub(crate) stall: Duration,
    /// The minimum rate in bytes per second, after the first minute of waiting.
    pub(crate) min_rate: u64,
}

/// How fast a client is while it is its turn.
#[derive(Debug)]
struct Pace {
    /// Bytes a second.
    least: u64,
    waited: Duration,
    came: u64,
}

/// For so long the pace is the client's own affair.
const GRACE: Duration = Duration::from_secs(60);

impl Pace {
    /// So many bytes have come after so long. Tells whether that goes on to be fast enough.
    fn add(&mut self, waited: Duration, bytes: usize) -> bool {
        self.waited += waited;
        self.came = self.came.saturating_add(bytes as u64);
        let least = u128::from(self.least) * self.waited.as_millis() / 1000;
        self.waited <= GRACE || u128::from(self.came) >= least
    }
}

impl IncomingBody {
    pub(crate) fn new(body: Incoming, limits: BodyLimits, tally: Arc<RequestTimings>) -> Self {
        let pace = Pace { least: limits.min_rate, waited: Duration::ZERO, came: 0 };
        Self { body, stall: limits.stall, pace, tally }
    }

    /// Its length in bytes, if that was announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_end_stream()
    }

    /// The next bytes; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let began = Instant::now();
            let frame = match tokio::time::timeout(self.stall, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => {
                    let what = "the request body ended early";
                    return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
                }
                Err(_) => {
                    let what = "timeout: no more of the request body arrived";
                    return Err(HttpError::new(StatusCode::REQUEST_TIMEOUT, what));
                }
            };
            let (bytes, waited) = (frame.data_ref().map_or(0, Bytes::len), began.elapsed());
            self.tally.waited(waited);
            if !self.pace.add(waited, bytes) {
                let what = "the request body arrives more slowly than this server's minimum rate";
                return Err(HttpError::new(StatusCode::REQUEST_TIMEOUT, what));
            }
            // Trailers are of no use here.
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                self.tally.received(bytes.len());
                return Ok(Some(bytes));
            }
        }
    }

    /// All of it, if it has no more than `most` bytes.
    pub(crate) async fn collect(&mut self, most: usize) -> Result<Bytes, HttpError> {
        let too_large = || {
            let what = format!("the request body is larger than {most} bytes");
            HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, what)
        };
        if self.length().is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        let mut all = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if bytes.len() > most - all.len() {
                return Err(too_large());
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_is_seen_through_after_a_minute() {
        let mut pace = Pace { least: 100, waited: Duration::ZERO, came: 0 };
        let second = Duration::from_secs(1);
        assert!((0..60).all(|_| pace.add(second, 1)));
        assert!(!pace.add(second, 1));
        let mut pace = Pace { least: 100, waited: Duration::ZERO, came: 0 };
        assert!((0..1000).all(|_| pace.add(second, 100)));
    }
}
