//! The chunks of a response body, with the no-progress timeout.

use crate::location::Location;
use crate::pool::Pool;
use bytes::Bytes;
use hither_core::error::{Delivery, Error, ErrorKind, Failure, Result};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// The next chunk of a body that has delivered `got` requested bytes so far; `None` at its end.
pub(crate) async fn next_chunk(
    body: &mut Incoming,
    location: &Location,
    pool: &Pool,
    got: u64,
) -> Result<Option<Bytes>> {
    let clock = pool.config().no_progress_timeout;
    loop {
        let frame = match tokio::time::timeout(clock, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!(
                        "{location}: the connection was lost in the middle of a response, after {got} bytes of the file"
                    ),
                )
                .with_source(error)
                .with_failure(Failure::Interrupted(Delivery::Sent)));
            }
            Err(_) => {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "{location}: no byte arrived for {} s in the middle of a response",
                        clock.as_secs_f64()
                    ),
                )
                .with_failure(Failure::Interrupted(Delivery::Sent)));
            }
        };
        // Trailers are ignored.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}
