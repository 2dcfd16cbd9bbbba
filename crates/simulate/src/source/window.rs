//! Slow-start windows: a response leaves the server in windows that double, over a link that all
//! connections share. Pure; times are passed in.

use crate::link::Link;
use hither_core::tune::link::INITIAL_WINDOW_BYTES;
use std::time::Duration;

/// The shared direction from the server to the client.
#[derive(Debug, Clone)]
pub(super) struct SharedLink {
    link: Link,
    /// The time at which everything sent has left.
    free_at: Duration,
}

impl SharedLink {
    pub(super) fn new(link: Link) -> Self {
        Self { link, free_at: Duration::ZERO }
    }

    /// Sends bytes at `now`. Returns the times at which the first one leaves and the last one
    /// arrives.
    fn send(&mut self, now: Duration, bytes: u64) -> (Duration, Duration) {
        let start = self.free_at.max(now);
        self.free_at = start + self.link.serialisation(bytes);
        (start, self.free_at + self.link.one_way())
    }
}

/// The congestion window of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    bytes: u64,
}

impl Window {
    /// The initial window: ten segments of 1,448 bytes (RFC 6928).
    pub(super) const INITIAL: Self = Self { bytes: INITIAL_WINDOW_BYTES };
}

/// A response in flight: the bytes left to send.
#[derive(Debug)]
pub(super) struct Sending {
    left: u64,
    /// The earliest time of the next window.
    pub(super) next: Duration,
}

impl Sending {
    /// Starts a response of this many bytes to a request that leaves the client at `start`.
    pub(super) fn new(link: &Link, start: Duration, bytes: u64) -> Self {
        Self { left: bytes, next: start + link.one_way() }
    }

    pub(super) fn done(&self) -> bool {
        self.left == 0
    }

    /// Sends the next window. Returns its bytes and the time of their arrival.
    ///
    /// A full window doubles for the next round trip, as in slow start without losses. A window
    /// that was not full stays, because the connection did not need more.
    pub(super) fn send_window(
        &mut self,
        window: &mut Window,
        line: &mut SharedLink,
    ) -> (u64, Duration) {
        let bytes = self.left.min(window.bytes);
        let (left, arrives) = line.send(self.next, bytes);
        if bytes == window.bytes {
            window.bytes = window.bytes.saturating_mul(2);
        }
        self.left -= bytes;
        // The acknowledgement of its first byte returns a round trip after that byte left.
        self.next = left + line.link.rtt;
        (bytes, arrives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn arrivals(link: Link, bytes: u64, window: &mut Window) -> Vec<(u64, Duration)> {
        let mut line = SharedLink::new(link);
        let mut sending = Sending::new(&link, Duration::ZERO, bytes);
        let mut all = Vec::new();
        while !sending.done() {
            all.push(sending.send_window(window, &mut line));
        }
        all
    }

    #[test]
    fn windows_double_each_round_trip_and_are_kept() {
        let mut window = Window::INITIAL;
        let first = arrivals(Link::G, 14_480 * 7, &mut window);
        let expected = [(14_480, 240), (28_960, 480), (57_920, 720)];
        assert_eq!(first, expected.map(|(bytes, ms)| (bytes, ms * MS)));
        assert_eq!(arrivals(Link::G, 14_480 * 8, &mut window), [(115_840, 240 * MS)]);
    }

    #[test]
    fn unfilled_window_does_not_grow() {
        let mut window = Window::INITIAL;
        for _ in 0..5 {
            assert_eq!(arrivals(Link::G, 14_479, &mut window).len(), 1);
        }
        assert_eq!(window.bytes, 14_480);
    }

    #[test]
    fn seven_megabytes_over_one_connection_take_nine_round_trips() {
        let mut window = Window::INITIAL;
        let last = *arrivals(Link::G, 7_000_000, &mut window).last().unwrap();
        assert_eq!(last.1, 9 * 240 * MS);
    }

    #[test]
    fn rate_is_the_limit_once_windows_fill_it() {
        let mut window = Window::INITIAL;
        let last = *arrivals(Link::E, 7_000_000, &mut window).last().unwrap();
        // 560 ms for the bits, and a few round trips until the pipe is full.
        assert!(last.1 > 560 * MS && last.1 < 720 * MS, "{:?}", last.1);
    }
}
