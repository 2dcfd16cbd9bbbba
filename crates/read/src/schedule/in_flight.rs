//! A request in flight: the bytes that arrived, and the half that another connection takes over.

use futures_util::future::AbortHandle;
use hither_core::source::Request;
use hither_core::{LinkEstimate, range};
use hither_load::straggler::{RequestProgress, SplitRule, is_wide};
use std::ops::Range;
use std::time::Duration;

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlightRequest {
    request: Request,
    received: Vec<Range<u64>>,
    /// Bytes that arrived with responses to other requests.
    elsewhere: Vec<Range<u64>>,
    /// Total of the requested ranges, so that the search for a straggler is cheap.
    requested_bytes: u64,
    received_bytes: u64,
    sent: Duration,
    abort: AbortHandle,
    split: bool,
}

impl InFlightRequest {
    pub(crate) fn new(request: Request, sent: Duration, abort: AbortHandle) -> Self {
        let requested_bytes = range::total_bytes(&request.ranges);
        Self {
            request,
            received: Vec::new(),
            elsewhere: Vec::new(),
            requested_bytes,
            received_bytes: 0,
            sent,
            abort,
            split: false,
        }
    }

    /// Records bytes that arrived. A request that was split is aborted once its own half is there.
    pub(crate) fn received(&mut self, range: Range<u64>) {
        self.received_bytes += range::len(&range);
        match self.received.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.received.push(range),
        }
        if self.split && self.missing().is_empty() {
            self.abort.abort();
        }
    }

    /// The parts of `range`, which arrived, that were not requested; none for a request of the end
    /// of a file, whose range is unknown.
    pub(crate) fn unasked(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let ranges = &self.request.ranges;
        let at = ranges.partition_point(|it| it.end <= range.start);
        let within =
            ranges.get(at).is_some_and(|it| it.start <= range.start && range.end <= it.end);
        if within || self.request.tail > 0 {
            return Vec::new();
        }
        range::difference(std::slice::from_ref(range), ranges)
    }

    /// Records bytes that arrived with the response to another request: if this request fails, they
    /// are not requested again. Most are gaps that a server sent, which no request names.
    pub(crate) fn received_elsewhere(&mut self, ranges: &[Range<u64>]) {
        let requested = &self.request.ranges;
        let concerns = |range: &&Range<u64>| {
            let at = requested.partition_point(|it| it.end <= range.start);
            requested.get(at).is_some_and(|it| it.start < range.end)
        };
        self.elsewhere.extend(ranges.iter().filter(concerns).cloned());
    }

    /// The request, less the half that was taken over, and the ranges that arrived.
    pub(crate) fn finish(self) -> (Request, Vec<Range<u64>>) {
        (self.request, range::merged(&[self.received, self.elsewhere].concat(), 0))
    }

    /// Returns true if the response is checked to be of the expected version.
    pub(crate) fn has_validator(&self) -> bool {
        self.request.validator.is_some()
    }

    /// Bytes that have not arrived yet.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.requested_bytes.saturating_sub(self.received_bytes)
    }

    /// Removes and returns the later half of the missing bytes, if it has at least `min_bytes`.
    pub(crate) fn give_half(&mut self, min_bytes: u64) -> Option<Request> {
        if self.request.tail > 0 || self.left_bytes() / 2 < min_bytes {
            return None;
        }
        let missing = self.missing();
        let half = self.split_off_half(&missing, range::total_bytes(&missing));
        Some(half).filter(|half| !half.ranges.is_empty())
    }

    fn missing(&self) -> Vec<Range<u64>> {
        range::difference(&self.request.ranges, &range::merged(&self.received, 0))
    }

    fn progress(&self) -> RequestProgress {
        RequestProgress {
            sent: self.sent,
            received_bytes: self.received_bytes,
            missing_bytes: self.left_bytes(),
        }
    }

    /// Splits off the later half of the missing bytes.
    fn split_off_half(&mut self, missing: &[Range<u64>], missing_bytes: u64) -> Request {
        let mut keep_bytes = missing_bytes / 2;
        let mut given = Vec::new();
        for range in missing {
            let kept = keep_bytes.min(range::len(range));
            keep_bytes -= kept;
            // A range is split only if it is the only one: a basket is useful only as a whole.
            match (kept == range::len(range), missing.len()) {
                (true, _) => {}
                (false, 1) => given.push(range.start + kept..range.end),
                (false, _) if kept == 0 => given.push(range.clone()),
                (false, _) => keep_bytes = 0,
            }
        }
        self.request.ranges = range::difference(&self.request.ranges, &given);
        self.requested_bytes = range::total_bytes(&self.request.ranges);
        self.split = true;
        Request { ranges: given, tail: 0, ..self.request.clone() }
    }
}

/// Splits the slowest of `requests` by [`SplitRule::READ`]; returns the request that an idle
/// connection should send.
pub(crate) fn split_slowest<'a>(
    requests: impl Iterator<Item = &'a mut InFlightRequest>,
    now: Duration,
    link: &LinkEstimate,
) -> Option<Request> {
    let latency = link.latency().filter(|_| is_wide(link))?;
    let requests = requests.filter(|request| request.request.tail == 0);
    let requests = requests.map(|request| (request.progress(), request));
    let slowest = SplitRule::READ.slowest(requests, now, latency)?;
    let missing = slowest.missing();
    Some(slowest.split_off_half(&missing, range::total_bytes(&missing)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::range::total_bytes;
    use proptest::prelude::*;

    fn link() -> LinkEstimate {
        LinkEstimate {
            rtt: Some(Duration::from_millis(20)),
            bandwidth: Some(12.5e6),
            ..LinkEstimate::default()
        }
    }

    /// A request for 400 baskets of a kilobyte, of which `done` have arrived.
    fn request(done: u64, sent: Duration) -> InFlightRequest {
        let ranges = (0..400).map(|i| i * 3000..i * 3000 + 1000).collect();
        let (abort, _) = AbortHandle::new_pair();
        let request = Request { ranges, ..Request::default() };
        let mut in_flight = InFlightRequest::new(request, sent, abort);
        for i in 0..done {
            in_flight.received(i * 3000..i * 3000 + 1000);
        }
        in_flight
    }

    #[test]
    fn only_bytes_that_were_requested_are_recorded_from_other_responses() {
        let mut in_flight = request(0, Duration::ZERO);
        for i in 0..400 {
            in_flight.received_elsewhere(&[i * 3000 + 1000..i * 3000 + 3000]);
        }
        assert_eq!(in_flight.elsewhere, []);
        in_flight.received_elsewhere(&[500..4000, 5000..6001]);
        let (request, arrived) = in_flight.finish();
        let left = range::difference(&request.ranges, &arrived);
        assert_eq!(left[..2], [0..500, 6001..7000]);
    }

    #[test]
    fn the_slowest_request_gives_up_its_second_half() {
        let now = Duration::from_millis(500);
        let mut requests = [request(350, Duration::ZERO), request(100, Duration::ZERO)];
        let taken = split_slowest(requests.iter_mut(), now, &link()).unwrap();
        assert_eq!(total_bytes(&taken.ranges), 150_000);
        assert_eq!(taken.ranges[0], 250 * 3000..250 * 3000 + 1000);
        assert_eq!(total_bytes(&requests[0].request.ranges), 400_000);
        assert_eq!(total_bytes(&requests[1].request.ranges), 250_000);
    }

    #[test]
    fn a_split_request_is_aborted_after_its_first_half() {
        let mut straggler = request(100, Duration::ZERO);
        split_slowest(std::iter::once(&mut straggler), Duration::from_millis(500), &link())
            .unwrap();
        for i in 100..249 {
            straggler.received(i * 3000..i * 3000 + 1000);
        }
        assert!(!straggler.abort.is_aborted());
        straggler.received(249 * 3000..249 * 3000 + 1000);
        assert!(straggler.abort.is_aborted());
    }

    #[test]
    fn requests_are_split_only_if_that_saves_time() {
        let now = Duration::from_millis(500);
        let narrow = LinkEstimate {
            rtt: Some(Duration::from_millis(2)),
            bandwidth: Some(1.25e6),
            ..LinkEstimate::default()
        };
        let long = LinkEstimate {
            rtt: Some(Duration::from_millis(240)),
            bandwidth: Some(32e6),
            ..LinkEstimate::default()
        };
        let short = LinkEstimate {
            rtt: Some(Duration::from_millis(1)),
            bandwidth: Some(1e9),
            ..LinkEstimate::default()
        };
        for (what, done, link) in [
            ("narrow path", 100, narrow),
            ("a busy server nearby", 100, short),
            ("soon done", 380, link()),
            ("round trips are longer than what is left", 200, long),
            ("nothing came yet", 0, link()),
        ] {
            let mut straggler = request(done, Duration::ZERO);
            assert!(split_slowest(std::iter::once(&mut straggler), now, &link).is_none(), "{what}");
        }
    }

    proptest! {
        #[test]
        fn splitting_loses_nothing(done in 1u64..399, ranges in 1u64..5) {
            let mut straggler = request(done, Duration::ZERO);
            straggler.request.ranges.truncate(usize::try_from(done + ranges).unwrap());
            let before = straggler.request.ranges.clone();
            let missing = straggler.missing();
            let given = straggler.split_off_half(&missing, total_bytes(&missing));
            let both = [straggler.request.ranges.clone(), given.ranges].concat();
            prop_assert_eq!(range::merged(&both, 0), range::merged(&before, 0));
            prop_assert_eq!(total_bytes(&both), total_bytes(&before));
        }
    }
}
