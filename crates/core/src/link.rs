//! What is known about the path to a server.

use std::time::Duration;

/// Bytes that a server sends before it hears back: ten segments (RFC 6928) of 1,448 bytes, what is left of an
/// Ethernet frame of 1,500 after the headers of IPv4 and of TCP with timestamps.
pub const INITIAL_WINDOW_BYTES: u64 = 10 * 1448;

/// Estimates of a path; `None` where nothing was measured yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkEstimate {
    /// Smallest round-trip time seen.
    pub rtt: Option<Duration>,
    /// Bottleneck bandwidth in bytes per second, as far as the arrivals show it. A path that was never filled is
    /// faster than this says.
    pub bandwidth: Option<f64>,
}

impl LinkEstimate {
    /// Bytes that fit on the path, if both figures are known.
    #[must_use]
    pub fn bandwidth_delay_bytes(&self) -> Option<f64> {
        Some(self.bandwidth? * self.rtt?.as_secs_f64())
    }
}

/// Bottleneck bandwidth from the arrival of a burst.
///
/// A server's first window leaves it back to back, so the bottleneck alone spaces it: bytes after the first read over
/// the time they took is the packet-train estimate (Dovrolis et al., "What do packet dispersion techniques measure?",
/// INFOCOM 2001). Two things blur it, and both make the path look slower than it is: a sender that paces (BBR spreads
/// its first window over about a third of a round trip) and a busy receiver. [`TrainEstimator::bandwidth`] therefore
/// gives no answer where the spread looks like pacing.
#[derive(Debug, Clone, Default)]
pub struct TrainEstimator {
    first: Option<Duration>,
    last: Duration,
    first_read_bytes: u64,
    bytes: u64,
}

impl TrainEstimator {
    /// Notes that `bytes` arrived at `now`.
    pub fn arrived(&mut self, now: Duration, bytes: u64) {
        if self.first.is_none() {
            self.first = Some(now);
            self.first_read_bytes = bytes;
        }
        self.last = now;
        self.bytes += bytes;
    }

    /// Bytes per second, or `None` where the burst was too short to tell, came at once, or looks paced for a path of
    /// this `rtt`.
    #[must_use]
    pub fn bandwidth(&self, rtt: Option<Duration>) -> Option<f64> {
        let spread = self.last.checked_sub(self.first?)?;
        let timed = self.bytes.saturating_sub(self.first_read_bytes);
        if timed < 2 * 1448 || spread.is_zero() {
            return None;
        }
        if rtt.is_some_and(|rtt| rtt >= PACING_RTT && spread >= rtt / 4) {
            return None;
        }
        // Precise: both are far below 2^53.
        #[expect(clippy::cast_precision_loss, reason = "bytes of one burst fit a double exactly")]
        Some(timed as f64 / spread.as_secs_f64())
    }
}

/// Below this round-trip time a paced first window is spread over so little that a slow link is the likelier cause.
const PACING_RTT: Duration = Duration::from_millis(20);
