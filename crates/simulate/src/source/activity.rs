//! Causes of a reader's wait, from the phases of its last request and of the link during the wait.
//!
//! A reader's wait ends when the last byte that it needs arrives. The request that delivered this
//! byte passes through phases: its connection opens, a round trip, the server's time, then bytes
//! arrive. While bytes arrive, there are two cases. Either the link is busy, with this response or
//! another, and only a faster path helps. Or all responses wait for the acknowledgement of a
//! congestion window. The part of the wait before that request was sent was spent on other
//! requests.

use serde::Serialize;
use std::ops::{AddAssign, Range};
use std::time::Duration;

/// Time that readers waited, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WaitCauses {
    /// Handshakes of new connections, and time in which all connections were busy.
    #[serde(rename = "connect_seconds", serialize_with = "seconds")]
    pub connect: Duration,
    /// Round trips of requests.
    #[serde(rename = "round_trip_seconds", serialize_with = "seconds")]
    pub round_trips: Duration,
    /// The server, before the first byte of a response.
    #[serde(rename = "server_seconds", serialize_with = "seconds")]
    pub server: Duration,
    /// Congestion windows smaller than the bandwidth-delay product: slow start.
    #[serde(rename = "window_seconds", serialize_with = "seconds")]
    pub window: Duration,
    /// Bytes that arrive at the rate of the path, of this response or another.
    #[serde(rename = "transfer_seconds", serialize_with = "seconds")]
    pub transfer: Duration,
    /// Requests before the last one.
    #[serde(rename = "other_seconds", serialize_with = "seconds")]
    pub other: Duration,
}

fn seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

impl WaitCauses {
    /// Sum of the causes.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.named().iter().map(|(_, time)| *time).sum()
    }

    /// The causes with their names.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Duration); 6] {
        [
            ("connect", self.connect),
            ("round trips", self.round_trips),
            ("server", self.server),
            ("window", self.window),
            ("transfer", self.transfer),
            ("other requests", self.other),
        ]
    }
}

impl AddAssign for WaitCauses {
    fn add_assign(&mut self, more: Self) {
        self.connect += more.connect;
        self.round_trips += more.round_trips;
        self.server += more.server;
        self.window += more.window;
        self.transfer += more.transfer;
        self.other += more.other;
    }
}

/// The phases of all requests, and the times at which the link delivered.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// By the request's number in the log.
    requests: Vec<Phases>,
    /// The arrival times of bytes, with their request; ascending.
    arrivals: Vec<(Duration, usize)>,
    /// Intervals in which the link delivered bytes, disjoint and ascending, each with the total
    /// length of the previous ones.
    busy: Vec<(Range<Duration>, Duration)>,
}

/// The times at which the phases of a request end.
#[derive(Debug, Clone, Copy)]
struct Phases {
    taken: Duration,
    sent: Duration,
    round_trip: Duration,
    first_byte: Duration,
}

impl Activity {
    /// Records that a request got its connection at `taken`, and was sent at `sent`.
    pub(super) fn requested(
        &mut self,
        taken: Duration,
        sent: Duration,
        rtt: Duration,
        server: Duration,
    ) {
        let round_trip = sent + rtt;
        let first_byte = round_trip + server;
        self.requests.push(Phases { taken, sent, round_trip, first_byte });
    }

    /// Records that bytes of a request will have arrived at `end`, after they occupied the link for
    /// `took`. Must be called in the order in which the bytes leave the server.
    pub(super) fn arrives(&mut self, request: usize, end: Duration, took: Duration) {
        self.arrivals.push((end, request));
        let start = end.saturating_sub(took);
        match self.busy.last_mut() {
            Some((last, _)) if last.end >= start => last.end = last.end.max(end),
            last => {
                let before = last.map(|(last, sum)| *sum + (last.end - last.start));
                self.busy.push((start..end, before.unwrap_or_default()));
            }
        }
    }

    pub(super) fn causes(&self, start: Duration, end: Duration) -> WaitCauses {
        let after = self.arrivals.partition_point(|(at, _)| *at <= end);
        let last = after.checked_sub(1).and_then(|last| self.arrivals.get(last));
        let Some(phases) = last.and_then(|(_, request)| self.requests.get(*request)) else {
            return WaitCauses { other: end.saturating_sub(start), ..WaitCauses::default() };
        };
        let within = |from: Duration, to: Duration| {
            to.clamp(start, end).saturating_sub(from.clamp(start, end))
        };
        let arriving = within(phases.first_byte, end);
        let transfer = self.busy_within(phases.first_byte.clamp(start, end), end).min(arriving);
        WaitCauses {
            other: within(start, phases.taken),
            connect: within(phases.taken, phases.sent),
            round_trips: within(phases.sent, phases.round_trip),
            server: within(phases.round_trip, phases.first_byte),
            window: arriving - transfer,
            transfer,
        }
    }

    fn busy_within(&self, start: Duration, end: Duration) -> Duration {
        self.busy_before(end).saturating_sub(self.busy_before(start))
    }

    /// Time before `at` in which the link delivered bytes.
    fn busy_before(&self, at: Duration) -> Duration {
        let after = self.busy.partition_point(|(interval, _)| interval.start < at);
        let last = after.checked_sub(1).and_then(|last| self.busy.get(last));
        last.map_or(Duration::ZERO, |(interval, before)| {
            *before + interval.end.min(at).saturating_sub(interval.start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_wait_is_divided_among_the_phases_of_the_last_request() {
        let mut activity = Activity::default();
        activity.requested(10 * MS, 20 * MS, 10 * MS, 2 * MS);
        activity.arrives(0, 35 * MS, 3 * MS);
        activity.arrives(0, 50 * MS, 4 * MS);
        let causes = activity.causes(5 * MS, 50 * MS);
        let expected = WaitCauses {
            connect: 10 * MS,
            round_trips: 10 * MS,
            server: 2 * MS,
            window: 11 * MS,
            transfer: 7 * MS,
            other: 5 * MS,
        };
        assert_eq!((causes, causes.total()), (expected, 45 * MS));
        // A wait that began while the request was in flight, and ended before the second burst.
        let late = activity.causes(29 * MS, 35 * MS);
        assert_eq!((late.round_trips, late.server, late.transfer), (MS, 2 * MS, 3 * MS));
        assert_eq!(late.total(), 6 * MS);
    }

    #[test]
    fn bytes_of_other_responses_occupy_the_link() {
        let mut activity = Activity::default();
        activity.requested(Duration::ZERO, Duration::ZERO, MS, Duration::ZERO);
        activity.requested(Duration::ZERO, Duration::ZERO, MS, Duration::ZERO);
        activity.arrives(0, 9 * MS, 8 * MS);
        activity.arrives(1, 11 * MS, 2 * MS);
        let causes = activity.causes(Duration::ZERO, 11 * MS);
        assert_eq!((causes.round_trips, causes.transfer), (MS, 10 * MS));
        let nothing = Activity::default().causes(MS, 3 * MS);
        assert_eq!((nothing.other, nothing.total()), (2 * MS, 2 * MS));
    }
}
