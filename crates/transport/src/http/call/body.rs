//! The body of a success, as long as it makes progress.
//!
//! A server that sends a byte now and then is not silent, and a report may repeat itself: neither
//! is waited for for ever. A body that is collected has to come at a least rate, and may fall
//! behind it for a while. One that is watched has to bring what its watcher takes for progress.

use super::HttpRequest;
use crate::pool::Pool;
use bytes::{Bytes, BytesMut};
use hither_core::error::{Delivery, Error, ErrorKind, Failure, Result};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The least rate of a body in bytes per second, as that of bodies that `hither serve` takes.
const MIN_RATE: u32 = 100;
/// The time by which a body may be late at that rate, in no-progress timeouts: 10 min by default.
/// Servers send blanks meanwhile, as object stores do while they put the parts of an upload
/// together.
const MAX_DELAY: u32 = 20;

/// Reads the whole body of a success, up to its maximum.
pub(super) async fn collected(
    mut body: Incoming,
    call: &HttpRequest,
    pool: &Pool,
) -> Result<Bytes> {
    let location = &call.location;
    let watcher = call.watcher.as_ref();
    let usual = pool.config().no_progress_timeout;
    let (silence, stall) =
        watcher.map_or((usual, MAX_DELAY * usual), |watcher| (watcher.silence, watcher.stall));
    let interrupted = |kind, what: String| {
        Error::new(kind, format!("{location}: {what}"))
            .with_failure(Failure::Interrupted(Delivery::Sent))
    };
    let mut bytes = BytesMut::new();
    // The time of the last progress; at the least rate, that of the bytes that have arrived.
    let mut progressed = Instant::now();
    loop {
        let left = stall.saturating_sub(progressed.elapsed());
        let frame = match timeout(silence.min(left), pool.driven(body.frame())).await {
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(frame)) if !left.is_zero() => frame,
            _ => {
                let what = if left > silence {
                    format!("no byte of the response arrived for {} s", silence.as_secs_f64())
                } else if watcher.is_some() {
                    format!("the response showed no progress for {} s", stall.as_secs_f64())
                } else {
                    let late = stall.as_secs_f64();
                    let bytes = bytes.len();
                    format!(
                        "the response comes too slowly: {bytes} bytes of it arrived, {late} s later \
                         than at {MIN_RATE} B/s"
                    )
                };
                return Err(interrupted(ErrorKind::Timeout, what));
            }
        };
        let frame = frame.map_err(|error| {
            let what = "the connection was lost in the middle of the response".to_owned();
            interrupted(ErrorKind::Unavailable, what).with_source(error)
        })?;
        let Some(data) = frame.data_ref() else { continue };
        if let Some(watcher) = watcher {
            if (watcher.take)(data) {
                progressed = Instant::now();
            }
            continue;
        }
        if bytes.len() + data.len() > call.max_reply_bytes {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "{location}: the response has more than {} bytes, the maximum here",
                    call.max_reply_bytes
                ),
            ));
        }
        let due = Duration::from_secs(data.len() as u64) / MIN_RATE;
        progressed = Instant::now().min(progressed + due);
        bytes.extend_from_slice(data);
        if let Some(arriving) = &call.arriving {
            // A receiver that is gone drops this future, too.
            drop(arriving.send(data.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BodyWatcher;
    use super::*;
    use crate::TransportConfig;
    use crate::http::request::empty;
    use crate::location::Location;
    use crate::network::Network;
    use http::Method;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Handle;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Reads a body of which a chunk with this text arrives after each pause, as often as that, or
    /// without end.
    async fn read(
        chunk: &str,
        pause: Duration,
        count: Option<usize>,
        watcher: Option<BodyWatcher>,
    ) -> Result<Bytes> {
        let (client, mut server) = tokio::io::duplex(1 << 16);
        let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
        let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
        let serving = tokio::spawn(async move {
            assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
            server
                .write_all(b"HTTP/1.1 207 X\r\ntransfer-encoding: chunked\r\n\r\n")
                .await
                .unwrap();
            for _ in 0..count.unwrap_or(usize::MAX) {
                tokio::time::sleep(pause).await;
                if server.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
            server.write_all(b"0\r\n\r\n").await.unwrap();
        });
        tokio::spawn(connection);
        let response = sender.send_request(http::Request::new(empty())).await.unwrap();
        let network = Network::new(TransportConfig::default(), Handle::current(), None);
        let location = Location::parse("http://host/file").unwrap();
        let pool = network.pool(&location);
        let mut call = HttpRequest::new(Method::GET, location);
        call.watcher = watcher;
        let read = collected(response.into_body(), &call, &pool);
        let read = timeout(24 * HOUR, read).await.expect("the body is read for ever");
        serving.abort();
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_given_up() {
        let seconds = Duration::from_secs;
        let began = Instant::now();
        let error = read("x", seconds(10), None, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("60 bytes of it arrived, 600 s later"), "{error}");
        assert!(began.elapsed() < seconds(620), "{:?}", began.elapsed());
        let error = read("x", seconds(31), None, None).await.unwrap_err();
        assert!(error.to_string().contains("no byte of the response arrived for 30 s"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_slow_and_ends_is_whole() {
        let seconds = Duration::from_secs;
        for (chunk, pause, count) in [("x", 20, 29), ("x", 0, 60_000), (&"x".repeat(999), 9, 60)] {
            let body = read(chunk, seconds(pause), Some(count), None).await.unwrap();
            assert_eq!(body.len(), chunk.len() * count);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watched_body_takes_as_long_as_its_watcher_sees_progress() {
        let seconds = Duration::from_secs;
        let watcher = |progress: usize| {
            let seen = std::sync::atomic::AtomicUsize::new(0);
            BodyWatcher::new(seconds(180), seconds(1800), move |_| {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < progress
            })
        };
        read("x", seconds(170), Some(200), Some(watcher(200))).await.unwrap();
        for (pause, expected) in [(5, "no progress for 1800 s"), (181, "no byte of the response")] {
            let error = read("x", seconds(pause), None, Some(watcher(7))).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
