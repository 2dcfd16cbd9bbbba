//! The body of a request as it arrives, with a clock and a bound.

use crate::refusal::Refusal;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::time::Duration;

/// See the module above.
#[derive(Debug)]
pub(crate) struct Arriving {
    body: Incoming,
    stall: Duration,
}

impl Arriving {
    pub(crate) fn new(body: Incoming, stall: Duration) -> Self {
        Self { body, stall }
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
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let frame = match tokio::time::timeout(self.stall, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => {
                    let what = "the body of the request broke off";
                    return Err(Refusal::new(StatusCode::BAD_REQUEST, what));
                }
                Err(_) => {
                    let what = "nothing more came of the body of the request";
                    return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, what));
                }
            };
            // Trailers are of no use here.
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                return Ok(Some(bytes));
            }
        }
    }

    /// All of it, if it has no more than `most` bytes.
    pub(crate) async fn collect(&mut self, most: usize) -> Result<Bytes, Refusal> {
        let too_large = || {
            let what = format!("the body of the request has more than {most} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, what)
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
