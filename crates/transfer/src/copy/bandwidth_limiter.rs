//! The bandwidth limit of a copy, across all of its connections.
//!
//! Bytes that have arrived are taken from a token bucket, and while that is in debt no worker asks
//! its connection for more: the kernel's buffers fill up and TCP stops the sender, as with
//! [`super::memory_budget`]. What is uploaded arrives first, from wherever it comes, so the same
//! place limits both directions.

use crate::destination::Target;
use crate::file::CopyItem;
use crate::options::BandwidthLimit;
use hither_core::sync::lock;
use hither_core::tune::bandwidth::{BandwidthRates, TokenBucket};
use std::sync::Mutex;
use std::time::Duration;

/// Interval at which the timetable is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes per second that are worth a worker of their own: with less, a connection would stand
/// still for longer than servers bear.
const BYTES_PER_WORKER: u64 = 64 << 10;

/// The directions in which a file moves through this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directions {
    down: bool,
    up: bool,
}

impl Directions {
    pub(crate) fn of(item: &CopyItem) -> Self {
        Self { down: item.local.is_none(), up: matches!(item.target, Target::Remote(..)) }
    }
}

#[derive(Debug)]
pub(crate) struct BandwidthLimiter {
    limit: Option<BandwidthLimit>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    up: TokenBucket,
    down: TokenBucket,
    rates: BandwidthRates,
    looked_at: Option<Duration>,
}

impl BandwidthLimiter {
    pub(crate) fn new(limit: Option<BandwidthLimit>) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// Takes `bytes` that have moved.
    pub(crate) fn take(&self, bytes: u64, directions: Directions, now: Duration) {
        let Some(limit) = &self.limit else { return };
        let mut state = lock(&self.state);
        state.look(limit, now);
        if directions.down {
            state.down.take(bytes, now);
        }
        if directions.up {
            state.up.take(bytes, now);
        }
    }

    /// Time until more may move.
    pub(crate) fn wait(&self, directions: Directions, now: Duration) -> Duration {
        let Some(limit) = &self.limit else { return Duration::ZERO };
        let mut state = lock(&self.state);
        state.look(limit, now);
        let down = if directions.down { state.down.wait(now) } else { Duration::ZERO };
        let up = if directions.up { state.up.wait(now) } else { Duration::ZERO };
        // A rate that rises meanwhile is noticed.
        down.max(up).min(LOOK_INTERVAL)
    }

    /// The most workers that the rate at the moment keeps going.
    pub(crate) fn max_workers(&self, directions: Directions, now: Duration) -> usize {
        let Some(limit) = &self.limit else { return usize::MAX };
        let mut state = lock(&self.state);
        state.look(limit, now);
        let down = state.rates.down.filter(|_| directions.down);
        let up = state.rates.up.filter(|_| directions.up);
        let rate = down.into_iter().chain(up).min();
        let workers = rate.map(|rate| usize::try_from(rate / BYTES_PER_WORKER));
        workers.and_then(Result::ok).unwrap_or(usize::MAX).max(1)
    }
}

impl State {
    fn look(&mut self, limit: &BandwidthLimit, now: Duration) {
        if self.looked_at.is_some_and(|at| now < at + LOOK_INTERVAL) {
            return;
        }
        self.looked_at = Some(now);
        self.rates = limit.timetable.rates_at((limit.minute_of_week)());
        self.up.set_rate(self.rates.up);
        self.down.set_rate(self.rates.down);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_without_a_limit_does_not_wait() {
        let timetable = "off:1K".parse().unwrap();
        let limiter =
            BandwidthLimiter::new(Some(BandwidthLimit { timetable, minute_of_week: || 0 }));
        let down = Directions { down: true, up: false };
        let up = Directions { down: false, up: true };
        limiter.take(10_240, down, Duration::ZERO);
        limiter.take(10_240, up, Duration::ZERO);
        assert_eq!(limiter.wait(up, Duration::ZERO), Duration::ZERO);
        assert_eq!(limiter.wait(down, Duration::ZERO), LOOK_INTERVAL);
        assert_eq!(limiter.wait(down, Duration::from_millis(9_900)), Duration::from_millis(100));
        assert_eq!(limiter.max_workers(down, Duration::ZERO), 1);
        assert_eq!(limiter.max_workers(up, Duration::ZERO), usize::MAX);
    }
}
