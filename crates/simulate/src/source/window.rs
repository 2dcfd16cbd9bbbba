//! Slow-start windows: a response leaves the server in windows that double, over a link that all
//! connections share. Pure; times are passed in.

use hither_core::source::link::INITIAL_WINDOW_BYTES;
use hither_netem::link::Link;
use std::time::Duration;

/// Bytes that a connection sends in its turn, where several share the link.
const TURN_BYTES: u64 = 16 << 10;
/// Minimum duration of a turn; on a fast link this is more than [`TURN_BYTES`].
const TURN: Duration = Duration::from_micros(500);
/// Minimum time, in addition to the round trip, after which the congestion window of an idle
/// connection is halved (RFC 6298, with the minimum of Linux).
const MIN_RTO: Duration = Duration::from_millis(200);

/// The shared direction from the server to the client.
#[derive(Debug, Clone)]
pub(super) struct SharedLink {
    link: Link,
    /// The time at which all bytes sent so far have left.
    free_at: Duration,
    /// Windows shrink while a connection is idle, and are limited by [`Link::each`].
    pub(super) restarts: bool,
    /// Maximum bytes of a turn.
    turn: u64,
}

impl SharedLink {
    pub(super) fn new(link: Link) -> Self {
        Self { link, free_at: Duration::ZERO, restarts: false, turn: u64::MAX }
    }

    /// Lets connections share the link in turns, instead of sending whole windows.
    pub(super) fn take_turns(&mut self) {
        self.turn = self.link.bandwidth.map_or(u64::MAX, |rate| {
            let bytes = u128::from(rate) * TURN.as_nanos() / 8_000_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX).max(TURN_BYTES)
        });
    }

    /// Sends bytes at `now`. Returns the times at which the first one leaves and the last one
    /// arrives.
    fn send(&mut self, now: Duration, bytes: u64) -> (Duration, Duration) {
        let start = self.free_at.max(now);
        self.free_at = start + self.link.serialisation(bytes);
        (start, self.free_at + self.link.one_way())
    }

    fn max_window(&self) -> u64 {
        if self.restarts && self.link.each.is_some() {
            // The queue in front of the limit holds one bandwidth-delay product.
            return (2 * self.link.own_queue_bytes()).max(INITIAL_WINDOW_BYTES);
        }
        u64::MAX
    }
}

/// The congestion window of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    bytes: u64,
    /// The time at which the last byte was sent.
    used: Duration,
}

/// The initial window: ten segments of 1,448 bytes (RFC 6928).
impl Default for Window {
    fn default() -> Self {
        Self { bytes: INITIAL_WINDOW_BYTES, used: Duration::ZERO }
    }
}

impl Window {
    /// Shrinks a window that was idle until `now` as Linux does: by half for each timeout.
    fn restart(&mut self, now: Duration, rtt: Duration) {
        let mut idle = now.saturating_sub(self.used);
        let timeout = rtt + MIN_RTO;
        while idle > timeout && self.bytes > INITIAL_WINDOW_BYTES {
            self.bytes = (self.bytes / 2).max(INITIAL_WINDOW_BYTES);
            idle -= timeout;
        }
    }
}

/// A response in flight: the bytes left to send.
#[derive(Debug)]
pub(super) struct Sending {
    left: u64,
    /// The earliest time of the next turn.
    pub(super) next: Duration,
    /// Bytes left of the window.
    window: u64,
    /// The response fills the congestion window.
    is_full: bool,
    /// The acknowledgement of the window's first byte.
    acknowledged: Duration,
    began: bool,
}

impl Sending {
    /// Starts a response of this many bytes to a request that leaves the client at `start`.
    pub(super) fn new(link: &Link, start: Duration, bytes: u64) -> Self {
        let next = start + link.one_way();
        Self { left: bytes, next, window: 0, is_full: false, acknowledged: next, began: false }
    }

    pub(super) fn done(&self) -> bool {
        self.left == 0
    }

    /// Sends the bytes that may leave in one turn. Returns their number and the time of their
    /// arrival.
    ///
    /// A full window doubles for the next round trip, as in slow start without losses. A window
    /// that was not full stays, because the connection did not need more.
    pub(super) fn send(&mut self, window: &mut Window, line: &mut SharedLink) -> (u64, Duration) {
        if !std::mem::replace(&mut self.began, true) && line.restarts {
            window.restart(self.next, line.link.rtt);
        }
        let opens = self.window == 0;
        if opens {
            self.window = self.left.min(window.bytes);
            self.is_full = self.window == window.bytes;
        }
        let bytes = self.window.min(line.turn);
        let (start, arrives) = line.send(self.next, bytes);
        if opens {
            // The acknowledgement of its first byte returns a round trip after that byte left.
            self.acknowledged = start + line.link.rtt;
        }
        self.window -= bytes;
        self.left -= bytes;
        self.next = line.free_at;
        window.used = line.free_at;
        if self.window == 0 {
            self.next = self.next.max(self.acknowledged);
            if self.is_full {
                window.bytes = window.bytes.saturating_mul(2).min(line.max_window());
            }
        }
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
            all.push(sending.send(window, &mut line));
        }
        all
    }

    #[test]
    fn windows_double_each_round_trip_and_are_kept() {
        let mut window = Window::default();
        let first = arrivals(Link::G, 14_480 * 7, &mut window);
        let expected = [(14_480, 240), (28_960, 480), (57_920, 720)];
        assert_eq!(first, expected.map(|(bytes, ms)| (bytes, ms * MS)));
        assert_eq!(arrivals(Link::G, 14_480 * 8, &mut window), [(115_840, 240 * MS)]);
    }

    #[test]
    fn unfilled_window_does_not_grow() {
        let mut window = Window::default();
        for _ in 0..5 {
            assert_eq!(arrivals(Link::G, 14_479, &mut window).len(), 1);
        }
        assert_eq!(window.bytes, 14_480);
    }

    #[test]
    fn seven_megabytes_over_one_connection_take_nine_round_trips() {
        let mut window = Window::default();
        let last = *arrivals(Link::G, 7_000_000, &mut window).last().unwrap();
        assert_eq!(last.1, 9 * 240 * MS);
    }

    #[test]
    fn rate_is_the_limit_once_windows_fill_it() {
        let mut window = Window::default();
        let last = *arrivals(Link::E, 7_000_000, &mut window).last().unwrap();
        // 560 ms for the bits, and a few round trips until the pipe is full.
        assert!(last.1 > 560 * MS && last.1 < 720 * MS, "{:?}", last.1);
    }

    #[test]
    fn an_idle_window_shrinks_where_the_kernel_restarts() {
        let rtt = Duration::from_millis(100);
        let mut line = SharedLink::new(Link::new(rtt, None));
        let mut window = Window { bytes: 14_480 * 8, used: Duration::ZERO };
        window.restart(rtt * 3, rtt);
        assert_eq!(window.bytes, 14_480 * 8);
        window.restart(rtt * 7, rtt);
        assert_eq!(window.bytes, 14_480 * 2);
        window.restart(Duration::from_secs(60), rtt);
        assert_eq!(window.bytes, 14_480);
        line.restarts = true;
        line.link.each = Some(8_000_000);
        assert_eq!(line.max_window(), 200_000);
    }

    #[test]
    fn responses_share_the_link_in_turns() {
        let link = Link::E;
        let mut line = SharedLink::new(link);
        line.take_turns();
        let mut large = Sending::new(&link, Duration::ZERO, 1_000_000);
        let mut small = Sending::new(&link, Duration::ZERO, 10_000);
        let mut window = Window { bytes: 1 << 20, used: Duration::ZERO };
        large.send(&mut window, &mut line);
        let (_, arrives) = small.send(&mut Window::default(), &mut line);
        assert_eq!(arrives, link.rtt + link.serialisation(TURN_BYTES + 10_000));
    }
}
