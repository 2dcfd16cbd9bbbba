//! The part of a long range that is requested ahead of the bytes that have arrived.
//!
//! The protocol cannot cancel a request: a server sends all of a range after its read was
//! cancelled, and a session that takes over half of a slow piece of a copy would first have to
//! receive the rest of its own. So a long range is requested in pieces, as many as the session
//! transfers in two round trips: the requests in flight fill the path, also while the sender's
//! window still doubles, and little is left to receive after a cancelled read.

use std::ops::Range;
use std::time::Duration;
use tokio::time::Instant;

/// The size of one request in bytes.
const PIECE_BYTES: u64 = 128 * 1024;
/// The size on a path shorter than [`SHORT_RTT`], where a request costs more than the rest of a
/// cancelled read.
const SHORT_PATH_PIECE_BYTES: u64 = 1024 * 1024;
const SHORT_RTT: Duration = Duration::from_millis(1);
/// The minimum number of requests in flight: more than the first windows of a session.
const MIN_PIECES: u64 = 4;

/// The window of a session.
#[derive(Debug)]
pub(super) struct ReadWindow {
    rtt: Duration,
    piece_bytes: u64,
    /// Bytes received since then.
    since: Instant,
    bytes: u64,
    /// Bytes received in the last round trip.
    last_bytes: u64,
}

impl ReadWindow {
    /// The window of a session that has received nothing.
    pub(super) fn new(rtt: Duration) -> Self {
        let piece_bytes = if rtt < SHORT_RTT { SHORT_PATH_PIECE_BYTES } else { PIECE_BYTES };
        Self { rtt, piece_bytes, since: Instant::now(), bytes: 0, last_bytes: 0 }
    }

    /// Counts received bytes.
    pub(super) fn received(&mut self, bytes: usize, now: Instant) {
        self.bytes += bytes as u64;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= self.rtt {
            let share = self.rtt.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "an estimate"
            )]
            let in_round_trip = (self.bytes as f64 * share) as u64;
            // A pause between two requests is not a reason for a smaller window.
            self.last_bytes = in_round_trip.max(self.last_bytes / 2);
            (self.since, self.bytes) = (now, 0);
        }
    }

    /// The ranges to request at first, and the rest of a long one.
    pub(super) fn first(&self, ranges: &[Range<u64>]) -> (Vec<Range<u64>>, Range<u64>) {
        let [range] = ranges else { return (ranges.to_vec(), 0..0) };
        let mut rest = range.clone();
        let mut first = Vec::new();
        while let Some(piece) = self.next(first.len(), &mut rest) {
            first.push(piece);
        }
        (first, rest)
    }

    /// The next piece to request of `rest`, while this number of requests is in flight.
    pub(super) fn next(&self, under_way: usize, rest: &mut Range<u64>) -> Option<Range<u64>> {
        let pieces = (2 * self.last_bytes / self.piece_bytes + 1).max(MIN_PIECES);
        if rest.is_empty() || under_way as u64 >= pieces {
            return None;
        }
        // A short end does not get a request of its own.
        let left = rest.end - rest.start;
        let bytes = if left < 2 * self.piece_bytes { left } else { self.piece_bytes };
        let piece = rest.start..rest.start + bytes;
        rest.start = piece.end;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_long_range_is_requested_as_it_arrives() {
        let mut window = ReadWindow::new(RTT);
        let (first, mut rest) = window.first(&[0..100 * PIECE_BYTES]);
        assert_eq!((first.len(), rest.start), (4, 4 * PIECE_BYTES));
        assert_eq!(window.next(4, &mut rest), None);
        assert_eq!(window.next(3, &mut rest), Some(4 * PIECE_BYTES..5 * PIECE_BYTES));
        // A session that transfers four pieces in a round trip gets eight, and one more.
        let mut now = Instant::now();
        for _ in 0..3 {
            now += RTT;
            window.received(4 * 128 * 1024, now);
        }
        let (first, _) = window.first(&[0..100 * PIECE_BYTES]);
        assert!((8..=9).contains(&first.len()), "{}", first.len());
    }

    #[test]
    fn short_and_several_ranges_are_requested_at_once() {
        let window = ReadWindow::new(RTT);
        for ranges in [vec![], vec![5..200_000], vec![0..9_000_000, 10_000_000..90_000_000]] {
            let (first, rest) = window.first(&ranges);
            assert_eq!((first, rest.is_empty()), (ranges, true));
        }
    }
}
