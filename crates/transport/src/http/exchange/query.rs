//! All ranges in the body of a `QUERY`, with a response in frames. [`hither_http::vector`] has the
//! formats.
//!
//! A `QUERY` is sent to a server that has offered it. If the server or a proxy rejects it
//! nevertheless, GET is used from then on; if it rejects the length of the list (413), shorter
//! lists are sent.

use crate::http::delivery::Delivery;
use crate::http::exchange::{Exchange, if_match, is_weak};
use crate::http::request;
use crate::http::request_body::BoxBody;
use crate::http::response_body::next_chunk;
use crate::pool::observation::{ExchangeResult, RangeBehavior};
use bytes::Bytes;
use hither_http::vector::frames::{FrameEvent, FrameReader};
use hither_http::vector::{FRAMES_TYPE, RANGES_TYPE, RangeList};
use http::header::HeaderValue;
use http::request::Builder;
use http::{Method, StatusCode, header, response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

/// The rejection of a list with no more ranges than this is not about its length.
const FEW_RANGES: usize = 16;

impl Exchange<'_> {
    pub(crate) fn query(&self) -> (Builder, BoxBody) {
        let list = RangeList { ranges: self.request.ranges.clone(), tail: self.request.tail };
        let mut builder = request::builder(Method::QUERY, self.location, self.pool)
            .header(header::CONTENT_TYPE, RANGES_TYPE);
        if let Some(headers) = builder.headers_mut() {
            headers.insert(header::ACCEPT, HeaderValue::from_static(FRAMES_TYPE));
        }
        if let Some(validator) = self.validator.as_ref().filter(|it| !is_weak(it)) {
            builder = builder.header(if_match(validator), validator);
        }
        let body = Full::new(Bytes::from(list.encode())).map_err(|never| match never {});
        (builder, BoxBody::new(body))
    }

    /// The result for a response without frames that is not about the file or its server; `None`
    /// for others.
    pub(crate) fn query_refused(&self, head: &response::Parts) -> Option<ExchangeResult> {
        let kind = head.headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        match head.status {
            StatusCode::OK if kind.eq_ignore_ascii_case(FRAMES_TYPE.as_bytes()) => None,
            StatusCode::PRECONDITION_FAILED => Some(ExchangeResult::failed(self.changed())),
            status @ StatusCode::PAYLOAD_TOO_LARGE if self.request.ranges.len() > FEW_RANGES => {
                Some(
                    ExchangeResult::failed(self.too_large(status))
                        .with(RangeBehavior::ShorterQuery),
                )
            }
            status
                if status.is_success()
                    || matches!(
                        status,
                        StatusCode::BAD_REQUEST
                            | StatusCode::METHOD_NOT_ALLOWED
                            | StatusCode::NOT_ACCEPTABLE
                            | StatusCode::LENGTH_REQUIRED
                            | StatusCode::PAYLOAD_TOO_LARGE
                            | StatusCode::UNSUPPORTED_MEDIA_TYPE
                            | StatusCode::UNPROCESSABLE_ENTITY
                            | StatusCode::NOT_IMPLEMENTED
                    ) =>
            {
                Some(ExchangeResult::failed(self.too_large(status)).with(RangeBehavior::NoQuery))
            }
            _ => None,
        }
    }

    pub(crate) async fn frames(
        &self,
        mut body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> ExchangeResult {
        let mut parser = FrameReader::default();
        loop {
            let got = delivery.received_bytes();
            let mut chunk = match next_chunk(&mut body, self.location, self.pool, got).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => return ExchangeResult::failed(error),
            };
            loop {
                match parser.next(&mut chunk) {
                    Ok(Some(FrameEvent::Size(size))) => {
                        if let Err(error) = self.check_size(Some(size), None) {
                            return ExchangeResult::failed(error);
                        }
                        delivery.size = Some(size);
                    }
                    Ok(Some(FrameEvent::Data { offset, bytes })) => delivery.deliver(offset, bytes),
                    Ok(None) => break,
                    Err(error) => {
                        return ExchangeResult::failed(self.garbled(&error));
                    }
                }
            }
        }
        match parser.finish() {
            Err(error) => ExchangeResult::failed(self.garbled(&error)),
            Ok(()) if delivery.is_complete(self.request.tail) || delivery.is_beyond() => {
                delivery.complete(self.request.tail, true)
            }
            Ok(()) => ExchangeResult::failed(
                self.garbled(&"the response lacks some of the requested ranges"),
            ),
        }
    }
}
