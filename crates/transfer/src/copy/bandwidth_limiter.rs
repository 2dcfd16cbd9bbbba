//! The bandwidth limit of a copy, or of several together, across all connections.
//!
//! Bytes that have arrived are taken from a token bucket. While the bucket is in debt, no worker
//! reads its connection: the kernel's buffers fill up and TCP stops the sender, as with
//! [`super::resources::memory_budget`]. Bytes to be uploaded arrive from their source first, so the
//! same limiter serves both directions.

use futures_core::future::BoxFuture;
use hither_core::Clock;
use hither_core::sync::lock;
use hither_load::bandwidth::{BandwidthRates, BandwidthTimetable, TokenBucket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Interval at which the timetable is read.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes per second for each worker: with less, a connection would be idle for longer than servers
/// tolerate.
const BYTES_PER_WORKER: u64 = 64 << 10;

/// The directions in which a file moves through this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directions {
    pub(crate) down: bool,
    pub(crate) up: bool,
}

/// A limit of bandwidth that changes with the time of the week.
#[derive(Debug, Clone)]
pub struct BandwidthLimit {
    /// The rates.
    pub timetable: BandwidthTimetable,
    /// Returns the minute of the week by the user's clock; a week begins on Sunday at midnight.
    pub minute_of_week: fn() -> u32,
}

/// A limit of bandwidth. Copies whose options have the same limiter share its rate.
#[derive(Debug)]
pub struct BandwidthLimiter {
    source: RateSource,
    /// A clock of its own, because each file has another origin of time.
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// The source of the rates.
#[derive(Debug)]
enum RateSource {
    Timetable(BandwidthLimit),
    /// Calls of [`BandwidthLimiter::set_rate`].
    Caller,
}

#[derive(Debug, Default)]
struct State {
    up: TokenBucket,
    down: TokenBucket,
    rates: BandwidthRates,
    looked_at: Option<Duration>,
}

impl BandwidthLimiter {
    /// A limiter with the rates of a timetable.
    #[must_use]
    pub fn new(limit: BandwidthLimit, clock: Arc<dyn Clock>) -> Self {
        Self { source: RateSource::Timetable(limit), clock, state: Mutex::default() }
    }

    /// A limiter with `rate`, in bytes per second, in each direction.
    #[must_use]
    pub fn with_rate(rate: u64, clock: Arc<dyn Clock>) -> Self {
        let limiter = Self { source: RateSource::Caller, clock, state: Mutex::default() };
        limiter.set_rate(rate);
        limiter
    }

    /// Changes the rate from now on. Without effect if there is a timetable.
    pub fn set_rate(&self, rate: u64) {
        if matches!(self.source, RateSource::Caller) {
            lock(&self.state).set_rates(BandwidthRates { up: Some(rate), down: Some(rate) });
        }
    }

    /// Takes `bytes` that have moved.
    pub(crate) fn take(&self, bytes: u64, directions: Directions) {
        let now = self.clock.now();
        let mut state = self.state_at(now);
        if directions.down {
            state.down.take(bytes, now);
        }
        if directions.up {
            state.up.take(bytes, now);
        }
    }

    /// A pause until more may move; none if it may now.
    pub(crate) fn pause(&self, directions: Directions) -> Option<BoxFuture<'static, ()>> {
        let wait = self.wait(directions);
        (!wait.is_zero()).then(|| self.clock.sleep(wait))
    }

    fn wait(&self, directions: Directions) -> Duration {
        let now = self.clock.now();
        let state = self.state_at(now);
        let down = if directions.down { state.down.wait(now) } else { Duration::ZERO };
        let up = if directions.up { state.up.wait(now) } else { Duration::ZERO };
        // A rate that rises meanwhile is noticed.
        down.max(up).min(LOOK_INTERVAL)
    }

    /// The largest number of workers that the present rate keeps busy.
    pub(crate) fn max_workers(&self, directions: Directions) -> usize {
        let state = self.state_at(self.clock.now());
        let down = state.rates.down.filter(|_| directions.down);
        let up = state.rates.up.filter(|_| directions.up);
        let rate = down.into_iter().chain(up).min();
        let workers = rate.map(|rate| usize::try_from(rate / BYTES_PER_WORKER));
        workers.and_then(Result::ok).unwrap_or(usize::MAX).max(1)
    }

    /// The state with the rates of `now`.
    fn state_at(&self, now: Duration) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        if let RateSource::Timetable(limit) = &self.source {
            state.look(limit, now);
        }
        state
    }
}

impl State {
    fn look(&mut self, limit: &BandwidthLimit, now: Duration) {
        if self.looked_at.is_some_and(|at| now < at + LOOK_INTERVAL) {
            return;
        }
        self.looked_at = Some(now);
        self.set_rates(limit.timetable.rates_at((limit.minute_of_week)()));
    }

    fn set_rates(&mut self, rates: BandwidthRates) {
        self.rates = rates;
        self.up.set_rate(rates.up);
        self.down.set_rate(rates.down);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_transport::MonotonicClock;

    const DOWN: Directions = Directions { down: true, up: false };
    const UP: Directions = Directions { down: false, up: true };

    #[tokio::test(start_paused = true)]
    async fn a_direction_without_a_limit_does_not_wait() {
        let timetable = "off:1K".parse().unwrap();
        let limit = BandwidthLimit { timetable, minute_of_week: || 0 };
        let limiter = BandwidthLimiter::new(limit, Arc::new(MonotonicClock::start()));
        limiter.take(10_240, DOWN);
        limiter.take(10_240, UP);
        assert_eq!(limiter.wait(UP), Duration::ZERO);
        assert_eq!(limiter.wait(DOWN), LOOK_INTERVAL);
        tokio::time::advance(Duration::from_millis(9_900)).await;
        assert_eq!(limiter.wait(DOWN), Duration::from_millis(100));
        assert!(limiter.pause(DOWN).is_some() && limiter.pause(UP).is_none());
        assert_eq!(limiter.max_workers(DOWN), 1);
        assert_eq!(limiter.max_workers(UP), usize::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_that_is_set_holds_from_then_on() {
        let limiter = BandwidthLimiter::with_rate(1000, Arc::new(MonotonicClock::start()));
        limiter.take(500, DOWN);
        assert_eq!(limiter.wait(DOWN), Duration::from_millis(500));
        limiter.set_rate(100);
        limiter.take(20, DOWN);
        assert_eq!(limiter.wait(DOWN), Duration::from_millis(700));
    }
}
