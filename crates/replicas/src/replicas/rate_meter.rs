//! The rate at which a replica sends bytes, over all its requests together.
//!
//! The rate is a moving average over windows of time in which requests were in flight. A window
//! without bytes lowers the rate while it lasts, so that a replica that hangs gets no more requests
//! long before one of them fails.

use hither_core::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The length of a window: a few round trips of most paths.
const WINDOW: Duration = Duration::from_millis(300);
/// The weight that is left to earlier windows after a window of that length.
const OLD_SHARE: f64 = 0.5;

#[derive(Debug, Default)]
pub(super) struct RateMeter {
    outstanding: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    since: Duration,
    bytes: u64,
    rate: Option<f64>,
}

impl Window {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn rate_at(&self, now: Duration) -> Option<f64> {
        let length = now.saturating_sub(self.since);
        if length < WINDOW {
            return self.rate;
        }
        let seen = self.bytes as f64 / length.as_secs_f64();
        let old_share = OLD_SHARE.powf(length.div_duration_f64(WINDOW));
        Some(self.rate.map_or(seen, |old| seen + old_share * (old - seen)))
    }
}

impl RateMeter {
    /// Counts a request for `bytes`. Where none was in flight (`was_idle`), a window begins.
    pub(super) fn request_sent(&self, bytes: u64, was_idle: bool, now: Duration) {
        self.outstanding.fetch_add(bytes, Ordering::Relaxed);
        if was_idle {
            let mut window = lock(&self.window);
            window.since = now;
            window.bytes = 0;
        }
    }

    /// Counts `bytes` that arrived.
    pub(super) fn arrived(&self, bytes: u64, now: Duration) {
        self.gave_up(bytes);
        let mut window = lock(&self.window);
        window.bytes += bytes;
        if now.saturating_sub(window.since) >= WINDOW {
            *window = Window { rate: window.rate_at(now), since: now, bytes: 0 };
        }
    }

    /// Counts `bytes` that were requested and will not arrive.
    pub(super) fn gave_up(&self, bytes: u64) {
        let less = |before: u64| Some(before.saturating_sub(bytes));
        let _always = self.outstanding.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Bytes that were requested and have not arrived.
    pub(super) fn outstanding_bytes(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Bytes per second; none before the first window has ended.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        let window = lock(&self.window);
        // Time without a request does not count.
        if self.outstanding_bytes() == 0 { window.rate } else { window.rate_at(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_lowers_the_rate_and_idle_time_does_not() {
        let meter = RateMeter::default();
        meter.request_sent(3_000, true, SECOND);
        assert_eq!(meter.rate(SECOND), None);
        meter.arrived(1_000, SECOND * 2);
        assert_eq!(meter.rate(SECOND * 2), Some(1_000.0));
        assert!(meter.rate(SECOND * 3).unwrap() < 150.0, "a second of silence");
        meter.gave_up(2_000);
        assert_eq!(meter.outstanding_bytes(), 0);
        assert_eq!(meter.rate(SECOND * 9), Some(1_000.0), "nothing was request_sent for");
        meter.request_sent(500, true, SECOND * 9);
        meter.arrived(500, SECOND * 10);
        let blended = meter.rate(SECOND * 10).unwrap();
        assert!((500.0..600.0).contains(&blended), "{blended}");
    }
}
