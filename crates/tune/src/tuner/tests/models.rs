//! Paths with a response to the number of connections, and noise.

use super::super::*;

const TICK: Duration = Duration::from_millis(50);

/// Random numbers that are the same in each run.
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// From 0 to 1.
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.uniform() * end as f64) as usize
    }

    /// A factor about 1 of log-normal distribution.
    pub(super) fn factor(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * self.uniform().max(1e-12).ln()).sqrt();
        (deviation * radius * (std::f64::consts::TAU * self.uniform()).cos()).exp()
    }
}

/// The universal scalability law with its fastest setting at `peak`.
pub(super) struct UslCurve {
    peak: f64,
    decline: f64,
}

impl UslCurve {
    pub(super) fn random(noise: &mut Noise) -> Self {
        let peak = (1.0 + 5.6 * noise.uniform()).exp2();
        Self { peak, decline: 0.05 + 0.95 * noise.uniform() }
    }

    pub(super) fn rate(&self, setting: usize) -> f64 {
        let n = setting as f64;
        let contention = 0.5 / self.peak * (n - 1.0);
        let coherence = self.decline / (self.peak * self.peak) * n * (n - 1.0);
        1e6 * n / (1.0 + contention + coherence)
    }
}

/// An interval of this rate.
pub(super) fn interval(rate: f64, count: usize) -> Interval {
    Interval {
        ended: Duration::from_secs(count as u64),
        rate,
        whole_rate: rate,
        is_bursty: false,
        bottleneck: Bottleneck::Network,
        signal: PathSignal::default(),
    }
}

/// A path with a rate of its own and of each connection, in bytes per second.
pub(super) struct SimulatedPath {
    pub(super) all: f64,
    pub(super) each: f64,
    /// Each connection gets all of a second at its beginning.
    pub(super) in_bursts: bool,
    /// Of the rate in an interval of half a second.
    pub(super) deviation: f64,
    pub(super) seed: u64,
    pub(super) began: Duration,
}

impl Default for SimulatedPath {
    fn default() -> Self {
        Self {
            all: 1e9,
            each: 1e9,
            in_bursts: false,
            deviation: 0.0,
            seed: 1,
            began: Duration::ZERO,
        }
    }
}

/// The settings after each 50 ms, those without trials, and the bytes that arrived.
pub(super) struct Played {
    pub(super) settings: Vec<usize>,
    pub(super) settled: Vec<f64>,
    pub(super) bytes: f64,
}

impl Played {
    pub(super) fn last(&self) -> usize {
        *self.settings.last().unwrap()
    }
}

/// Has a tuner control a path for some time.
pub(super) fn played(tuner: &mut Tuner, path: &SimulatedPath, duration: Duration) -> Played {
    let mut noise = Noise::new(path.seed);
    let (mut bytes, mut now) = (0.0, path.began);
    let before = tuner.meter_bytes();
    let mut opened: Vec<u32> = Vec::new();
    let (mut settings, mut settled) = (Vec::new(), Vec::new());
    let mut tick = 0_u32;
    while now < path.began + duration {
        let seconds = TICK.as_secs_f64();
        let capacity = path.all * seconds;
        let wanted = if path.in_bursts {
            opened.resize(opened.len().max(tuner.setting()), tick);
            let bursts = opened.iter().take(tuner.setting());
            bursts.filter(|since| (tick - **since).is_multiple_of(20)).count() as f64 * path.each
        } else {
            tuner.setting() as f64 * path.each * seconds
        };
        // Ten ticks are an interval.
        bytes += wanted.min(capacity) * noise.factor(path.deviation * 10_f64.sqrt());
        now += TICK;
        tick += 1;
        let done = before + bytes as u64;
        let latency = Duration::from_millis(1);
        tuner.observe(&Observation { now, done, latency, ..Observation::default() });
        settings.push(tuner.setting());
        settled.push(tuner.settled().unwrap_or_else(|| tuner.setting()) as f64);
    }
    Played { settings, settled, bytes }
}

impl Tuner {
    /// The bytes of the last observation.
    fn meter_bytes(&self) -> u64 {
        self.meter.done()
    }
}
