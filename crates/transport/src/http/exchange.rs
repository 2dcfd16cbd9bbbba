//! One range request and its response on one connection.
//!
//! A server may respond to a request for many ranges in a dozen ways, see
//! `exchange/response_form.rs`. In each of them the valid bytes are delivered, and what the
//! response shows about the server is reported as a [`RangeBehavior`], from which its capabilities
//! are learned.

mod held_bytes;
mod multipart;
mod query;
mod response_form;
pub(crate) mod version_check;

use crate::http::delivery::Delivery;
use crate::http::spooled_download::SpooledDownload;
use crate::http::status_error;
use crate::http::{request, scheme_mismatch};
use crate::layers::stale_connections::FailedRequest;
use crate::layers::{admission, redirects};
use crate::location::Location;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult, RangeBehavior};
use crate::pool::request_sender::RequestSender;
use crate::pool::{Pool, PooledConnection};
use hither_core::error::{Effect, Error, ErrorKind, Failure, Result};
use hither_core::{Limits, PartSink, Request, range};
use hither_http::metalink::links;
use hither_http::vector;
use hither_http::{self as codec, ResponseHead, classify, range_header};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use hyper::body::{Body, Incoming};
use std::ops::Range;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{debug, trace};

/// A range request.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) location: &'a Location,
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) request: &'a Request,
    pub(crate) ask: RangeEncoding,
    pub(crate) whole_file: &'a SpooledDownload,
    /// The validator in the condition of the request, and the field that carries it.
    pub(crate) validator: Option<String>,
    pub(crate) condition: RangeCondition,
}

/// The field of a condition about the version of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RangeCondition {
    /// `If-Range`: for another version, the response is the whole file.
    #[default]
    IfRange,
    /// `If-Match`, which object stores know: for another version, the response is 412.
    #[cfg(feature = "s3")]
    IfMatch,
}

/// The encoding of the ranges in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangeEncoding {
    /// All ranges in the `Range` field.
    All,
    /// The first range only: the server probably ignores ranges, which this tests.
    First,
    /// No range: the server sends the whole file.
    Nothing,
    /// All ranges in the body of a `QUERY`.
    Query,
}

impl Exchange<'_> {
    /// Sends the request and delivers its response, part by part.
    pub(crate) async fn run(
        &self,
        leased: &mut PooledConnection,
        sink: &mut PartSink,
    ) -> ExchangeResult {
        let Some(sender) = leased.sender() else {
            return ExchangeResult::failed(Error::new(
                ErrorKind::Cancelled,
                "the connection was closed",
            ));
        };
        let has_answered = sender.has_answered();
        let sent = Instant::now();
        let response = match self.send(sender).await {
            Ok(response) => response,
            Err(error) if sender.was_refused() => {
                return ExchangeResult { busy: true, ..ExchangeResult::failed(error) };
            }
            Err(error) if !has_answered && error.kind() == ErrorKind::Unavailable => {
                return self.failed_with(error);
            }
            Err(error) => {
                let failed = FailedRequest::new(error, has_answered, Effect::Read);
                let stale = failed.is_stale;
                return ExchangeResult { stale, ..ExchangeResult::failed(failed.error) };
            }
        };
        let first_byte = sent.elapsed();
        let (head, body) = response.into_parts();
        if let Some(length) = body.size_hint().exact() {
            sender.expects_body(length);
        }
        let facts = self.pool.server().head(head.status, &head.headers);
        let server = facts.server.as_deref().unwrap_or_default();
        let hint = codec::server_hint(server, facts.via.as_deref());
        let mut settled = self.read(&head, &facts, body, sink).await;
        debug!(
            url = %self.location,
            encoding = ?self.ask,
            ranges = self.range_count(),
            status = head.status.as_u16(),
            bytes = range::total_bytes(&settled.delivered),
            duration = ?sent.elapsed(),
            error = settled.outcome.as_ref().err().map(tracing::field::display),
            "range request answered"
        );
        settled.hint = hint;
        settled.offers_query = vector::is_understood(&head.headers);
        // URLs in a redirect are relative to the server that sends it, not to its target.
        let links = || links(&head.headers).resolved(|url| self.location.absolute_of(url));
        settled.links = head.headers.contains_key(header::LINK).then(links);
        if settled.outcome.is_ok() {
            self.pool.saw_bandwidth(sender.bandwidth());
            let bytes = range::total_bytes(&settled.delivered);
            let transfer = sent.elapsed().saturating_sub(first_byte);
            self.pool.saw_response(first_byte, bytes, transfer, !has_answered);
        }
        settled
    }

    /// The ranges and the tail in the `Range` field.
    pub(crate) fn sent(&self) -> (&[Range<u64>], u64) {
        let ranges = self.request.ranges.as_slice();
        match (self.ask, ranges) {
            (RangeEncoding::All | RangeEncoding::Query, _) | (RangeEncoding::First, []) => {
                (ranges, self.request.tail)
            }
            (RangeEncoding::First, [first, ..]) => (std::slice::from_ref(first), 0),
            (RangeEncoding::Nothing, _) => (&[], 0),
        }
    }

    /// The number of ranges in the field; the tail counts as one.
    fn range_count(&self) -> usize {
        let (ranges, tail) = self.sent();
        ranges.len() + usize::from(tail > 0)
    }

    fn requests_tail_only(&self) -> bool {
        matches!(self.sent(), ([], 1..))
    }

    async fn send(&self, sender: &mut RequestSender) -> Result<http::Response<Incoming>> {
        let requested = range::total_bytes(&self.request.ranges).saturating_add(self.request.tail);
        trace!(url = %self.location, ranges = self.range_count(), bytes = requested, "range request sent");
        if self.ask == RangeEncoding::Query {
            let (builder, body) = self.query();
            return request::send(sender, builder, body, self.location, self.pool, requested).await;
        }
        let mut builder = request::builder(Method::GET, self.location, self.pool);
        if self.ask != RangeEncoding::Nothing {
            let (ranges, tail) = self.sent();
            let range = range_header::format(ranges, (tail > 0).then_some(tail));
            let range = range.map_err(|error| {
                Error::new(ErrorKind::Invalid, "cannot write these ranges into a Range header")
                    .with_source(error)
            })?;
            builder = builder.header(header::RANGE, range);
        }
        if let Some(validator) = self.validator.as_ref().filter(|it| !is_weak(it)) {
            let field = match self.condition {
                RangeCondition::IfRange => Some(header::IF_RANGE),
                // The date in the response is compared: versitygw fails `If-Unmodified-Since` with
                // the very date that it states.
                #[cfg(feature = "s3")]
                RangeCondition::IfMatch => {
                    hither_core::is_entity_tag(validator).then_some(header::IF_MATCH)
                }
            };
            if let Some(field) = field {
                builder = builder.header(field, validator);
            }
        }
        request::send(sender, builder, request::empty(), self.location, self.pool, requested).await
    }

    async fn read(
        &self,
        head: &http::response::Parts,
        facts: &ResponseHead,
        body: Incoming,
        sink: &mut PartSink,
    ) -> ExchangeResult {
        if self.ask == RangeEncoding::Query
            && let Some(error) = self.query_refused(head)
        {
            return error;
        }
        let answer = match classify(head.status, &head.headers, self.range_count()) {
            Ok(answer) => answer,
            Err(error @ codec::RangeResponseError::OtherLength { .. }) => {
                return self.of_other_length(head.status, &error);
            }
            Err(error) => {
                let past_end_of = past_end_of(&error);
                return ExchangeResult {
                    past_end_of,
                    ..ExchangeResult::failed(self.unexpected(&error))
                };
            }
        };
        let validator = facts.validator.as_ref().and_then(|v| v.if_range().to_str().ok());
        let (stated, end) = match &answer {
            codec::RangeResponse::Single { range, total: None } => (None, self.end_of(range)),
            codec::RangeResponse::Single { total: size, .. }
            | codec::RangeResponse::Whole { size } => (*size, None),
            _ => (None, None),
        };
        // The length of frames is not the length of the file.
        let size = facts.size.or(stated).or(end).filter(|_| self.ask != RangeEncoding::Query);
        let named = validator.filter(|_| head.status.is_success());
        if let (Some(coding), true) = (&facts.content_encoding, head.status.is_success())
            && self.condition == RangeCondition::IfRange
        {
            // An object store sends the stored bytes, with the content coding that their writer
            // named.
            let what = format!(
                "the server sends the file with Content-Encoding {coding:?}, which was not asked \
                 for: these are not the bytes of the file"
            );
            return ExchangeResult::failed(self.unexpected(&what));
        }
        let same = self
            .check_page(head, size)
            .and_then(|()| self.check_validator(head))
            .and_then(|()| self.check_size(size, named))
            .and_then(|()| self.check_tag(head));
        if let Err(error) = same {
            let has_other_tag = self.has_other_tag(&head.headers, size);
            return ExchangeResult { has_other_tag, ..ExchangeResult::failed(error) };
        }
        let validator = validator.map(str::to_owned);
        let date = head.headers.get(header::LAST_MODIFIED).and_then(|it| it.to_str().ok());
        if let Some(date) = date.filter(|_| head.status.is_success()) {
            self.request.version.note_modified(date);
        }
        let mut delivery = Delivery::new(&self.request.ranges, self.location, self.pool, sink);
        delivery.size = size;
        delivery.is_size_counted = size.is_some() && size == end;
        let mut settled = if self.ask == RangeEncoding::Query && head.status == StatusCode::OK {
            self.frames(body, &mut delivery).await
        } else {
            self.by_form(answer, &head.headers, facts, body, &mut delivery).await
        };
        settled.delivered = range::merged(&delivery.received, 0);
        settled.size = delivery.size;
        if let Ok(ExchangeOutcome::Complete(answer)) = &mut settled.outcome {
            answer.validator = validator;
        }
        settled
    }

    async fn by_form(
        &self,
        answer: codec::RangeResponse,
        headers: &HeaderMap,
        facts: &ResponseHead,
        body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> ExchangeResult {
        match answer {
            codec::RangeResponse::Multipart { boundary } => {
                self.multipart(&boundary, body, delivery).await
            }
            codec::RangeResponse::Single { range, .. } => self.single(range, body, delivery).await,
            codec::RangeResponse::Whole { size } => {
                let is_page = request::is_html(headers);
                self.whole((size, is_page), facts, body, delivery).await
            }
            codec::RangeResponse::TooLarge { status } => {
                let header = matches!(
                    status,
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG
                );
                let finding = if header { RangeBehavior::TooLong } else { RangeBehavior::TooMany };
                let (body, _) =
                    request::reason(status, headers, body, self.location, self.pool).await;
                let settled = ExchangeResult::failed(self.too_large(status)).with(finding);
                scheme_mismatch::explained(status, &body, self.pool)
                    .map_or(settled, ExchangeResult::failed)
            }
            codec::RangeResponse::Unsatisfied { size: Some(0) } => {
                // An empty file is complete. The server may announce a body that never comes
                // (XrdHttp).
                delivery.size = Some(0);
                delivery.complete(self.request.tail, false)
            }
            codec::RangeResponse::Unsatisfied { size } => self.unsatisfied(size),
            codec::RangeResponse::Redirect { location, .. } => {
                let reusable = request::drain(body, self.pool).await;
                let to = redirects::http_target(self.location, &Method::GET, headers, &location);
                ExchangeResult::new(to.map(ExchangeOutcome::Redirect), reusable)
            }
            codec::RangeResponse::Refused { status } => {
                self.refused(status, headers, facts, body).await
            }
            _ => ExchangeResult::failed(self.unexpected(&"the response has an unknown form")),
        }
    }

    /// The result of an error that may be accidental, or caused by the size of the request.
    fn failed_with(&self, error: Error) -> ExchangeResult {
        if self.ask != RangeEncoding::All || !self.pool.server().is_too_much(self.request) {
            return ExchangeResult::failed(error);
        }
        ExchangeResult::failed(error.with_failure(Failure::TooLarge)).with(RangeBehavior::TooMany)
    }

    /// The result of a response whose body is not as long as its range, so that it may be anything.
    /// A server that cuts its responses sends a shorter range whole.
    fn of_other_length(
        &self,
        status: StatusCode,
        error: &codec::RangeResponseError,
    ) -> ExchangeResult {
        if self.may_be_too_long() {
            return ExchangeResult::failed(self.too_large(status)).with(RangeBehavior::TooMany);
        }
        ExchangeResult::failed(self.garbled(error))
    }

    /// The result of a response with an error.
    async fn refused(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        facts: &ResponseHead,
        body: Incoming,
    ) -> ExchangeResult {
        let (body, reusable) =
            request::reason(status, headers, body, self.location, self.pool).await;
        let config = self.pool.config();
        let error =
            status_error::of_read(self.location, config, &Method::GET, status, headers, &body);
        if matches!(
            status,
            StatusCode::ACCEPTED | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            let settled = ExchangeResult::new(Err(error), reusable);
            let has_retry_after = facts.retry_after.is_some();
            return match status {
                StatusCode::ACCEPTED => settled,
                StatusCode::SERVICE_UNAVAILABLE if has_retry_after => {
                    let busy = ExchangeResult { busy: true, has_retry_after, ..settled };
                    admission::by_cause(self.pool, busy)
                }
                _ => ExchangeResult { busy: true, has_retry_after, ..settled },
            };
        }
        if let Some(error) = scheme_mismatch::explained(status, &body, self.pool) {
            return ExchangeResult::failed(error);
        }
        match status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE if self.may_be_too_long() => {
                return ExchangeResult::failed(self.too_large(status)).with(RangeBehavior::TooMany);
            }
            StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                return ExchangeResult::failed(self.header_too_long(status));
            }
            _ => {}
        }
        match status {
            // s3s, for a suffix that is longer than the object.
            StatusCode::INTERNAL_SERVER_ERROR if self.requests_tail_only() => {
                self.no_tail(reusable)
            }
            StatusCode::INTERNAL_SERVER_ERROR | StatusCode::BAD_GATEWAY => self.failed_with(error),
            StatusCode::UNAUTHORIZED
            | StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_EARLY
            | StatusCode::GATEWAY_TIMEOUT => ExchangeResult::new(Err(error), reusable),
            _ => ExchangeResult {
                refuses_several: (self.ask == RangeEncoding::All && self.range_count() > 1)
                    .then(|| self.too_large(status)),
                ..ExchangeResult::new(Err(error), reusable)
            },
        }
    }

    /// An HTML page in place of the data, such as a login page, is not a version of the file;
    /// neither is another file.
    fn check_page(&self, head: &http::response::Parts, seen: Option<u64>) -> Result<()> {
        if !head.status.is_success() {
            return Ok(());
        }
        if request::is_of_xrootd(&head.headers) {
            request::check_uncut(self.location)?;
        }
        let is_page = request::is_html(&head.headers);
        version_check::check_page(self.request, is_page, seen, self.location)
    }

    /// Another size means another version. Binds the version that a response names.
    fn check_size(&self, seen: Option<u64>, validator: Option<&str>) -> Result<()> {
        version_check::check_size(self.request, seen, self.location)?;
        self.request.version.bind(&self.location.to_string(), seen, validator)
    }

    /// Returns whether a shorter range may work where this one did not.
    fn may_be_too_long(&self) -> bool {
        self.ask == RangeEncoding::All && self.pool.server().may_be_too_long(self.request)
    }

    /// The error for a single range whose header is too long. No header is shorter.
    fn header_too_long(&self, status: StatusCode) -> Error {
        let (ranges, _) = self.sent();
        let text: usize = ranges.iter().map(Limits::range_text_bytes).sum();
        status_error::header_too_long(&self.location.to_string(), status, text)
    }

    fn too_large(&self, status: StatusCode) -> Error {
        let (ranges, tail) = self.sent();
        let bytes = range::total_bytes(ranges).saturating_add(tail);
        status_error::too_large(&self.location.to_string(), status, self.range_count(), bytes)
    }

    fn unexpected(&self, what: &dyn std::fmt::Display) -> Error {
        Error::new(ErrorKind::Protocol, format!("{}: {what}", self.location))
    }

    /// The error for a response that breaks off or was damaged.
    fn garbled(&self, what: &dyn std::fmt::Display) -> Error {
        self.unexpected(what).with_failure(Failure::Garbled)
    }
}

/// The size of the file that a response states for a range beyond it.
fn past_end_of(error: &codec::RangeResponseError) -> Option<u64> {
    match error {
        codec::RangeResponseError::ContentRange(codec::ContentRangeError::PastTheEnd {
            total,
            ..
        }) => Some(*total),
        _ => None,
    }
}

/// The field for a condition that fails with 412 for another version than that of `validator`.
fn if_match(validator: &str) -> HeaderName {
    if validator.starts_with('"') { header::IF_MATCH } else { header::IF_UNMODIFIED_SINCE }
}

/// Returns whether a validator is a weak entity tag, which no condition about ranges may have.
fn is_weak(validator: &str) -> bool {
    validator.starts_with("W/")
}
