//! The learned capabilities of one server, shared by all files on it.
//!
//! **Learning.** Every response shows something ([`RangeBehavior`]): several ranges came, or one
//! only, or the request was too large. The server does not say in which respect, so the limit of
//! something that never worked before is lowered: that of the number of ranges first, or, where the
//! status is about the header, that of its length; if both have worked before, that of the bytes of
//! the response. A wrong choice corrects itself as soon as a request that is as large in that
//! respect succeeds.
//!
//! **Growing.** Connections are used in parallel, and a request that is too large for one is too
//! large for all. So only one request at a time is larger than those that worked before; others of
//! its size are split meanwhile.
//!
//! **Errors.** A 500, or a connection that is closed without a response, may be accidental, and the
//! request is repeated unchanged. The second time in a row, or where the server is known to have a
//! limit, it counts as too large, if it was larger than any that worked.
//!
//! **A single range** can only be too long. If it is rejected or shortened, shorter ones are
//! requested, down to a length that worked before. If those are rejected as well, the length was
//! not the reason, and the limit is restored.

use crate::context::MonotonicClock;
use crate::pool::observation::{ExchangeOutcome, ExchangeResult, RangeBehavior};
use hither_core::endpoint::{
    COMMON_HEADER_BYTES, CONSERVATIVE_HEADER_BYTES, CONSERVATIVE_RANGES, Endpoint,
    MAX_HEADER_BYTES, MAX_RANGES, MAX_REQUEST_BYTES, MIN_ANSWER_BYTES, NamespaceSupport,
    RangeSupport,
};
use hither_core::error::Retry;
use hither_core::sync::lock;
use hither_core::{Clock, LearnedLimit, Limits, Request, range, retry};
use hither_http::{ResponseHead, ServerHint, Validator};
use http::{HeaderMap, StatusCode, header};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tracing::trace;

/// The learned capabilities of a server.
#[derive(Debug)]
pub(crate) struct ServerCapabilities {
    state: Mutex<ServerCapabilitiesState>,
    interruptions: AtomicU64,
    /// The server has stated the checksum of a file.
    pub(crate) has_checksums: AtomicBool,
}

#[derive(Debug)]
struct ServerCapabilitiesState {
    endpoint: Endpoint,
    /// The size of the last request that failed, unless it or one as large succeeded since then.
    last_failed: Option<RequestSize>,
    /// The limits are those known for the server's software, and were not contradicted.
    trusted: bool,
    /// A request that is larger than those before it is in progress.
    trying: bool,
    /// Rejections in a row of a single range that was not too long.
    unexplained_rejections: u32,
    /// The end of the server's `Retry-After`.
    not_before: Option<Instant>,
    /// Seconds by which its clock is ahead of this machine's, by the last response with a date.
    ahead_seconds: Option<i64>,
}

/// The sizes in which a request is sent.
#[derive(Debug, Default)]
pub(crate) struct RequestSizing {
    /// The limits of the pieces, if the request has to be split.
    pub(crate) pieces: Option<Limits>,
    /// The permission to exceed what worked before. Other requests are split until it is dropped.
    pub(crate) trial: Option<LimitProbe>,
}

/// The permission to exceed what worked before.
#[derive(Debug)]
pub(crate) struct LimitProbe(Arc<ServerCapabilities>);

impl Drop for LimitProbe {
    fn drop(&mut self) {
        self.0.state().trying = false;
    }
}

/// The size of a request.
#[derive(Debug, Clone, Copy)]
struct RequestSize {
    ranges: u64,
    text_bytes: u64,
    answer_bytes: u64,
}

impl RequestSize {
    fn of(request: &Request) -> Self {
        let text: usize = request.ranges.iter().map(Limits::range_text_bytes).sum();
        Self {
            ranges: request.ranges.len() as u64 + u64::from(request.tail > 0),
            text_bytes: text as u64,
            answer_bytes: range::total_bytes(&request.ranges).saturating_add(request.tail),
        }
    }
}

impl RequestSize {
    /// Returns whether `other` is no larger in any respect.
    fn is_as_large(&self, other: &Self) -> bool {
        self.ranges >= other.ranges
            && self.text_bytes >= other.text_bytes
            && self.answer_bytes >= other.answer_bytes
    }

    /// Returns whether it is a single range, longer than any that worked, and not of the minimum
    /// length.
    fn may_be_too_long(self, endpoint: &Endpoint) -> bool {
        self.ranges == 1
            && self.answer_bytes > MIN_ANSWER_BYTES
            && endpoint.answer_bytes.is_unproven(self.answer_bytes)
    }
}

/// The most seconds by which a clock may be ahead of one that read `sent` before and `received`
/// after it read `date`, to the second; negative if it is behind; 0 if they may be equal.
fn seconds_ahead(date: SystemTime, sent: SystemTime, received: SystemTime) -> i64 {
    let after = |a: SystemTime, b: SystemTime| {
        let whole = a.duration_since(b).ok()?.as_secs_f64().ceil();
        #[expect(clippy::cast_possible_truncation, reason = "dates have four digits of a year")]
        Some(whole as i64)
    };
    let end = date + Duration::from_secs(1);
    match () {
        () if date > received => after(end, sent).unwrap_or_default(),
        () if end < sent => -after(received, date).unwrap_or_default(),
        () => 0,
    }
}

impl ServerCapabilities {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let state = ServerCapabilitiesState {
            endpoint,
            last_failed: None,
            trusted: false,
            trying: false,
            unexplained_rejections: 0,
            not_before: None,
            ahead_seconds: None,
        };
        let state = Mutex::new(state);
        Self { state, interruptions: AtomicU64::new(0), has_checksums: AtomicBool::new(false) }
    }

    /// Counts a request that failed: the server may have been restarted.
    pub(crate) fn note_interruption(&self) {
        self.interruptions.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of requests that failed so far.
    pub(crate) fn interruptions(&self) -> u64 {
        self.interruptions.load(Ordering::Acquire)
    }

    /// The capabilities, without what the pool knows about the path.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.state().endpoint.clone()
    }

    pub(crate) fn limits(&self) -> Limits {
        self.state().endpoint.limits()
    }

    pub(crate) fn ranges(&self) -> RangeSupport {
        self.state().endpoint.ranges
    }

    /// Returns whether a request is sent as a `QUERY`: it has several ranges, and the server
    /// supports it.
    pub(crate) fn takes_query(&self, request: &Request) -> bool {
        RequestSize::of(request).ranges > 1 && self.state().endpoint.query == Some(true)
    }

    /// Returns whether the tail of a file may be requested by suffix.
    pub(crate) fn takes_suffix(&self) -> bool {
        self.state().endpoint.suffix
    }

    /// Assumes how the server responds to several ranges, if that is unknown.
    #[cfg(feature = "s3")]
    pub(crate) fn assume(&self, support: RangeSupport) {
        let mut state = self.state();
        if state.endpoint.ranges == RangeSupport::Unknown {
            state.endpoint.ranges = support;
        }
    }

    /// The capabilities for listing and writing.
    pub(crate) fn names(&self) -> NamespaceSupport {
        self.state().endpoint.names
    }

    /// Updates the capabilities for listing and writing.
    pub(crate) fn learn_names(&self, learn: impl FnOnce(&mut NamespaceSupport)) {
        learn(&mut self.state().endpoint.names);
    }

    /// Returns whether entity tags of the server differ for one version of a file.
    pub(crate) fn has_own_tags(&self) -> bool {
        self.state().endpoint.own_tags
    }

    /// Records that entity tags of the server differ for one version of a file.
    pub(crate) fn learn_own_tags(&self) {
        self.state().endpoint.own_tags = true;
    }

    /// The fields of a response. Entity tags that differ for one version are not validators.
    pub(crate) fn head(&self, status: StatusCode, headers: &HeaderMap) -> ResponseHead {
        let mut head = ResponseHead::of(status, headers);
        if self.has_own_tags() {
            head.validator = Validator::date(headers);
        }
        head
    }

    /// Seconds by which the server's clock is ahead of this machine's, if a response had a date.
    pub(crate) fn ahead_seconds(&self) -> Option<i64> {
        self.state().ahead_seconds
    }

    /// Compares the `Date` of a response with the clock, which was at `sent` when the request was
    /// sent. A response that a cache has kept has an old date.
    pub(crate) fn saw_date(&self, headers: &HeaderMap, sent: SystemTime) {
        let field = headers.get(header::DATE).filter(|_| !headers.contains_key(header::AGE));
        let date = field.and_then(|field| httpdate::parse_http_date(field.to_str().ok()?).ok());
        if let Some(date) = date {
            self.state().ahead_seconds = Some(seconds_ahead(date, sent, SystemTime::now()));
        }
    }

    /// Waits until the server's `Retry-After` has passed.
    pub(crate) async fn wait_retry_after(&self) {
        let not_before = self.state().not_before;
        if let Some(instant) = not_before {
            tokio::time::sleep_until(instant).await;
        }
    }

    /// Decides whether a request is sent as it is, or in pieces.
    pub(crate) fn size_request(self: &Arc<Self>, request: &Request) -> RequestSizing {
        let amount = RequestSize::of(request);
        let mut state = self.state();
        let endpoint = &state.endpoint;
        let ranges = safe(&endpoint.range_count, CONSERVATIVE_RANGES);
        let text = safe(&endpoint.header_bytes, CONSERVATIVE_HEADER_BYTES);
        let query = endpoint.query == Some(true);
        if state.trusted || query || amount.ranges <= ranges && amount.text_bytes <= text {
            return RequestSizing::default();
        }
        if !state.trying {
            state.trying = true;
            return RequestSizing { trial: Some(LimitProbe(Arc::clone(self))), pieces: None };
        }
        let count = |most| usize::try_from(most).unwrap_or(usize::MAX);
        let limits = endpoint.limits();
        let pieces = Limits {
            max_ranges: limits.max_ranges.min(count(ranges)),
            max_header_bytes: limits.max_header_bytes.min(count(text)),
            ..limits
        };
        RequestSizing { pieces: Some(pieces), trial: None }
    }

    /// Returns whether this request probably failed because of its size.
    pub(crate) fn is_too_much(&self, request: &Request) -> bool {
        let amount = RequestSize::of(request);
        let mut state = self.state();
        let endpoint = &state.endpoint;
        let unproven = match amount.ranges {
            ..=1 => amount.may_be_too_long(endpoint),
            _ => {
                endpoint.range_count.is_unproven(amount.ranges)
                    || endpoint.header_bytes.is_unproven(amount.text_bytes)
                    || endpoint.answer_bytes.is_unproven(amount.answer_bytes)
            }
        };
        let refuses = endpoint.range_count.rejected > 0
            || endpoint.header_bytes.rejected > 0
            || endpoint.answer_bytes.rejected > 0;
        let again = state.last_failed.is_some();
        state.last_failed = unproven.then_some(amount);
        unproven && (again || refuses)
    }

    /// Returns whether this single range may have been rejected because of its length.
    pub(crate) fn may_be_too_long(&self, request: &Request) -> bool {
        RequestSize::of(request).may_be_too_long(&self.state().endpoint)
    }

    /// Returns whether no response has shown yet that the server accepts as many ranges as
    /// `request` has.
    pub(crate) fn may_refuse_several(&self, request: &Request) -> bool {
        let amount = RequestSize::of(request);
        let state = self.state();
        !state.trusted && state.endpoint.range_count.accepted < amount.ranges
    }

    /// Learns from the result of a request.
    pub(crate) fn learn(&self, request: &Request, result: &ExchangeResult) {
        let amount = RequestSize::of(request);
        if let Some(behavior) = result.finding {
            trace!(
                ?behavior,
                ranges = amount.ranges,
                bytes = amount.answer_bytes,
                "range support observed"
            );
        }
        // A range may go beyond the end of the file: missing bytes prove nothing.
        let arrived = range::total_bytes(&result.delivered);
        let accepted = RequestSize { answer_bytes: amount.answer_bytes.min(arrived), ..amount };
        let mut state = self.state();
        if let Some(hint) = &result.hint {
            state.trusted |= apply_hint(&mut state.endpoint, hint);
        }
        // The software is known, but behaves differently.
        state.trusted &= !matches!(
            result.finding,
            Some(
                RangeBehavior::OnlyOne
                    | RangeBehavior::PerhapsOne
                    | RangeBehavior::TooMany
                    | RangeBehavior::TooLong
            )
        );
        if result.tail_refused {
            state.endpoint.suffix = false;
        }
        if result.offers_query {
            state.endpoint.query.get_or_insert(true);
        }
        match result.finding {
            Some(RangeBehavior::NoQuery) => state.endpoint.query = Some(false),
            Some(RangeBehavior::ShorterQuery) => {
                let half = request.ranges.len() / 2;
                state.endpoint.query_ranges = state.endpoint.query_ranges.min(half).max(1);
            }
            Some(RangeBehavior::Several) => state.record_accepted(accepted),
            Some(RangeBehavior::OnlyOne) => {
                // Two ranges would have failed, too.
                let several = state.endpoint.range_count.accepted.saturating_add(1).max(2);
                state.endpoint.range_count.record_rejected_several(several.min(amount.ranges));
                state.endpoint.settle();
            }
            Some(RangeBehavior::PerhapsOne) => {
                state.endpoint.range_count.record_rejected_several(amount.ranges);
                state.endpoint.settle();
            }
            Some(RangeBehavior::TooMany) => state.record_rejected(amount, false),
            Some(RangeBehavior::TooLong) => state.record_rejected(amount, true),
            Some(RangeBehavior::Short(bytes)) => {
                state.endpoint.answer_bytes.record_accepted(bytes, MAX_REQUEST_BYTES);
                state.record_rejected(amount, false);
            }
            Some(RangeBehavior::NoRanges) => state.endpoint.ranges = RangeSupport::Whole,
            Some(RangeBehavior::Ranges) => state.record_accepted_one(accepted),
            None if result.outcome.is_err() && !result.busy => state.failed(amount),
            None => {}
        }
        match &result.outcome {
            Ok(ExchangeOutcome::Complete(_)) => {
                state.last_failed =
                    state.last_failed.filter(|last_failed| !amount.is_as_large(last_failed));
            }
            Ok(ExchangeOutcome::Redirect(_)) => {}
            // The rejection of one request need not delay the others.
            Err(_) if result.busy && !result.has_retry_after => {}
            Err(error) => {
                if let Retry::SameServer { after } | Retry::Busy { after } = error.retry()
                    && !after.is_zero()
                {
                    let random = MonotonicClock::start().random();
                    state.not_before = Some(Instant::now() + retry::lengthened(after, random));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ServerCapabilitiesState> {
        lock(&self.state)
    }
}

/// The size that is expected to work. Before any rejection: a little more than what worked, and at
/// least what every server is expected to support. While the limit is searched: what worked, and
/// what every server supports if that was not rejected. (The first request of a process may be
/// tiny, and the only stored observation of a server whose limit is known from its software.)
fn safe(allowance: &LearnedLimit, conservative: u64) -> u64 {
    match (allowance.rejected, allowance.accepted) {
        (0, taken) => (taken.saturating_mul(8) / 7).max(conservative),
        // No smaller size is known to work.
        (_, 0) => u64::MAX,
        (..) if allowance.is_settled() => u64::MAX,
        (rejected, taken) if rejected > conservative => taken.max(conservative),
        (_, taken) => taken,
    }
}

/// Sets the limits that are known for the server's software, if nothing was learned yet. Returns
/// whether it did.
fn apply_hint(endpoint: &mut Endpoint, hint: &ServerHint) -> bool {
    let is_new = endpoint.range_count.accepted == 0 && endpoint.range_count.rejected == 0;
    if endpoint.ranges != RangeSupport::Unknown || !is_new {
        return false;
    }
    endpoint.range_count = match hint.max_ranges {
        Some(most) => LearnedLimit::limited(most as u64),
        None => LearnedLimit::starting(MAX_RANGES),
    };
    let text = (hint.max_header_bytes as u64).min(MAX_HEADER_BYTES);
    endpoint.header_bytes = LearnedLimit::limited(text);
    endpoint.suffix = hint.tail.unwrap_or(endpoint.suffix);
    match hint.multi {
        Some(true) => endpoint.ranges = RangeSupport::Multi,
        Some(false) => endpoint.ranges = RangeSupport::Single,
        None => {}
    }
    true
}

impl ServerCapabilitiesState {
    /// Several ranges arrived as requested.
    fn record_accepted(&mut self, amount: RequestSize) {
        let endpoint = &mut self.endpoint;
        endpoint.ranges = RangeSupport::Multi;
        endpoint.range_count.record_accepted(amount.ranges, MAX_RANGES);
        endpoint.header_bytes.record_accepted(amount.text_bytes, COMMON_HEADER_BYTES);
        endpoint.answer_bytes.record_accepted(amount.answer_bytes, MAX_REQUEST_BYTES);
    }

    /// One range arrived as requested.
    fn record_accepted_one(&mut self, amount: RequestSize) {
        self.unexplained_rejections = 0;
        let endpoint = &mut self.endpoint;
        if amount.ranges == 1 {
            endpoint.answer_bytes.record_accepted(amount.answer_bytes, MAX_REQUEST_BYTES);
            if endpoint.header_bytes.rejected > 0 && endpoint.header_bytes.accepted == 0 {
                endpoint.header_bytes.record_accepted(amount.text_bytes, COMMON_HEADER_BYTES);
            }
        }
        if endpoint.ranges == RangeSupport::Whole {
            endpoint.ranges = RangeSupport::Single;
        }
        // While the limit on ranges is searched, one range is the minimum.
        if endpoint.range_count.rejected > 2 {
            endpoint.range_count.record_accepted(1, MAX_RANGES);
        }
    }

    /// A request failed, but not because it was too large. If short ranges fail, too, the long ones
    /// were not rejected for their length.
    fn failed(&mut self, amount: RequestSize) {
        let answers = &mut self.endpoint.answer_bytes;
        if amount.ranges == 1 && answers.rejected > 0 && amount.answer_bytes < answers.rejected {
            self.unexplained_rejections += 1;
            if self.unexplained_rejections > 1 {
                self.unexplained_rejections = 0;
                *answers = LearnedLimit { current: MAX_REQUEST_BYTES, rejected: 0, ..*answers };
            }
        }
    }

    /// A request was too large.
    fn record_rejected(&mut self, amount: RequestSize, header: bool) {
        let endpoint = &mut self.endpoint;
        let ranges = endpoint.range_count.is_unproven(amount.ranges);
        // One that was sent although it is longer than the allowance could not be shorter.
        let text = endpoint.header_bytes.is_unproven(amount.text_bytes)
            && (header || amount.text_bytes <= endpoint.header_bytes.current);
        let answer = endpoint.answer_bytes.is_unproven(amount.answer_bytes);
        match (ranges, text, answer) {
            _ if amount.ranges <= 1 => {
                let answers = &mut endpoint.answer_bytes;
                answers.record_rejected(amount.answer_bytes);
                // A length that worked before shows soonest whether the length was the reason.
                if answers.accepted > 0 {
                    answers.current = answers.accepted;
                }
            }
            (_, true, _) if header => endpoint.header_bytes.record_rejected(amount.text_bytes),
            (false, true, _) => endpoint.header_bytes.record_rejected(amount.text_bytes),
            (false, false, true) => endpoint.answer_bytes.record_rejected(amount.answer_bytes),
            _ => endpoint.range_count.record_rejected(amount.ranges),
        }
        endpoint.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::ResponseMeta;
    use hither_core::error::{Error, ErrorKind};

    #[test]
    fn a_tiny_first_request_does_not_make_the_next_ones_tiny() {
        let from_its_name = LearnedLimit { accepted: 6, ..LearnedLimit::limited(8_100) };
        assert_eq!(safe(&from_its_name, CONSERVATIVE_HEADER_BYTES), CONSERVATIVE_HEADER_BYTES);
        let rejected =
            LearnedLimit { accepted: 6, rejected: 3_000, ..LearnedLimit::limited(8_100) };
        assert_eq!(safe(&rejected, CONSERVATIVE_HEADER_BYTES), 6);
    }

    #[expect(clippy::single_range_in_vec_init, reason = "requests take lists of ranges")]
    fn several(last: u64) -> Request {
        Request { ranges: vec![0..last], tail: 8_000, ..Request::default() }
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "requests take lists of ranges")]
    fn a_range_beyond_the_end_proves_only_what_arrived() {
        let server = ServerCapabilities::new(Endpoint::default());
        let one = |range| Request { ranges: vec![range], ..Request::default() };
        let complete = Ok(ExchangeOutcome::Complete(ResponseMeta::default()));
        let mut result = ExchangeResult::new(complete, true).with(RangeBehavior::Ranges);
        result.delivered = vec![41_364..45_542];
        server.learn(&one(41_364..62_046), &result);
        assert!(server.may_be_too_long(&one(0..13_788)));
        assert!(!server.may_be_too_long(&one(0..4_178)));
    }

    #[test]
    fn a_header_that_cannot_be_shorter_is_not_the_reason() {
        let server = ServerCapabilities::new(Endpoint::default());
        let complete = Ok(ExchangeOutcome::Complete(ResponseMeta::default()));
        let mut result = ExchangeResult::new(complete, true).with(RangeBehavior::Several);
        result.delivered = vec![0..512, 37_542..45_542];
        server.learn(&several(512), &result);
        let error = Error::new(ErrorKind::TooLarge, "too many bytes");
        let refused = ExchangeResult::failed(error).with(RangeBehavior::TooMany);
        for _ in 0..4 {
            server.learn(&several(62_046), &refused);
        }
        assert!(server.state().endpoint.answer_bytes.current < 70_046);
    }

    #[test]
    fn clocks_differ_only_as_far_as_a_date_shows() {
        let at = |seconds: f64| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(1e9 + seconds);
        for (date, sent, received, ahead) in [
            (5.0, 5.2, 5.3, 0),
            // Sent and received in two seconds.
            (6.0, 5.9, 6.1, 0),
            (6.0, 5.2, 5.3, 2),
            (305.0, 5.2, 5.3, 301),
            (3.0, 5.2, 5.3, -3),
            (4.0, 5.2, 9.0, -5),
        ] {
            assert_eq!(seconds_ahead(at(date), at(sent), at(received)), ahead, "{date} {sent}");
        }
    }
}
