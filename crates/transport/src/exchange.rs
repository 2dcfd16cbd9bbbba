//! One request and its answer on one lane.

use crate::access;
use crate::delivery::Delivery;
use crate::lane::Lane;
use crate::location::Location;
use crate::pool::{Leased, Pool};
use crate::{misdirected, request, respond};
use bytes::Bytes;
use hither_core::endpoint::RangeSupport;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::{Answer, PartSink, Request, range};
use hither_http::metalink::{Links, links};
use hither_http::{self as codec, Event, Facts, Hint, Multipart, classify, range_header};
use http::{Method, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A whole file that nobody asked for is taken if it is no larger than this many times what was wanted: reading on costs
/// less than another round trip.
const WHOLE_FACTOR: u64 = 4;
/// And always if it is no larger than this, in bytes.
const WHOLE_FLOOR_BYTES: u64 = 256 * 1024;

/// A request to be sent.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) location: &'a Location,
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) request: &'a Request,
    /// The server is known to ignore ranges: none are sent, which spares it a header of any length.
    pub(crate) whole: bool,
}

/// How an exchange ended well.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything asked for was delivered.
    Complete(Answer),
    /// The file is elsewhere.
    Redirect(String),
}

/// How an exchange ended, and what it showed about the server.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) outcome: Result<Outcome>,
    /// The connection is at the start of the next answer.
    pub(crate) reusable: bool,
    pub(crate) hint: Option<Hint>,
    pub(crate) learned: Option<RangeSupport>,
    pub(crate) tail_refused: bool,
    pub(crate) multipart: bool,
    /// Where else the file is, if the answer says so.
    pub(crate) links: Option<Links>,
}

impl Settled {
    /// Whether the connection is at the start of the next answer is for the caller to say.
    fn new(outcome: Result<Outcome>, reusable: bool) -> Self {
        Self {
            outcome,
            reusable,
            hint: None,
            learned: None,
            tail_refused: false,
            multipart: false,
            links: None,
        }
    }

    /// Ended badly, with the connection in an unknown state.
    fn failed(error: Error) -> Self {
        Self::new(Err(error), false)
    }
}

impl Exchange<'_> {
    /// Sends the request and hands its answer on, part by part.
    pub(crate) async fn run(&self, leased: &mut Leased, sink: &mut PartSink) -> Settled {
        let Some(lane) = leased.lane() else {
            return Settled::failed(Error::new(ErrorKind::Cancelled, "the connection is gone"));
        };
        let response = match self.send(lane).await {
            Ok(response) => response,
            Err(error) => return Settled::failed(error),
        };
        let (head, body) = response.into_parts();
        let facts = Facts::of(head.status, &head.headers);
        let server = facts.server.as_deref().unwrap_or_default();
        let hint = codec::server_hint(server, facts.via.as_deref());
        let mut settled = self.read(&head, &facts, body, sink).await;
        settled.hint = hint;
        settled.links = head.headers.contains_key(header::LINK).then(|| links(&head.headers));
        if settled.outcome.is_ok() {
            self.pool.saw_bandwidth(lane.tap.bandwidth());
        }
        settled
    }

    fn ranges_asked(&self) -> usize {
        self.request.ranges.len() + usize::from(self.request.tail > 0)
    }

    async fn send(&self, lane: &mut Lane) -> Result<http::Response<Incoming>> {
        let mut builder = request::builder(Method::GET, self.location, self.pool);
        if !self.whole {
            let tail = (self.request.tail > 0).then_some(self.request.tail);
            let range = range_header::format(&self.request.ranges, tail).map_err(|error| {
                Error::new(ErrorKind::Invalid, "cannot ask for these ranges").with_source(error)
            })?;
            builder = builder.header(header::RANGE, range);
        }
        if let Some(validator) = &self.request.validator {
            builder = builder.header(header::IF_RANGE, validator);
        }
        let asked = range::total_bytes(&self.request.ranges).saturating_add(self.request.tail);
        request::send(lane, builder, request::empty(), self.location, self.pool, asked).await
    }

    async fn read(
        &self,
        head: &http::response::Parts,
        facts: &Facts,
        body: Incoming,
        sink: &mut PartSink,
    ) -> Settled {
        let answer = match classify(head.status, &head.headers, self.ranges_asked()) {
            Ok(answer) => answer,
            Err(error) => return Settled::failed(self.odd(&error)),
        };
        let validator = facts.validator.as_ref().and_then(|v| v.if_range().to_str().ok());
        if let Err(error) = self.check_validator(validator, head.status) {
            return Settled::failed(error);
        }
        let validator = validator.map(str::to_owned);
        let told = match &answer {
            codec::Answer::Single { total, .. } => *total,
            codec::Answer::Whole { size } => *size,
            _ => None,
        };
        if let Err(error) = self.check_size(facts.size.or(told)) {
            return Settled::failed(error);
        }
        let mut delivery = Delivery {
            wanted: &self.request.ranges,
            received: Vec::new(),
            dropped_bytes: 0,
            size: facts.size,
            pool: self.pool,
            sink,
        };
        let mut settled = match answer {
            codec::Answer::Multipart { boundary } => {
                self.multipart(&boundary, body, &mut delivery).await
            }
            codec::Answer::Single { range, total } => {
                delivery.size = delivery.size.or(total);
                self.single(range, body, &mut delivery).await
            }
            codec::Answer::Whole { size } => self.whole(size, body, &mut delivery).await,
            codec::Answer::TooLarge { status } => {
                let name = self.location.to_string();
                let error = respond::too_large(&name, status, self.ranges_asked());
                self.refused(status, body, error).await
            }
            codec::Answer::Unsatisfied { size } => self.unsatisfied(size),
            codec::Answer::Redirect { location, .. } => {
                let reusable = request::drain(body, self.pool).await;
                Settled::new(Ok(Outcome::Redirect(location)), reusable)
            }
            codec::Answer::Refused { status } => {
                let name = self.location.to_string();
                let explained =
                    access::refusal(self.location, self.pool, &Method::GET, status, &head.headers);
                let error = explained
                    .unwrap_or_else(|| respond::refused(status, &name, facts.retry_after.as_ref()));
                self.refused(status, body, error).await
            }
            _ => Settled::failed(self.odd(&"an answer of an unknown form")),
        };
        if let Ok(Outcome::Complete(answer)) = &mut settled.outcome {
            answer.validator = validator;
        }
        settled
    }

    /// No bytes: `error` says why, if the body has nothing better.
    async fn refused(&self, status: StatusCode, body: Incoming, error: Error) -> Settled {
        let told = match status {
            StatusCode::BAD_REQUEST => misdirected::explained(body, self.pool).await,
            _ => None,
        };
        Settled::failed(told.unwrap_or(error))
    }

    /// A strong validator that differs from the one that the file was opened with means another file.
    fn check_validator(&self, seen: Option<&str>, status: StatusCode) -> Result<()> {
        match (&self.request.validator, seen) {
            (Some(expected), Some(seen)) if expected != seen && status.is_success() => {
                Err(Error::new(
                    ErrorKind::Changed,
                    format!(
                        "{}: the file has changed on the server (it was {expected}, now it is {seen})",
                        self.location
                    ),
                ))
            }
            // A server that had a mark for the old version and sends all of the file has another version, marked or not;
            // one that sends a part of it has compared the marks.
            (Some(expected), None) if status == StatusCode::OK => Err(Error::new(
                ErrorKind::Changed,
                format!(
                    "{}: the file has changed on the server (it was {expected}, now it is unmarked)",
                    self.location
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Another size means another file.
    fn check_size(&self, seen: Option<u64>) -> Result<()> {
        match (self.request.size, seen) {
            (Some(expected), Some(seen)) if expected != seen => Err(Error::new(
                ErrorKind::Changed,
                format!("{}: the file has {seen} bytes there, expected {expected}", self.location),
            )),
            _ => Ok(()),
        }
    }

    async fn multipart(
        &self,
        boundary: &[u8],
        mut body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> Settled {
        let mut parser = match Multipart::new(boundary) {
            Ok(parser) => parser,
            Err(error) => return Settled::failed(self.odd(&error)),
        };
        loop {
            let mut chunk = match self.next_chunk(&mut body, delivery.received_bytes()).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => return Settled::failed(error),
            };
            loop {
                match parser.next(&mut chunk) {
                    Ok(Some(Event::PartStart { total, .. })) => {
                        if let Err(error) = self.check_size(total) {
                            return Settled::failed(error);
                        }
                        delivery.size = delivery.size.or(total);
                    }
                    Ok(Some(Event::Data { offset, bytes })) => delivery.deliver(offset, bytes),
                    Ok(Some(Event::PartEnd | Event::End)) => {}
                    Ok(None) => break,
                    Err(error) => return Settled::failed(self.broken_multipart(&error)),
                }
            }
        }
        let complete = delivery.is_complete(self.request.tail);
        if let Err(error) = parser.finish()
            && !complete
        {
            return Settled::failed(self.odd(&error).with_retry(AT_ONCE));
        }
        Settled {
            multipart: true,
            learned: Some(RangeSupport::Multi),
            tail_refused: !complete && self.request.tail > 0,
            ..self.complete(delivery, true)
        }
    }

    /// A server that fails within a multipart answer was most likely asked for too many ranges (XrdHttp 5.5 above 1,024).
    fn broken_multipart(&self, error: &codec::MultipartError) -> Error {
        match error {
            codec::MultipartError::ServerFailed { .. } if self.ranges_asked() > 1 => {
                let message = format!("{}: {error}", self.location);
                Error::new(ErrorKind::TooLarge, message).with_retry(AT_ONCE)
            }
            _ => self.odd(error),
        }
    }

    async fn single(
        &self,
        range: Range<u64>,
        body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> Settled {
        if let Err(error) = self.stream(body, range, delivery).await {
            return Settled::failed(error);
        }
        let asked = self.ranges_asked();
        if delivery.is_complete(self.request.tail) {
            return self.complete(delivery, true);
        }
        if self.request.tail > 0 && delivery.is_complete(0) {
            // Everything but the tail (XrdHttp 5.5 leaves it out without a word).
            return Settled {
                tail_refused: true,
                reusable: true,
                ..Settled::failed(self.no_tail())
            };
        }
        if asked > 1 {
            // Only one of the ranges came: that is all this server does.
            let error =
                respond::too_large(&self.location.to_string(), StatusCode::PARTIAL_CONTENT, asked);
            return Settled {
                reusable: true,
                learned: Some(RangeSupport::Single),
                ..Settled::failed(error)
            };
        }
        self.complete(delivery, true)
    }

    async fn whole(
        &self,
        size: Option<u64>,
        mut body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> Settled {
        let wanted = range::total_bytes(&self.request.ranges).saturating_add(self.request.tail);
        let cheap = size
            .is_some_and(|size| size <= WHOLE_FLOOR_BYTES.max(wanted.saturating_mul(WHOLE_FACTOR)));
        if !cheap && !self.whole && self.ranges_asked() > 1 {
            // Perhaps single ranges work: the answer is dropped with its connection.
            let error =
                respond::too_large(&self.location.to_string(), StatusCode::OK, self.ranges_asked());
            return Settled { learned: Some(RangeSupport::Single), ..Settled::failed(error) };
        }
        let learned = (!cheap).then_some(RangeSupport::Whole);
        // A small file is taken as it comes, of a large one only what is wanted, and no further than that.
        let take = match (cheap, self.request.tail, size) {
            (true, ..) => vec![0..u64::MAX],
            (false, 0, _) => self.request.ranges.clone(),
            (false, tail, Some(size)) => {
                let tail = size.saturating_sub(tail)..size;
                range::merged(&[self.request.ranges.clone(), vec![tail]].concat(), 0)
            }
            (false, _, None) => {
                let what = "the server sends the whole file without telling its size";
                return Settled::failed(self.odd(&what));
            }
        };
        let end = take.last().map_or(0, |range| range.end);
        let mut offset = 0;
        while offset < end {
            match self.next_chunk(&mut body, delivery.received_bytes()).await {
                Ok(Some(chunk)) => {
                    let len = chunk.len() as u64;
                    delivery.deliver_within(&take, offset, &chunk);
                    offset += len;
                }
                Ok(None) => {
                    delivery.size = Some(offset);
                    break;
                }
                Err(error) => {
                    return Settled { learned, ..Settled::failed(error) };
                }
            }
        }
        let at_end = delivery.size.is_some_and(|size| offset >= size);
        Settled { learned, ..self.complete(delivery, at_end) }
    }

    /// 416: the ranges lie beyond the end of the file, or the server knows no suffix.
    fn unsatisfied(&self, size: Option<u64>) -> Settled {
        if self.request.tail > 0 {
            return Settled { tail_refused: true, ..Settled::failed(self.no_tail()) };
        }
        if self.ranges_asked() > 1 && size.is_none() {
            let error = respond::too_large(
                &self.location.to_string(),
                StatusCode::RANGE_NOT_SATISFIABLE,
                self.ranges_asked(),
            );
            return Settled { learned: Some(RangeSupport::Single), ..Settled::failed(error) };
        }
        let last = self.request.ranges.last().map_or(0, |range| range.end);
        let size = size.map_or_else(|| "fewer".to_owned(), |size| size.to_string());
        Settled::failed(Error::new(
            ErrorKind::Corrupt,
            format!(
                "{}: bytes up to {last} are wanted, but the file has {size}: it is truncated",
                self.location
            ),
        ))
    }

    async fn stream(
        &self,
        mut body: Incoming,
        range: Range<u64>,
        delivery: &mut Delivery<'_>,
    ) -> Result<()> {
        let mut offset = range.start;
        while let Some(chunk) = self.next_chunk(&mut body, delivery.received_bytes()).await? {
            let len = chunk.len() as u64;
            if len > range.end - offset {
                let what = format!("more bytes than the announced {}..{}", range.start, range.end);
                return Err(self.odd(&what));
            }
            delivery.deliver(offset, chunk);
            offset += len;
        }
        if offset < range.end {
            return Err(self.odd(&"the answer ended early").with_retry(AT_ONCE));
        }
        Ok(())
    }

    /// The next piece of a body; the third clock runs here.
    async fn next_chunk(&self, body: &mut Incoming, got: u64) -> Result<Option<Bytes>> {
        let clock = self.pool.config().no_progress_timeout;
        loop {
            let frame = match tokio::time::timeout(clock, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    return Err(Error::new(
                        ErrorKind::Unavailable,
                        format!(
                            "{}: the connection broke off in the middle of an answer, after {got} bytes of the file",
                            self.location
                        ),
                    )
                    .with_source(error)
                    .with_retry(AT_ONCE));
                }
                Err(_) => {
                    return Err(Error::new(
                        ErrorKind::Timeout,
                        format!(
                            "{}: no byte arrived for {} s in the middle of an answer",
                            self.location,
                            clock.as_secs_f64()
                        ),
                    )
                    .with_retry(AT_ONCE));
                }
            };
            // Trailers are of no interest.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    fn complete(&self, delivery: &Delivery<'_>, reusable: bool) -> Settled {
        let answer = Answer {
            size: delivery.size,
            validator: None,
            unasked_bytes: delivery.unasked_bytes().saturating_sub(self.request.tail),
        };
        Settled::new(Ok(Outcome::Complete(answer)), reusable)
    }

    fn no_tail(&self) -> Error {
        Error::new(
            ErrorKind::TooLarge,
            format!("{}: the server knows no suffix ranges", self.location),
        )
        .with_retry(AT_ONCE)
    }

    fn odd(&self, what: &dyn std::fmt::Display) -> Error {
        Error::new(ErrorKind::Protocol, format!("{}: {what}", self.location))
    }
}

/// Asking again needs no pause: the connection is a new one.
const AT_ONCE: Retry = Retry::SameServer { after: Duration::ZERO };
