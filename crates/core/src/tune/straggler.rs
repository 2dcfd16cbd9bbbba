//! Relief for the request that everything waits for.
//!
//! On a path that several connections fill together, shares are equal but connections are not: one that lost packets early has half
//! the window of the others and is still at it when they are done, with most of the path empty. Whoever is idle then
//! takes over the later half of what the slowest request still owes. Servers answer ranges in the order asked, so the
//! later half is the part that has not been sent yet; when the earlier half has arrived, the request is cut off, and with
//! it its connection.
//!
//! That costs a round trip, a request, and what the straggler has under way at the end. So it is done only for one in four
//! connections (two at the least), and
//!
//! - on paths that one connection does not fill by itself ([`WIDE_PATH_BYTES`]): on others, whoever is left has all of it;
//! - once windows have stopped doubling ([`SLOW_START_ROUND_TRIPS`]): before, a connection's past says little of its future;
//! - if the straggler, at the speed it has had, will need longer than [`ROUND_TRIPS`] round trips more;
//! - if what is left is worth a request ([`MIN_RELIEF_BYTES`]).

use crate::source::Request;
use crate::tune::link::INITIAL_WINDOW_BYTES;
use crate::{LinkEstimate, range};
use futures_util::future::AbortHandle;
use std::ops::Range;
use std::time::Duration;

/// Bandwidth-delay product, in bytes, below which a connection that is alone fills the path within a round trip or two.
const WIDE_PATH_BYTES: f64 = 4.0 * INITIAL_WINDOW_BYTES as f64;
/// Time that a straggler must still need: one round trip for the relief to arrive, and as much again to gain from it.
const ROUND_TRIPS: f64 = 2.0;
/// Round trips after which a window is as large as the path lets it be: it has doubled from ten segments to 2,500.
const SLOW_START_ROUND_TRIPS: u32 = 8;
/// Smallest share taken over: what a new connection may send at once.
const MIN_RELIEF_BYTES: u64 = INITIAL_WINDOW_BYTES;

/// A request under way.
#[derive(Debug)]
pub(crate) struct InFlightRequest {
    request: Request,
    received: Vec<Range<u64>>,
    /// What came with the answers to others.
    elsewhere: Vec<Range<u64>>,
    /// Sums of the two, so that looking for a straggler costs nothing.
    asked_bytes: u64,
    received_bytes: u64,
    sent: Duration,
    cut_off: AbortHandle,
    relieved: bool,
}

impl InFlightRequest {
    pub(crate) fn new(request: Request, sent: Duration, cut_off: AbortHandle) -> Self {
        let asked_bytes = range::total_bytes(&request.ranges);
        Self {
            request,
            received: Vec::new(),
            elsewhere: Vec::new(),
            asked_bytes,
            received_bytes: 0,
            sent,
            cut_off,
            relieved: false,
        }
    }

    /// Notes bytes that arrived. A request that was relieved is cut off when it has delivered what was left to it.
    pub(crate) fn received(&mut self, range: Range<u64>) {
        self.received_bytes += range::len(&range);
        match self.received.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.received.push(range),
        }
        if self.relieved && self.missing().is_empty() {
            self.cut_off.abort();
        }
    }

    /// What of `range`, which arrived, was not asked for. Of the end of a file nothing is known.
    pub(crate) fn unasked(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let ranges = &self.request.ranges;
        let at = ranges.partition_point(|it| it.end <= range.start);
        let within =
            ranges.get(at).is_some_and(|it| it.start <= range.start && range.end <= it.end);
        match within || self.request.tail > 0 {
            true => Vec::new(),
            false => range::difference(std::slice::from_ref(range), ranges),
        }
    }

    /// Notes that bytes arrived with the answer to another request: if this one fails, they need not be asked for again.
    pub(crate) fn came_elsewhere(&mut self, ranges: &[Range<u64>]) {
        self.elsewhere.extend_from_slice(ranges);
        self.elsewhere = range::merged(&self.elsewhere, 0);
    }

    /// What was asked for, less what was taken over, and what arrived.
    pub(crate) fn finish(self) -> (Request, Vec<Range<u64>>) {
        (self.request, range::merged(&[self.received, self.elsewhere].concat(), 0))
    }

    /// Whether the answer is checked to be of the version that was meant.
    pub(crate) fn has_validator(&self) -> bool {
        self.request.validator.is_some()
    }

    /// What has not arrived of it, in bytes.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.asked_bytes.saturating_sub(self.received_bytes)
    }

    fn missing(&self) -> Vec<Range<u64>> {
        range::difference(&self.request.ranges, &range::merged(&self.received, 0))
    }

    /// Time that the rest will take at the speed of what came so far; `None` while that cannot be told.
    fn remaining(&self, now: Duration, rtt: Duration) -> Option<Duration> {
        let active = now.checked_sub(self.sent + rtt)?;
        if active < rtt * SLOW_START_ROUND_TRIPS {
            return None;
        }
        let missing = self.left_bytes();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let ratio = missing as f64 / self.received_bytes as f64;
        (self.received_bytes > 0).then(|| active.mul_f64(ratio.min(1e6)))
    }

    /// Gives away the later half of what is missing.
    fn give_half(&mut self, missing: &[Range<u64>], missing_bytes: u64) -> Request {
        let mut keep_bytes = missing_bytes / 2;
        let mut given = Vec::new();
        for range in missing {
            let kept = keep_bytes.min(range::len(range));
            keep_bytes -= kept;
            // A range is given whole unless it is the only one: pieces of a basket are of no use apart.
            match (kept == range::len(range), missing.len()) {
                (true, _) => {}
                (false, 1) => given.push(range.start + kept..range.end),
                (false, _) if kept == 0 => given.push(range.clone()),
                (false, _) => keep_bytes = 0,
            }
        }
        self.request.ranges = range::difference(&self.request.ranges, &given);
        self.asked_bytes = range::total_bytes(&self.request.ranges);
        self.relieved = true;
        Request { ranges: given, tail: 0, ..self.request.clone() }
    }
}

/// Takes part of the slowest of `requests` off it, if that pays: the request that an idle connection should send.
pub(crate) fn split_slowest<'a>(
    requests: impl Iterator<Item = &'a mut InFlightRequest>,
    now: Duration,
    link: &LinkEstimate,
) -> Option<Request> {
    let rtt = link.rtt?;
    if link.bandwidth_delay_bytes()? < WIDE_PATH_BYTES {
        return None;
    }
    let worth_it = rtt.mul_f64(ROUND_TRIPS);
    let (_, slowest) = requests
        .filter(|request| request.request.tail == 0)
        .filter_map(|request| Some((request.remaining(now, rtt)?, request)))
        .filter(|(remaining, _)| *remaining > worth_it)
        .max_by_key(|(remaining, _)| *remaining)?;
    let missing = slowest.missing();
    let missing_bytes = range::total_bytes(&missing);
    (missing_bytes >= 2 * MIN_RELIEF_BYTES).then(|| slowest.give_half(&missing, missing_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::total_bytes;
    use proptest::prelude::*;

    fn link() -> LinkEstimate {
        LinkEstimate { rtt: Some(Duration::from_millis(20)), bandwidth: Some(12.5e6) }
    }

    /// A request for 400 baskets of a kilobyte, of which `done` have arrived.
    fn request(done: u64, sent: Duration) -> InFlightRequest {
        let ranges = (0..400).map(|i| i * 3000..i * 3000 + 1000).collect();
        let (cut_off, _) = AbortHandle::new_pair();
        let request = Request { ranges, tail: 0, validator: None, size: None };
        let mut in_flight = InFlightRequest::new(request, sent, cut_off);
        for i in 0..done {
            in_flight.received(i * 3000..i * 3000 + 1000);
        }
        in_flight
    }

    #[test]
    fn the_slowest_gives_the_later_half() {
        let now = Duration::from_millis(500);
        let mut requests = [request(350, Duration::ZERO), request(100, Duration::ZERO)];
        let relief = split_slowest(requests.iter_mut(), now, &link()).unwrap();
        assert_eq!(total_bytes(&relief.ranges), 150_000);
        assert_eq!(relief.ranges[0], 250 * 3000..250 * 3000 + 1000);
        assert_eq!(total_bytes(&requests[0].request.ranges), 400_000);
        assert_eq!(total_bytes(&requests[1].request.ranges), 250_000);
    }

    #[test]
    fn a_relieved_request_is_cut_off_when_its_half_has_come() {
        let mut straggler = request(100, Duration::ZERO);
        split_slowest(std::iter::once(&mut straggler), Duration::from_millis(500), &link())
            .unwrap();
        for i in 100..249 {
            straggler.received(i * 3000..i * 3000 + 1000);
        }
        assert!(!straggler.cut_off.is_aborted());
        straggler.received(249 * 3000..249 * 3000 + 1000);
        assert!(straggler.cut_off.is_aborted());
    }

    #[test]
    fn no_relief_where_it_cannot_pay() {
        let now = Duration::from_millis(500);
        let narrow = LinkEstimate { rtt: Some(Duration::from_millis(2)), bandwidth: Some(1.25e6) };
        let long = LinkEstimate { rtt: Some(Duration::from_millis(240)), bandwidth: Some(32e6) };
        for (what, done, link) in [
            ("narrow path", 100, narrow),
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
        fn giving_half_loses_nothing(done in 1u64..399, ranges in 1u64..5) {
            let mut straggler = request(done, Duration::ZERO);
            straggler.request.ranges.truncate(usize::try_from(done + ranges).unwrap());
            let before = straggler.request.ranges.clone();
            let missing = straggler.missing();
            let given = straggler.give_half(&missing, total_bytes(&missing));
            let both = [straggler.request.ranges.clone(), given.ranges].concat();
            prop_assert_eq!(range::merged(&both, 0), range::merged(&before, 0));
            prop_assert_eq!(total_bytes(&both), total_bytes(&before));
        }
    }
}
