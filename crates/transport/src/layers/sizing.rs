//! The size of range requests, as the capabilities of the server allow.
//!
//! A request that is larger than those that worked before is a trial. There is one at a time;
//! others of its size are sent in pieces meanwhile ([`ServerCapabilities::size_request`]).
//!
//! A server may send nothing of a range that goes beyond the end of the file: its part within the
//! file is requested then ([`within_file`]).
//!
//! A server may send less than a range without the size of the file (`Content-Range: bytes 0-9/*`).
//! The file ends there if a request for the next byte is refused with this size ([`byte_probe`]).
//!
//! A server may refuse several ranges with a status that does not mention ranges. If it never sent
//! as many, one byte of one of them is requested ([`byte_probe`]): if that arrives, the request was
//! too large.

use crate::pool::capabilities::{LimitProbe, RequestSizing, ServerCapabilities};
use crate::pool::observation::{ExchangeOutcome, ExchangeResult, RangeBehavior};
use hither_core::{Plan, PlanConfig, Request};
use std::slice;
use std::sync::Arc;

/// A request as it is sent: whole or in pieces.
#[derive(Debug)]
pub(crate) struct SizedRequest<'r> {
    whole: &'r Request,
    /// Empty if it is sent whole.
    pieces: Vec<Request>,
    /// Held while a request is sent that is larger than those that worked before.
    _trial: Option<LimitProbe>,
}

impl<'r> SizedRequest<'r> {
    /// A request that is sent whole.
    pub(crate) fn whole(request: &'r Request) -> Self {
        Self { whole: request, pieces: Vec::new(), _trial: None }
    }

    /// The size of `request` for a server with these capabilities.
    pub(crate) fn new(request: &'r Request, server: &Arc<ServerCapabilities>) -> Self {
        let RequestSizing { pieces, trial } = server.size_request(request);
        let plan = pieces
            .map(|limits| Plan::new(&request.ranges, &limits, &PlanConfig::default()).requests);
        let piece = |ranges| Request { ranges, ..request.clone() };
        let pieces = plan.unwrap_or_default().into_iter().map(piece).collect();
        Self { whole: request, pieces, _trial: trial }
    }

    /// The requests to send, one after the other.
    pub(crate) fn requests(&self) -> &[Request] {
        if self.pieces.is_empty() { slice::from_ref(self.whole) } else { &self.pieces }
    }
}

/// The part of a single range within the file, if `result` shows that the server sends nothing of a
/// range beyond it.
pub(crate) fn within_file(request: &Request, result: &ExchangeResult) -> Option<Request> {
    let size = result.past_end_of.filter(|_| request.tail == 0)?;
    let [range] = &request.ranges[..] else { return None };
    let ends_within = range.start < size && size < range.end;
    let ranges = vec![range.start..size];
    ends_within.then(|| Request { ranges, ..request.clone() })
}

/// The request for one byte that shows whether the file continues where `result` ended, or whether
/// `request` was refused because of its size, if `result` leaves that open.
pub(crate) fn byte_probe(
    request: &Request,
    result: &ExchangeResult,
    server: &ServerCapabilities,
) -> Option<Request> {
    let at = match (&result.possible_end, &result.refuses_several) {
        (Some(end), _) => end.at,
        (None, Some(_)) if server.may_refuse_several(request) => request.ranges.first()?.start,
        _ => return None,
    };
    let ranges = vec![at..at.saturating_add(1)];
    Some(Request { ranges, tail: 0, ..request.clone() })
}

/// The result of a request, from its own and from that of its [`byte_probe`]. The server's
/// capabilities learn if it was too large.
pub(crate) fn after_probe(
    request: &Request,
    mut result: ExchangeResult,
    probe: &ExchangeResult,
    server: &ServerCapabilities,
) -> ExchangeResult {
    let too_large = match (result.possible_end.take(), &result.refuses_several) {
        (Some(end), _) if probe.ends_file_at(end.at) => {
            result.size = Some(end.at);
            if let Ok(ExchangeOutcome::Complete(answer)) = &mut result.outcome {
                answer.size = result.size;
            }
            return result;
        }
        (Some(end), _) => ExchangeResult::failed(end.error).with(end.finding),
        (None, Some(error)) if probe.finding == Some(RangeBehavior::Ranges) => {
            ExchangeResult::failed(error.clone()).with(RangeBehavior::TooMany)
        }
        _ => return result,
    };
    server.learn(request, &too_large);
    too_large
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::observation::PossibleEnd;
    use hither_core::error::{Error, ErrorKind};
    use hither_core::{Endpoint, ResponseMeta};

    fn request(ranges: u64) -> Request {
        let ranges = (0..ranges).map(|n| n * 100..n * 100 + 10).collect();
        Request { ranges, ..Request::default() }
    }

    fn refused(several: bool) -> ExchangeResult {
        let error = || Error::new(ErrorKind::TooLarge, "refused");
        let refuses_several = several.then(error);
        ExchangeResult { refuses_several, ..ExchangeResult::failed(error()) }
    }

    #[test]
    fn one_large_request_is_tried_while_others_are_sent_in_pieces() {
        let server = Arc::new(ServerCapabilities::new(Endpoint::default()));
        let large = request(1000);
        let first = SizedRequest::new(&large, &server);
        assert_eq!(first.requests().len(), 1);
        let second = SizedRequest::new(&large, &server);
        assert!(second.requests().len() > 1);
        let sent: Vec<_> =
            second.requests().iter().flat_map(|piece| piece.ranges.clone()).collect();
        assert_eq!(sent, large.ranges);
        drop(first);
        assert_eq!(SizedRequest::new(&large, &server).requests().len(), 1);
        assert_eq!(SizedRequest::new(&request(2), &server).requests().len(), 1);
    }

    #[test]
    fn only_the_part_within_the_file_is_requested_again() {
        let past = |past_end_of| ExchangeResult { past_end_of, ..refused(false) };
        let one = Request { ranges: vec![100..200], ..Request::default() };
        let within = |size| within_file(&one, &past(size)).map(|it| it.ranges);
        assert_eq!(within(Some(101)), Some(vec![100..101]));
        for size in [None, Some(0), Some(100), Some(200), Some(300)] {
            assert_eq!(within(size), None, "{size:?}");
        }
        for other in [Request { tail: 9, ..one }, request(3)] {
            assert!(within_file(&other, &past(Some(101))).is_none());
        }
    }

    #[test]
    fn a_short_response_ends_the_file_only_if_the_server_refuses_the_next_byte_with_its_size() {
        let one = Request { ranges: vec![0..4096], ..Request::default() };
        let short = || {
            let error = Error::new(ErrorKind::TooLarge, "short");
            let end = PossibleEnd { at: 11, error, finding: RangeBehavior::Short(11) };
            let complete = Ok(ExchangeOutcome::Complete(ResponseMeta::default()));
            ExchangeResult { possible_end: Some(end), ..ExchangeResult::new(complete, true) }
        };
        let server = ServerCapabilities::new(Endpoint::default());
        assert_eq!(byte_probe(&one, &short(), &server).unwrap().ranges, [11..12]);
        assert!(byte_probe(&one, &refused(false), &server).is_none());
        let refused_with = |size| ExchangeResult { size, ..refused(false) };
        let cases = [(Some(11), Some(11)), (Some(12), None), (Some(0), None), (None, None)];
        for (stated, size) in cases {
            let server = ServerCapabilities::new(Endpoint::default());
            let result = after_probe(&one, short(), &refused_with(stated), &server);
            assert_eq!(result.outcome.is_ok(), size.is_some(), "{stated:?}");
            assert_eq!(result.size, size);
        }
        // The byte arrives: the server sends less than it is asked for.
        let server = ServerCapabilities::new(Endpoint::default());
        let arrived = ExchangeResult { size: Some(11), ..short() };
        let result = after_probe(&one, short(), &arrived, &server);
        assert_eq!(result.finding, Some(RangeBehavior::Short(11)));
    }

    #[test]
    fn a_byte_that_arrives_shows_that_the_request_was_too_large() {
        let server = ServerCapabilities::new(Endpoint::default());
        let several = request(3);
        assert!(byte_probe(&several, &refused(false), &server).is_none());
        let byte = byte_probe(&several, &refused(true), &server).unwrap();
        assert_eq!(byte.ranges, [0..1]);
        let failed = after_probe(&several, refused(true), &refused(false), &server);
        assert_eq!(failed.finding, None);
        let arrived = refused(false).with(RangeBehavior::Ranges);
        let too_large = after_probe(&several, refused(true), &arrived, &server);
        assert_eq!(too_large.finding, Some(RangeBehavior::TooMany));
        assert_eq!(server.endpoint().range_count.rejected, 3);
    }
}
