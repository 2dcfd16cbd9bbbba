//! Requests other than reads of ranges: the name space, uploads, small documents.
//!
//! A [`Call`] goes through the same connections, clocks and books as reads do. Its answer is read whole, up to a bound.
//! Redirects are followed for every method as long as the body can be sent again; 303 turns into a GET, as RFC 9110
//! section 15.4.4 has it. A connection that turns out to be closed when an idempotent request has been sent on it is
//! replaced once.

use crate::lane::Body;
use crate::location::Location;
use crate::network::Network;
use crate::pool::{Leased, Pool};
use crate::request;
use bytes::{Bytes, BytesMut};
use hither_core::error::{Error, ErrorKind, Result, Retry};
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::fmt;
use std::sync::Arc;

/// Redirects followed for one call.
const MOST_REDIRECTS: usize = 8;

/// What goes with a call.
pub enum Content {
    /// Nothing.
    Empty,
    /// A few bytes, that can be sent again.
    Bytes(Bytes),
    /// A stream that can be sent only once; its length in bytes if known, else it goes in chunks.
    Stream {
        /// `Content-Length`.
        len: Option<u64>,
        /// The bytes.
        body: Body,
    },
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Stream { len, .. } => write!(f, "Stream({len:?})"),
        }
    }
}

/// A request.
#[derive(Debug)]
pub struct Call {
    /// The method; WebDAV's as well.
    pub method: Method,
    /// To whom.
    pub location: Location,
    /// Fields beside those that every request carries.
    pub headers: HeaderMap,
    /// The body.
    pub content: Content,
    /// Most bytes of the answer's body that are of use; a longer one is an error.
    pub max_reply_bytes: usize,
}

impl Call {
    /// A call without fields or body, whose answer is a few words.
    #[must_use]
    pub fn new(method: Method, location: Location) -> Self {
        let headers = HeaderMap::new();
        Self { method, location, headers, content: Content::Empty, max_reply_bytes: 64 * 1024 }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its status; no status is an error here.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// Who answered, after redirects.
    pub location: Location,
}

impl Network {
    /// Sends a call and reads its answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`], [`ErrorKind::Timeout`], [`ErrorKind::Protocol`] if there is no answer; every answer is
    /// a success here, whatever its status.
    pub async fn call(&self, call: Call) -> Result<Reply> {
        let Call { mut method, mut location, headers, mut content, max_reply_bytes } = call;
        for _ in 0..=MOST_REDIRECTS {
            let (body, again) = take(&mut content);
            let pool = self.pool(&location);
            pool.server().wait_until_welcome().await;
            let reply =
                send(&pool, &location, &method, &headers, body, again, max_reply_bytes).await?;
            let target = reply.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            let Some(target) = target.filter(|_| is_redirect(reply.status)) else {
                return Ok(reply);
            };
            if !again {
                // The stream is spent. The caller decides whether there is another.
                return Ok(reply);
            }
            location = location.join(target)?;
            if reply.status == StatusCode::SEE_OTHER && method != Method::HEAD {
                (method, content) = (Method::GET, Content::Empty);
            }
        }
        Err(Error::new(
            ErrorKind::Protocol,
            format!("{location}: more than {MOST_REDIRECTS} redirects, probably in a circle"),
        ))
    }
}

/// A body to be sent.
type Sendable = (Body, Option<u64>);

/// The body, and whether it could be sent once more.
fn take(content: &mut Content) -> (Option<Sendable>, bool) {
    match content {
        Content::Empty => (None, true),
        Content::Bytes(bytes) => (Some(full(bytes)), true),
        Content::Stream { .. } => match std::mem::replace(content, Content::Empty) {
            Content::Stream { len, body } => (Some((body, len)), false),
            Content::Empty | Content::Bytes(_) => (None, true),
        },
    }
}

fn full(bytes: &Bytes) -> Sendable {
    let body = Full::new(bytes.clone()).map_err(|never| match never {});
    (Body::new(body), Some(bytes.len() as u64))
}

async fn send(
    pool: &Arc<Pool>,
    location: &Location,
    method: &Method,
    headers: &HeaderMap,
    body: Option<Sendable>,
    again: bool,
    max_reply_bytes: usize,
) -> Result<Reply> {
    let mut leased = pool.acquire().await?;
    let reused = leased.lane().is_some_and(|lane| lane.answers > 0);
    let repeat = reused && again && body.is_none() && method.is_idempotent();
    match exchange(leased, pool, location, (method, headers), body, max_reply_bytes).await {
        Err(error) if repeat && matches!(error.retry(), Retry::SameServer { .. }) => {
            leased = pool.acquire().await?;
            exchange(leased, pool, location, (method, headers), None, max_reply_bytes).await
        }
        result => result,
    }
}

async fn exchange(
    mut leased: Leased,
    pool: &Arc<Pool>,
    location: &Location,
    (method, headers): (&Method, &HeaderMap),
    body: Option<Sendable>,
    max_reply_bytes: usize,
) -> Result<Reply> {
    let Some(lane) = leased.lane() else {
        return Err(Error::new(ErrorKind::Cancelled, "the connection is gone"));
    };
    let mut builder = request::builder(method.clone(), location, pool);
    if let Some(fields) = builder.headers_mut() {
        // A field given replaces the usual one.
        fields.extend(headers.clone());
        if let Some((_, Some(len))) = &body {
            fields.insert(header::CONTENT_LENGTH, (*len).into());
        }
    }
    let body = body.map_or_else(request::empty, |(body, _)| body);
    let response = request::send(lane, builder, body, location, pool, 0).await?;
    let (head, body) = response.into_parts();
    let body = read(body, location, pool, max_reply_bytes).await?;
    leased.give_back();
    Ok(Reply { status: head.status, headers: head.headers, body, location: location.clone() })
}

/// Reads a body to its end. The third clock runs here.
async fn read(mut body: Incoming, location: &Location, pool: &Pool, most: usize) -> Result<Bytes> {
    let clock = pool.config().no_progress_timeout;
    let mut read = BytesMut::new();
    loop {
        let frame = match tokio::time::timeout(clock, body.frame()).await {
            Ok(None) => return Ok(read.freeze()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                let what =
                    format!("{location}: the connection broke off in the middle of an answer");
                return Err(Error::new(ErrorKind::Unavailable, what).with_source(error));
            }
            Err(_) => {
                let seconds = clock.as_secs_f64();
                let what = format!("{location}: no byte arrived for {seconds} s within an answer");
                return Err(Error::new(ErrorKind::Timeout, what));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > most.saturating_sub(read.len()) {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("{location}: the answer has more than the {most} bytes that are of use"),
            ));
        }
        read.extend_from_slice(&data);
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
