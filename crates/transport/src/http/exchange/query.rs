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
use crate::http::status_error::is_unsupported;
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
                    || is_unsupported(status)
                    || matches!(status.as_u16(), 400 | 406 | 411 | 413 | 422) =>
            {
                Some(ExchangeResult::failed(self.too_large(status)).with(RangeBehavior::NoQuery))
            }
            _ => None,
        }
    }

    pub(crate) async fn frames(
        &self,
        body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> ExchangeResult {
        let mut parser = FrameReader::default();
        let mut arrived = 0;
        let read = self.read_body(body, delivery, |mut chunk, delivery| {
            self.count_body(&mut arrived, &chunk, delivery.size)?;
            while let Some(event) = parser.next(&mut chunk).map_err(|error| self.garbled(&error))? {
                match event {
                    FrameEvent::Size(size) => {
                        self.check_size(Some(size), None)?;
                        delivery.size = Some(size);
                    }
                    FrameEvent::Data { offset, bytes } => delivery.deliver(offset, bytes),
                }
            }
            Ok(())
        });
        if let Err(error) = read.await {
            return ExchangeResult::failed(error);
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
