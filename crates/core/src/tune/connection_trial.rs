//! More connections by trial, for servers that limit each connection.
//!
//! The other rules follow from the path, and assume that one connection can fill it in the end. A
//! server that sends each connection some 300 kB a second (`limit_rate` of nginx, quotas of storage
//! systems) looks like a narrow path, but eight connections bring eight times as much. Only a trial
//! tells the two apart:
//!
//! - A step lasts `MIN_STEP`, or some round trips on a long path. At its end the number of
//!   connections is doubled.
//! - The next step shows whether that was worth it: with twice the connections, bytes must arrive
//!   `WORTHWHILE` times as fast as in the last half of the step before. Then they are doubled
//!   again, up to the maximum.
//! - Otherwise they are given back, and the next trial comes after a pause that doubles each time.
//! - No more are tried while bytes arrive as fast as the caller says is enough.
//!
//! The first half of a step does not count for the comparison with the next one: new connections
//! begin with what the server sends before its limit takes effect, or with small windows.

use std::time::Duration;

/// The shortest step.
const MIN_STEP: Duration = Duration::from_millis(250);
/// Round trips in a step on a long path: in these a window doubles from ten segments to thousands.
const ROUND_TRIPS: u32 = 8;
/// Factor on the rate by which twice the connections are worth having.
const WORTHWHILE: f64 = 1.25;
/// Steps before the second trial; twice as many before each further one.
const FIRST_PAUSE: u32 = 8;
/// The most steps between two trials.
const MAX_PAUSE: u32 = 256;

/// The number of connections of a read that lasts.
#[derive(Debug, Clone)]
pub struct ConnectionTrial {
    connections: usize,
    max: usize,
    /// The connections before the trial in progress, and the rate that they brought in the end.
    before: Option<(usize, f64)>,
    /// The start of the step, and the bytes that had arrived by then; none while nothing is to
    /// arrive.
    began: Option<Sample>,
    /// The first sample in the second half of the step.
    middle: Option<Sample>,
    /// Steps until the next trial.
    pause: u32,
    next_pause: u32,
    /// The rate at which no more connections are tried, in bytes per second.
    enough: f64,
}

/// Bytes that have arrived by some time.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at: Duration,
    bytes: u64,
}

impl Sample {
    /// Bytes per second until a later sample.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn rate(self, later: Self) -> f64 {
        let seconds = later.at.saturating_sub(self.at).as_secs_f64();
        later.bytes.saturating_sub(self.bytes) as f64 / seconds.max(1e-6)
    }
}

impl ConnectionTrial {
    /// A job with some connections that may have `max`, of which `bytes` have arrived by `now`.
    #[must_use]
    pub fn new(connections: usize, max: usize, bytes: u64, now: Duration) -> Self {
        let began = Some(Sample { at: now, bytes });
        Self {
            connections: connections.max(1),
            max: max.max(connections),
            before: None,
            began,
            middle: None,
            pause: 0,
            next_pause: FIRST_PAUSE,
            enough: f64::INFINITY,
        }
    }

    /// The connections that the job should use.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Raises the connections to what another rule says. A trial in progress begins anew.
    pub fn raise(&mut self, connections: usize) {
        if connections > self.connections {
            self.connections = connections.min(self.max);
            self.before = None;
        }
    }

    /// Sets the rate, in bytes per second, at which no more connections are tried. There is none by
    /// default.
    pub fn stop_at(&mut self, rate: f64) {
        self.enough = rate;
    }

    /// Ends the step without a result: nothing is to arrive until the next call of
    /// [`Self::observe`], which begins another one.
    pub fn suspend(&mut self) {
        self.began = None;
        self.middle = None;
    }

    /// The length of a step on a path of this latency.
    #[must_use]
    pub fn step(latency: Duration) -> Duration {
        MIN_STEP.max(latency.saturating_mul(ROUND_TRIPS))
    }

    /// Records that `bytes` have arrived since the start of the job. To be called several times in
    /// a step.
    pub fn observe(&mut self, bytes: u64, latency: Duration, now: Duration) {
        let sample = Sample { at: now, bytes };
        let step = Self::step(latency);
        let began = *self.began.get_or_insert(sample);
        let elapsed = now.saturating_sub(began.at);
        if elapsed >= step / 2 && self.middle.is_none() {
            self.middle = Some(sample);
        }
        if elapsed < step {
            return;
        }
        let rate = began.rate(sample);
        let last_rate = self.middle.take().map_or(rate, |middle| middle.rate(sample));
        self.began = Some(sample);
        self.end_step(rate, last_rate);
    }

    /// Ends a step with this rate in all of it and in its last part.
    fn end_step(&mut self, rate: f64, last_rate: f64) {
        match self.before.take() {
            Some((fewer, rate_before)) if rate < WORTHWHILE * rate_before => {
                self.connections = fewer;
                self.pause = self.next_pause;
                self.next_pause = (2 * self.next_pause).min(MAX_PAUSE);
            }
            None if self.pause > 0 => self.pause -= 1,
            _ if last_rate >= self.enough => {}
            _ => self.double(last_rate),
        }
    }

    fn double(&mut self, rate: f64) {
        let more = self.connections.saturating_mul(2).min(self.max);
        if more > self.connections {
            self.before = Some((self.connections, rate));
            self.connections = more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const TICK: Duration = Duration::from_millis(50);

    /// A path with a rate of its own and of each connection, in bytes per second.
    struct Path {
        all: f64,
        each: f64,
        /// Bytes that each connection brings at once, before its limit takes effect.
        burst: f64,
    }

    impl Path {
        fn new(all: f64, each: f64, burst: f64) -> Self {
            Self { all, each, burst }
        }
    }

    /// The connections after each tick of a job on `path`, and the bytes that arrived.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small numbers"
    )]
    fn played(path: &Path, start: usize, max: usize, ticks: usize) -> (Vec<usize>, f64) {
        let mut trial = ConnectionTrial::new(start, max, 0, Duration::ZERO);
        let (mut bytes, mut now, mut opened) = (0.0, Duration::ZERO, 0);
        let mut counts = Vec::new();
        for _ in 0..ticks {
            let connections = trial.connections();
            let bursts = connections.saturating_sub(opened) as f64 * path.burst;
            opened = opened.max(connections);
            let seconds = TICK.as_secs_f64();
            bytes += (connections as f64 * path.each * seconds + bursts).min(path.all * seconds);
            now += TICK;
            trial.observe(bytes as u64, MS, now);
            counts.push(trial.connections());
        }
        (counts, bytes)
    }

    #[test]
    fn connections_double_while_each_brings_as_much_as_before() {
        let limited = Path::new(1e9, 3e5, 0.0);
        let (counts, _) = played(&limited, 4, 64, 25);
        assert_eq!(counts.last(), Some(&64));
        // 250 ms each.
        assert_eq!([4, 9, 14, 19].map(|tick| counts[tick]), [8, 16, 32, 64]);
    }

    #[test]
    fn a_burst_before_the_limit_does_not_hide_it() {
        // nginx sends a connection what it may have in a second, and then nothing for a second.
        let bursts = Path::new(1e9, 0.0, 3e5);
        assert_eq!(played(&bursts, 4, 64, 25).0.last(), Some(&64));
    }

    #[test]
    fn connections_that_bring_nothing_are_given_back() {
        let narrow = Path::new(1e6, 1e9, 0.0);
        let (counts, bytes) = played(&narrow, 4, 64, 1_000);
        assert!(counts.iter().all(|count| [4, 8].contains(count)), "{counts:?}");
        // Few trials in fifty seconds.
        let more = counts.iter().filter(|count| **count == 8).count();
        assert!(more <= 30, "{more}");
        assert!((bytes - 50e6).abs() < 1.0);
    }

    #[test]
    fn doubling_ends_where_the_path_is_full() {
        let limited = Path::new(4e6, 3e5, 0.0);
        let (counts, _) = played(&limited, 4, 64, 100);
        assert_eq!(counts.last(), Some(&16));
        assert!(counts.iter().all(|count| *count <= 32), "{counts:?}");
    }

    #[test]
    fn no_connections_are_tried_once_the_rate_is_enough() {
        for (rate, connections) in [(1e6, 4), (1e7, 8)] {
            let mut trial = ConnectionTrial::new(4, 64, 0, Duration::ZERO);
            trial.stop_at(rate);
            // 4 MB a second.
            trial.observe(500_000, MS, MIN_STEP / 2);
            trial.observe(1_000_000, MS, MIN_STEP);
            assert_eq!(trial.connections(), connections, "{rate}");
        }
    }

    #[test]
    fn time_in_which_nothing_was_to_arrive_does_not_count() {
        let mut trial = ConnectionTrial::new(4, 64, 0, Duration::ZERO);
        trial.stop_at(1e6);
        trial.observe(2_000_000, MS, TICK);
        trial.suspend();
        for tick in 0..=5 {
            // 4 MB a second, a minute later.
            let bytes = 2_000_000 + 200_000 * tick;
            trial.observe(bytes, MS, Duration::from_secs(60) + TICK * u32::try_from(tick).unwrap());
        }
        assert_eq!(trial.connections(), 4);
    }

    #[test]
    fn a_limit_that_another_rule_raises_is_not_given_back() {
        let mut trial = ConnectionTrial::new(4, 64, 0, Duration::ZERO);
        trial.observe(1_000, MS, MIN_STEP);
        assert_eq!(trial.connections(), 8);
        trial.raise(20);
        trial.raise(10);
        trial.observe(1_000, MS, 2 * MIN_STEP);
        assert!(trial.connections() >= 20);
    }

    #[test]
    fn steps_on_long_paths_are_as_long_as_windows_take_to_open() {
        let mut trial = ConnectionTrial::new(4, 64, 0, Duration::ZERO);
        for tick in 1..38 {
            trial.observe(1_000 * tick, 240 * MS, TICK * u32::try_from(tick).unwrap());
            assert_eq!(trial.connections(), 4);
        }
    }

    proptest! {
        #[test]
        fn any_observations_keep_within_the_maximum(
            start in 0_usize..100,
            max in 0_usize..100,
            samples in prop::collection::vec((0_u64..u64::MAX, 0_u64..10_000), 0..200),
        ) {
            let mut trial = ConnectionTrial::new(start, max, 0, Duration::ZERO);
            let mut now = Duration::ZERO;
            for (bytes, millis) in samples {
                now += Duration::from_millis(millis);
                trial.observe(bytes, MS, now);
                prop_assert!((start.max(1)..=max.max(start).max(1)).contains(&trial.connections()));
            }
        }
    }
}
