//! Responses with several parts (`multipart/byteranges`).
//!
//! The bytes of a part are [held](HeldBytes) until its delimiter has come: a part that is shorter
//! than its label has the delimiter among them. A part that overlaps another one contradicts it,
//! because no requested ranges overlap (but a tail may overlap them). In the response to a request
//! for one range, which few servers send in parts, the first part is held until the last one has
//! come, so that a retry can replace both. In a response with many ranges that costs too much time:
//! there the read fails, as if the file had changed meanwhile.
//!
//! If the connection breaks in the middle of a part, the bytes before that are delivered, unless a
//! delimiter is among them.

use crate::http::delivery::Delivery;
use crate::http::exchange::Exchange;
use crate::http::exchange::held_bytes::{HeldBytes, MAX_HELD_BYTES, is_interrupted};
use crate::pool::observation::{ExchangeResult, RangeBehavior};
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::range;
use hither_http::multipart::MAX_HEADER_BYTES;
use hither_http::{MultipartError, MultipartEvent, MultipartReader};
use http::StatusCode;
use hyper::body::Incoming;
use std::collections::BTreeMap;
use std::ops::Range;

/// The parts of a response that have arrived.
#[derive(Debug)]
struct ReceivedParts {
    parser: MultipartReader,
    /// Bytes of the body.
    arrived: u64,
    /// The end of each part, by its beginning.
    ranges: BTreeMap<u64, u64>,
    /// Complete parts of a response that is held as a whole.
    complete: HeldBytes,
    /// The part whose delimiter has not come.
    unconfirmed: HeldBytes,
}

impl ReceivedParts {
    fn new(parser: MultipartReader) -> Self {
        Self {
            parser,
            arrived: 0,
            ranges: BTreeMap::new(),
            complete: HeldBytes::default(),
            unconfirmed: HeldBytes::default(),
        }
    }

    /// Notes the range of the next part. Returns true if it overlaps an earlier one.
    fn overlap(&mut self, range: &Range<u64>) -> bool {
        let before = self.ranges.range(..range.end).next_back();
        let overlaps = before.is_some_and(|(_, end)| *end > range.start);
        self.ranges.insert(range.start, range.end);
        overlaps
    }

    /// Delivers what arrived before the connection broke.
    fn deliver_interrupted(&mut self, delivery: &mut Delivery<'_>) {
        self.complete.deliver(delivery);
        let Some((offset, bytes)) = self.unconfirmed.joined() else { return };
        let certain = self.parser.before_delimiter(&bytes).unwrap_or_default();
        if certain > 0 {
            delivery.deliver(offset, bytes.slice(..certain));
        }
    }

    /// Delivers what the end of the body confirms, and returns whether the closing delimiter came.
    /// A server may leave that out.
    fn finish(&mut self, delivery: &mut Delivery<'_>) -> Result<(), MultipartError> {
        let ended = self.parser.finish();
        let last = || self.unconfirmed.joined().unwrap_or_default().1;
        let is_confirmed = match &ended {
            Ok(()) => true,
            Err(MultipartError::Truncated { missing: None, .. }) => {
                self.parser.before_delimiter(&last()).is_some()
            }
            Err(_) => false,
        };
        if is_confirmed {
            self.complete.deliver(delivery);
            self.unconfirmed.deliver(delivery);
        }
        ended
    }
}

impl Exchange<'_> {
    pub(super) async fn multipart(
        &self,
        boundary: &[u8],
        body: Incoming,
        delivery: &mut Delivery<'_>,
    ) -> ExchangeResult {
        let mut parts = match MultipartReader::new(boundary) {
            Ok(parser) => ReceivedParts::new(parser),
            Err(error) => return ExchangeResult::failed(self.unexpected(&error)),
        };
        let take = |chunk, delivery: &mut Delivery<'_>| self.take(&mut parts, chunk, delivery);
        let read = self.read_body(body, delivery, take).await;
        if let Err(error) = read {
            if is_interrupted(&error) {
                parts.deliver_interrupted(delivery);
            }
            let is_too_large = matches!(error.failure(), Failure::TooLarge);
            return ExchangeResult::failed(error)
                .with(is_too_large.then_some(RangeBehavior::TooMany));
        }
        let ended = parts.finish(delivery);
        let complete = delivery.is_complete(self.sent().1);
        match ended {
            Err(error) if !complete => ExchangeResult::failed(self.garbled(&error)),
            _ if complete => {
                delivery.complete(self.request.tail, true).with(RangeBehavior::Several)
            }
            _ if self.request.tail > 0 && delivery.has_all_but_tail() => {
                self.no_tail(true).with(RangeBehavior::Several)
            }
            // A server that leaves out some of the ranges, and not all, supports no more of them.
            _ if self.range_count() > 1 && delivery.is_wanted() && !delivery.has_all_but_tail() => {
                let error = self.too_large(StatusCode::PARTIAL_CONTENT);
                ExchangeResult { reusable: true, ..ExchangeResult::failed(error) }
                    .with(RangeBehavior::TooMany)
            }
            _ => delivery.complete(self.request.tail, true),
        }
    }

    /// Takes a chunk of the body.
    fn take(
        &self,
        parts: &mut ReceivedParts,
        mut chunk: Bytes,
        delivery: &mut Delivery<'_>,
    ) -> Result<()> {
        self.count_body(&mut parts.arrived, &chunk, delivery.size)?;
        while let Some(event) =
            parts.parser.next(&mut chunk).map_err(|error| self.broken_multipart(&error))?
        {
            match event {
                MultipartEvent::PartStart { range, total } => {
                    self.check_size(total, None)?;
                    delivery.size = delivery.size.or(total);
                    self.check_part(parts, &range)?;
                }
                MultipartEvent::Data { offset, bytes } => parts.unconfirmed.hold(offset, bytes),
                MultipartEvent::PartEnd if self.range_count() > 1 => {
                    parts.unconfirmed.deliver(delivery);
                }
                MultipartEvent::PartEnd => parts.complete.append(&mut parts.unconfirmed),
                MultipartEvent::End => {}
            }
        }
        Ok(())
    }

    /// Fails if a part contradicts an earlier one, or is too large to be held.
    fn check_part(&self, parts: &mut ReceivedParts, range: &Range<u64>) -> Result<()> {
        let is_one = self.range_count() <= 1;
        if parts.overlap(range) && self.sent().1 == 0 {
            let Range { start, end } = range;
            let what = format!("bytes {start}..{end} overlap those of another part");
            if is_one {
                return Err(self.garbled(&what));
            }
            // Bytes of the other part have been delivered.
            return Err(Error::new(ErrorKind::Changed, format!("{}: {what}", self.location)));
        }
        let held = parts.complete.bytes().saturating_add(range::len(range));
        match held {
            ..=MAX_HELD_BYTES => Ok(()),
            _ if is_one => Err(self.unexpected(&format!("parts with {held} bytes of one range"))),
            // The server joins ranges with what is between them.
            _ => Err(self.too_large(StatusCode::PARTIAL_CONTENT)),
        }
    }

    /// Counts the bytes of a response with parts, which need not end. A server may merge ranges,
    /// with what lies between them, and send those that overlap twice.
    pub(super) fn count_body(
        &self,
        arrived: &mut u64,
        chunk: &Bytes,
        size: Option<u64>,
    ) -> Result<()> {
        let (ranges, tail) = self.sent();
        let start = ranges.first().map_or(0, |range| range.start);
        let end = if tail > 0 { size } else { ranges.last().map(|range| range.end) };
        let span = end.unwrap_or(u64::MAX).saturating_sub(start);
        let headers = (self.range_count() as u64 + 1) * MAX_HEADER_BYTES as u64;
        *arrived += chunk.len() as u64;
        if *arrived <= span.saturating_mul(2).saturating_add(headers) {
            return Ok(());
        }
        Err(self.garbled(&"the response has more bytes than the requested ranges"))
    }

    /// An error in the middle of a multipart response means most likely too many ranges (XrdHttp
    /// 5.5 above 1,024).
    fn broken_multipart(&self, error: &MultipartError) -> Error {
        match error {
            MultipartError::ServerFailed { .. }
                if self.range_count() > 1 || self.may_be_too_long() =>
            {
                let message = format!("{}: {error}", self.location);
                Error::new(ErrorKind::TooLarge, message).with_failure(Failure::TooLarge)
            }
            _ => self.unexpected(error),
        }
    }
}
