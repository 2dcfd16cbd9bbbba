//! An HTTP/1.1 connection.

use crate::connect::metered_stream::ConnectionMeter;
use crate::http::request_body::BoxBody;
use futures_util::future::{Either, FutureExt, select};
use hither_core::SlotGuard;
use http::response::Parts;
use http::{Version, header};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A server that closes a connection after a shorter idle time does so for another reason than a
/// keep-alive timeout: the shortest default is Apache's, 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(4);

/// A connection that carries one request at a time, with its meter.
#[derive(Debug)]
pub(crate) struct Http1Connection {
    pub(crate) sender: SendRequest<BoxBody>,
    /// Its sender is dropped once the connection has ended, with everything that it held.
    pub(crate) ended: watch::Receiver<()>,
    pub(crate) meter: Arc<ConnectionMeter>,
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

    /// Sends a request and waits for the head of its response.
    ///
    /// A request that is queued at the moment when the connection ends can stay in the queue for
    /// ever (hyper issue 4122). So the end of the connection ends the wait, too.
    pub(crate) async fn send(
        &mut self,
        request: http::Request<BoxBody>,
    ) -> hyper::Result<http::Response<Incoming>> {
        let answer = self.sender.send_request(request);
        answered_before_end(answer, &mut self.sender, &mut self.ended).await
    }
}

async fn answered_before_end<T>(
    answer: impl Future<Output = hyper::Result<T>>,
    sender: &mut SendRequest<BoxBody>,
    ended: &mut watch::Receiver<()>,
) -> hyper::Result<T> {
    let answer = pin!(answer);
    // The response is polled first: a request that the connection had taken from its queue has one
    // when it ends.
    match select(answer, pin!(ended.changed())).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, answer)) => match sender.ready().await {
            // It may have arrived since it was polled, just before the end.
            Err(closed) => answer.now_or_never().unwrap_or(Err(closed)),
            Ok(()) => answer.await,
        },
    }
}

/// Returns true for a response after which the server closes the connection.
pub(crate) fn is_last(head: &Parts) -> bool {
    let connection = head.headers.get(header::CONNECTION).map_or(&b""[..], |it| it.as_bytes());
    connection.eq_ignore_ascii_case(b"close")
        || (head.version == Version::HTTP_10 && connection.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::client::conn::http1::handshake;
    use hyper_util::rt::TokioIo;
    use std::future::{pending, poll_fn, ready};
    use std::task::Poll;

    #[tokio::test]
    async fn the_end_of_a_connection_is_the_end_of_a_wait() {
        let (client, server) = tokio::io::duplex(64);
        let (mut sender, connection) = handshake(TokioIo::new(client)).await.unwrap();
        let (ends, mut ended) = watch::channel(());
        drop(server);
        connection.await.unwrap_err();
        drop(ends);
        let lost = pending::<hyper::Result<()>>();
        let error = answered_before_end(lost, &mut sender, &mut ended).await.unwrap_err();
        assert!(error.is_closed(), "{error:?}");
        let answer = answered_before_end(ready(Ok(1)), &mut sender, &mut ended).await;
        assert_eq!(answer.unwrap(), 1, "the connection ended after it");
        let mut polls = [Poll::Pending, Poll::Ready(Ok(2))].into_iter();
        let late = poll_fn(|_| polls.next().unwrap());
        let answer = answered_before_end(late, &mut sender, &mut ended).await;
        assert_eq!(answer.unwrap(), 2, "both came between two polls");
    }
}
