//! Sending a request and waiting for the header of its response, with the first-byte timeout.

use crate::authorization;
use crate::connect::proxy::Proxy;
use crate::http::request_body::BoxBody;
use crate::http::server_reason::{self, is_plain};
use crate::http::status_error;
use crate::location::Location;
use crate::pool::request_sender::RequestSender;
use crate::pool::{Pool, PooledConnection};
use bytes::Bytes;
use hither_core::ResponseMeta;
use hither_core::error::{Delivery, Error, ErrorKind, Failure, Result};
use hither_http::server_timing;
use http::{HeaderMap, Method, StatusCode, header, request::Builder};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;

/// An unneeded body up to this many bytes is read to its end, so that the connection can be reused.
/// Beyond that a new connection is cheaper.
const DRAIN_BYTES: usize = 64 * 1024;
/// The longest body that is read for the reason of an error, in bytes.
const MAX_REASON_BYTES: usize = 4 * 1024;

/// A request with the fields that every request has.
pub(crate) fn builder(method: Method, location: &Location, pool: &Pool) -> Builder {
    let mut request = http::Request::builder().method(method);
    let proxy = pool.config().proxies.to(location).filter(|_| !location.is_tls());
    if let Some(authorization) = proxy.and_then(Proxy::authorization) {
        request = request.header(header::PROXY_AUTHORIZATION, authorization);
    }
    if let Some(authorization) = authorization::header(location, pool.config()) {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    // A request to a proxy names the server as well (RFC 9112 section 3.2.2).
    let target = if proxy.is_some() { location.absolute() } else { location.target() };
    request = request
        .uri(target)
        .header(header::HOST, location.authority())
        .header(header::USER_AGENT, pool.config().user_agent.as_str())
        .header(header::ACCEPT, "*/*");
    if pool.counters().activity().is_some() {
        request = request.header(server_timing::PREFER, server_timing::PREFERENCE);
    }
    if let Some(headers) = request.headers_mut()
        && location.may_receive_credentials(&pool.config().credentials)
    {
        headers.extend(pool.config().fields.fields().clone());
    }
    let fields = location.fields(&pool.config().credentials);
    if let (Some(headers), Some(fields)) = (request.headers_mut(), fields) {
        headers.extend(fields.clone());
    }
    request
}

/// A server that has not responded after this time, and some round trips, may be waiting on an idle
/// connection.
const IDLE_CLOSE_INTERVAL: Duration = Duration::from_secs(1);

/// The empty body.
pub(crate) fn empty() -> BoxBody {
    BoxBody::new(Empty::new().map_err(|never| match never {}))
}

/// Sends a request and waits for the header of the response.
pub(crate) async fn send(
    sender: &mut RequestSender,
    builder: Builder,
    body: BoxBody,
    location: &Location,
    pool: &Pool,
    requested_bytes: u64,
) -> Result<http::Response<Incoming>> {
    let request = builder.body(body).map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("{location}: the URL cannot be sent in a request"))
            .with_source(error)
    })?;
    let clock = pool.config().first_byte_timeout;
    let exchange = async {
        sender.ready().await.map_err(|error| (error, Delivery::Unsent))?;
        sender.begin(pool.link().rtt, requested_bytes);
        waited(sender.send(request), pool).await.map_err(|error| (error, Delivery::Sent))
    };
    let response = match tokio::time::timeout(clock, exchange).await {
        Ok(Ok(response)) => response,
        Ok(Err((error, delivery))) => return Err(cut(location, sender, error, delivery)),
        Err(_) => {
            return Err(Error::new(
                ErrorKind::Timeout,
                format!("{location}: no response within {} s of the request", clock.as_secs_f64()),
            )
            .with_failure(Failure::Interrupted(Delivery::Sent)));
        }
    };
    sender.answered();
    sender.record(&response);
    check_transfer_coding(&response, location)?;
    Ok(response)
}

/// Fails if the body of a response has another transfer coding than `chunked`, as `gzip`: what
/// arrives would be taken for the bytes of the file (RFC 9112 section 6.1 lets no server send that
/// unless it was asked to).
pub(crate) fn check_transfer_coding<B>(
    response: &http::Response<B>,
    location: &Location,
) -> Result<()> {
    let fields = response.headers().get_all(header::TRANSFER_ENCODING);
    let mut codings = fields
        .iter()
        .flat_map(|field| field.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    match codings.find(|coding| !coding.eq_ignore_ascii_case(b"chunked")) {
        None => Ok(()),
        Some(coding) => Err(Error::new(
            ErrorKind::Protocol,
            format!(
                "{location}: the server sends Transfer-Encoding{}, which was not asked for",
                server_reason::quoted(&String::from_utf8_lossy(coding)).trim_start_matches(',')
            ),
        )),
    }
}

/// Waits for a response. A single-threaded server may be waiting for a request on another, idle
/// connection: those are closed from time to time.
async fn waited<T>(answer: impl Future<Output = T>, pool: &Pool) -> T {
    let mut answer = std::pin::pin!(answer);
    let interval = IDLE_CLOSE_INTERVAL + 4 * pool.link().rtt.unwrap_or_default();
    loop {
        match tokio::time::timeout(interval, &mut answer).await {
            Ok(answer) => return answer,
            Err(_) => pool.let_idle_go(),
        }
    }
}

/// Sends a HEAD request for size and validator. Returns also the header.
pub(crate) async fn head(
    leased: &mut PooledConnection,
    location: &Location,
    pool: &Arc<Pool>,
) -> Result<(ResponseMeta, HeaderMap)> {
    let Some(sender) = leased.sender() else {
        return Err(Error::new(ErrorKind::Cancelled, "the connection was closed"));
    };
    let response =
        send(sender, builder(Method::HEAD, location, pool), empty(), location, pool, 0).await?;
    let (head, body) = response.into_parts();
    let facts = pool.server().head(head.status, &head.headers);
    if head.status != StatusCode::OK {
        let config = pool.config();
        let fields = &head.headers;
        let error =
            status_error::of_read(location, config, &Method::HEAD, head.status, fields, &[]);
        return Err(error);
    }
    drain(body, pool).await;
    let validator = facts.validator.as_ref().and_then(|v| v.if_range().to_str().ok());
    let validator = validator.map(str::to_owned);
    let meta = ResponseMeta { size: facts.size, validator, ..ResponseMeta::default() };
    Ok((meta, head.headers))
}

/// Returns true if the content of a response is an HTML page.
pub(crate) fn is_html(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    kind.get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/html"))
}

/// Returns true if a response is of XRootD.
pub(crate) fn is_of_xrootd(headers: &HeaderMap) -> bool {
    let make = headers.get(header::SERVER).map_or(&b""[..], |make| make.as_bytes());
    make.get(..6).is_some_and(|make| make.eq_ignore_ascii_case(b"xrootd"))
}

/// Fails for a name that XRootD cuts: what follows a question mark, encoded or not, is a query
/// there, and the request is about another file.
pub(crate) fn check_uncut(location: &Location) -> Result<()> {
    if !location.has_question_mark() {
        return Ok(());
    }
    let what = format!("{location}: XRootD allows no '?' in names, and takes it for another file");
    Err(Error::new(ErrorKind::Invalid, what))
}

/// Reads the rest of a small body, so that the connection can be reused. Returns whether it can.
/// The no-progress timeout covers the whole body: a new connection is cheaper than a wait.
pub(crate) async fn drain(mut body: Incoming, pool: &Pool) -> bool {
    let reading = async {
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > DRAIN_BYTES {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(pool.config().no_progress_timeout, reading).await.unwrap_or(false)
}

/// The body of an error response to a read, if it may contain a reason: plain text, or any text
/// with 400, which [`scheme_mismatch`](crate::http::scheme_mismatch) explains. Empty if it is
/// longer or late: the no-progress timeout covers all of it. Also returns whether the connection
/// can be reused.
pub(crate) async fn reason(
    status: StatusCode,
    headers: &HeaderMap,
    body: Incoming,
    location: &Location,
    pool: &Pool,
) -> (Bytes, bool) {
    if status != StatusCode::BAD_REQUEST && !is_plain(headers) {
        return (Bytes::new(), drain(body, pool).await);
    }
    collected_reason(body, MAX_REASON_BYTES, (location, &HeaderMap::new()), pool).await
}

/// The body of an error response, without the secrets of its request, which had the fields `sent`
/// in addition to the usual ones. Empty if it is longer than `max_bytes` or late: the no-progress
/// timeout covers all of it. Also returns whether the connection can be reused.
pub(crate) async fn collected_reason(
    body: Incoming,
    max_bytes: usize,
    (location, sent): (&Location, &HeaderMap),
    pool: &Pool,
) -> (Bytes, bool) {
    let reading = pool.driven(Limited::new(body, max_bytes).collect());
    let Ok(Ok(body)) = tokio::time::timeout(pool.config().no_progress_timeout, reading).await
    else {
        return (Bytes::new(), false);
    };
    let body = body.to_bytes();
    // The response to a HEAD has none.
    let secrets = if body.is_empty() { Vec::new() } else { secrets(location, sent, pool) };
    (server_reason::blanked(body, secrets), true)
}

/// The values that a request to `location` with the fields `sent` keeps secret: of the fields that
/// are marked as sensitive, and of all queries.
pub(crate) fn secrets(location: &Location, sent: &HeaderMap, pool: &Pool) -> Vec<String> {
    let usual = builder(Method::GET, location, pool);
    let fields = usual.headers_ref().into_iter().flatten().chain(sent);
    let values = fields.filter(|(_, value)| value.is_sensitive()).map(|(_, value)| value);
    server_reason::secret_texts(values, location)
}

/// A reason that a server gives within a response, in quotes, without the secrets of the request.
pub(crate) fn quoted_reason(reason: &str, location: &Location, pool: &Pool) -> String {
    let blanked = server_reason::without(reason, secrets(location, &HeaderMap::new(), pool));
    server_reason::quoted(blanked.as_deref().unwrap_or(reason))
}

/// The error for a connection that was lost before the header of a response arrived, after this
/// part of the request was sent.
pub(crate) fn cut(
    location: &Location,
    sender: &mut RequestSender,
    error: hyper::Error,
    delivery: Delivery,
) -> Error {
    sender.failed(&error);
    if let Some(tls_error) = crate::connect::maybe_tls_stream::tls_error(&error) {
        return tls_error;
    }
    // The errors of hyper differ in their text only.
    let (kind, what) = if error.is_parse() && error.to_string().contains("too large") {
        (
            ErrorKind::Protocol,
            "the header of the response is larger than 256 KiB, or has more than 400 fields",
        )
    } else if error.is_parse() {
        (ErrorKind::Protocol, "the server's response is not HTTP/1.1")
    } else if sender.was_refused() {
        (ErrorKind::Unavailable, "the server refuses more requests at a time")
    } else if sender.has_answered() {
        // A server may close an idle connection at any time, also while a request is on its way
        // (RFC 9112 section 9.3.1): `layers/stale_connections.rs`.
        (ErrorKind::Unavailable, "the server closed the connection between two requests")
    } else {
        let what = "the server closed the connection without a response: does it serve http? An \
                    XRootD server is named by root://";
        (ErrorKind::Unavailable, what)
    };
    let failure = match kind {
        ErrorKind::Protocol => Failure::Unknown,
        _ if is_unsent(&error) || sender.was_refused() => Failure::Interrupted(Delivery::Unsent),
        _ => Failure::Interrupted(delivery),
    };
    Error::new(kind, format!("{location}: {what}")).with_source(error).with_failure(failure)
}

/// Returns true if the connection was closed before it took the request from its queue.
fn is_unsent(error: &hyper::Error) -> bool {
    error.is_closed() || error.is_canceled()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;

    #[tokio::test]
    async fn a_request_for_a_closed_connection_was_not_sent() {
        let (client, server) = tokio::io::duplex(64);
        let (mut sender, connection) =
            http1::handshake::<_, BoxBody>(TokioIo::new(client)).await.unwrap();
        drop(server);
        connection.await.unwrap_err();
        let error = sender.ready().await.unwrap_err();
        assert!(is_unsent(&error), "{error:?}");
        let error = sender.send_request(http::Request::new(empty())).await.unwrap_err();
        assert!(is_unsent(&error), "{error:?}");
    }

    #[tokio::test]
    async fn a_request_that_was_read_was_sent() {
        let (client, mut server) = tokio::io::duplex(1024);
        let (mut sender, connection) =
            http1::handshake::<_, BoxBody>(TokioIo::new(client)).await.unwrap();
        let reads = async {
            tokio::io::AsyncReadExt::read(&mut server, &mut [0; 1024]).await.unwrap();
            drop(server);
        };
        let sent = sender.send_request(http::Request::new(empty()));
        let (sent, _, ()) = tokio::join!(sent, connection, reads);
        let error = sent.unwrap_err();
        assert!(!is_unsent(&error), "{error:?}");
    }
}
