//! The forms of a response: one part, the whole file, no range. `multipart.rs` has that of several
//! parts.

use crate::http::delivery::Delivery;
use crate::http::exchange::held_bytes::{HeldBytes, MAX_HELD_BYTES, is_interrupted};
use crate::http::exchange::{Exchange, RangeEncoding};
use crate::http::response_body::next_chunk;
use crate::http::spooled_download::WholeFileResponse;
use crate::pool::observation::{ExchangeResult, PossibleEnd, RangeBehavior};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::range;
use hither_http::{RangeResponseError, ResponseHead};
use http::StatusCode;
use hyper::body::{Body, Incoming};
use std::ops::Range;

/// A whole file that was not requested is read if it is at most this many times larger than what
/// was requested: reading on costs less than another round trip.
const WHOLE_FACTOR: u64 = 4;
/// A whole file up to this size in bytes is always read.
const WHOLE_FLOOR_BYTES: u64 = 256 * 1024;

impl Exchange<'_> {
    /// Reads a body to its end, and passes each chunk to `take`.
    pub(super) async fn read_body(
        &self,
        mut body: Incoming,
        delivery: &mut Delivery<'_>,
        mut take: impl FnMut(Bytes, &mut Delivery<'_>) -> Result<()>,
    ) -> Result<()> {
        while let Some(chunk) =
            next_chunk(&mut body, self.location, self.pool, delivery.received_bytes()).await?
        {
            take(chunk, delivery)?;
        }
        Ok(())
    }

    /// The size of a file whose last bytes were requested, and arrived without it. One that begins
    /// the file is ignored: there are servers to which `bytes=-1` is `bytes=0-1`.
    pub(crate) fn end_of(&self, arrived: &Range<u64>) -> Option<u64> {
        let is_tail = self.sent() == (&[], self.request.tail)
            && range::len(arrived) == self.request.tail
            && arrived.start > 0;
        is_tail.then_some(arrived.end)
    }

    pub(crate) async fn single(
        &self,
        range: Range<u64>,
        body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> ExchangeResult {
        match self.stream(body, range.clone(), delivery).await {
            Ok(length) if length < range::len(&range) => {
                let range_bytes = range::len(&range);
                let error = RangeResponseError::OtherLength { length, range_bytes };
                return self.failed_with(self.garbled(&error));
            }
            Ok(_) => {}
            Err(error) => return ExchangeResult::failed(error),
        }
        let requested = self.range_count();
        let complete = delivery.is_complete(self.request.tail);
        if requested > 1 && !complete {
            if self.request.tail == 0 && delivery.has_all_but_tail() {
                return delivery.complete(self.request.tail, true);
            }
            if self.request.tail > 0 && delivery.has_all_but_tail() {
                // Everything but the tail arrived (XrdHttp 5.5 leaves it out silently).
                return self.no_tail(true);
            }
            // Only one of the ranges arrived: this server supports no more.
            let error = self.too_large(StatusCode::PARTIAL_CONTENT);
            return ExchangeResult { reusable: true, ..ExchangeResult::failed(error) }
                .with(RangeBehavior::OnlyOne);
        }
        if self.ask == RangeEncoding::First && !complete {
            // The server does support ranges: the rest is requested in the ordinary way.
            let error = self.too_large(StatusCode::PARTIAL_CONTENT);
            return ExchangeResult { reusable: true, ..ExchangeResult::failed(error) }
                .with(RangeBehavior::Ranges);
        }
        if requested == 1
            && self.ask == RangeEncoding::All
            && self.request.tail == 0
            && !complete
            && delivery.is_wanted()
            && !delivery.has_all_but_tail()
        {
            // The server sent less: the rest can be requested.
            let error = self.too_large(StatusCode::PARTIAL_CONTENT);
            let short = RangeBehavior::Short(delivery.received_bytes());
            if delivery.size.is_none() {
                let end = Some(PossibleEnd { at: range.end, error, finding: short });
                return ExchangeResult { possible_end: end, ..delivery.complete(0, true) };
            }
            let settled = ExchangeResult { reusable: true, ..ExchangeResult::failed(error) };
            return settled.with(short);
        }
        // A whole file proves nothing about ranges: a server with single ranges only would have
        // sent the same.
        let whole = range.start == 0 && delivery.size == Some(range.end);
        let finding = match requested {
            1 => Some(RangeBehavior::Ranges),
            _ => (!whole).then_some(RangeBehavior::Several),
        };
        delivery.complete(self.request.tail, true).with(finding)
    }

    pub(crate) async fn whole(
        &self,
        (size, is_page): (Option<u64>, bool),
        facts: &ResponseHead,
        body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> ExchangeResult {
        let wanted = range::total_bytes(&self.request.ranges).saturating_add(self.request.tail);
        let cheap = size
            .is_some_and(|size| size <= WHOLE_FLOOR_BYTES.max(wanted.saturating_mul(WHOLE_FACTOR)));
        let never = facts.accepts_ranges == Some(false);
        if !cheap && !never && self.range_count() > 1 {
            // Fewer ranges may work. The response is dropped with its connection.
            return ExchangeResult::failed(self.too_large(StatusCode::OK))
                .with(RangeBehavior::PerhapsOne);
        }
        let ignores_ranges = never || (!cheap && self.range_count() > 0);
        let finding = ignores_ranges.then_some(RangeBehavior::NoRanges);
        let validator = facts.validator.as_ref().and_then(|v| v.if_range().to_str().ok());
        let validator = validator.map(str::to_owned);
        let arrived = WholeFileResponse { body, size, validator, is_page };
        let served =
            self.whole_file.serve(Some(arrived), self.request, delivery, self.location).await;
        match served {
            Ok(_) => delivery.complete(self.request.tail, false).with(finding),
            Err(error) => ExchangeResult::failed(error).with(finding),
        }
    }

    /// 416: the ranges lie beyond the end of the file, or the server supports no suffix, or one
    /// range only (Varnish).
    pub(crate) fn unsatisfied(&self, stated: Option<u64>) -> ExchangeResult {
        let (ranges, tail) = self.sent();
        if tail > 0 {
            return self.no_tail(false);
        }
        let end = ranges.last().map_or(0, |range| range.end);
        if ranges.len() > 1 && stated.is_none_or(|size| end <= size) {
            let error = self.too_large(StatusCode::RANGE_NOT_SATISFIABLE);
            return ExchangeResult::failed(error).with(RangeBehavior::PerhapsOne);
        }
        let size = stated.map_or_else(|| "fewer".to_owned(), |size| size.to_string());
        let error = Error::new(
            ErrorKind::Corrupt,
            format!(
                "{}: bytes up to {end} were requested, but the file has {size}: it is truncated",
                self.location
            ),
        );
        // The file may be empty: S3 and lighttpd do not state the size.
        let lacks_first_byte = stated.is_none() && matches!(ranges, [Range { start: 0, .. }]);
        ExchangeResult { lacks_first_byte, ..ExchangeResult::failed(error) }
    }

    /// Delivers a body with one range, and returns its length. Without a stated length, the end of
    /// the body shows if it is the range: its bytes are held until then.
    async fn stream(
        &self,
        body: Incoming,
        range: Range<u64>,
        delivery: &mut Delivery<'_>,
    ) -> Result<u64> {
        let length = range::len(&range);
        let is_stated = body.size_hint().exact() == Some(length);
        if !is_stated && length > MAX_HELD_BYTES {
            let what = format!("the response does not state its length, for {length} bytes");
            return Err(self.unexpected(&what));
        }
        let mut held = HeldBytes::default();
        let mut offset = range.start;
        let read = self.read_body(body, delivery, |chunk, delivery| {
            let len = chunk.len() as u64;
            if len > range.end - offset {
                let what = format!(
                    "the response has more bytes than its range {}..{}",
                    range.start, range.end
                );
                return Err(self.unexpected(&what));
            }
            if is_stated {
                delivery.deliver(offset, chunk);
            } else {
                held.hold(offset, chunk);
            }
            offset += len;
            Ok(())
        });
        let read = read.await;
        if read.as_ref().map_or_else(is_interrupted, |()| offset == range.end) {
            held.deliver(delivery);
        }
        read.map(|()| offset - range.start)
    }

    pub(super) fn no_tail(&self, reusable: bool) -> ExchangeResult {
        let error = Error::new(
            ErrorKind::TooLarge,
            format!("{}: the server does not support suffix ranges", self.location),
        );
        let failed = ExchangeResult::failed(error.with_failure(Failure::TooLarge));
        ExchangeResult { tail_refused: true, reusable, ..failed }
    }
}
