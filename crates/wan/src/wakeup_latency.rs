//! Wake-up latency of the forwarder, learned while it sleeps.
//!
//! A processor that was idle takes tens of microseconds to run a thread again: the longer it was
//! idle, the more, and much more in a virtual machine than on bare metal. That would add to the
//! delay of a packet twice in each direction: when it arrives at a sleeping forwarder, and when it
//! is due. So the forwarder measures the lateness of its timers and sleeps that much less; it polls
//! for the remaining time, usually some microseconds. The arrival time of a packet that woke it is
//! set back by the same time, because the packet has waited that long.

/// Sleeps longer than this, in nanoseconds, let the processor enter deeper idle states.
const LONG_SLEEP: u64 = 1_000_000;

/// Maximum latency that is learned, in nanoseconds: a busy machine also wakes late for other
/// reasons.
const MAX_NANOSECONDS: u64 = 80_000;

/// Typical latency after short and after long sleeps.
#[derive(Debug, Clone, Default)]
pub struct WakeupLatency {
    short: u64,
    long: u64,
}

impl WakeupLatency {
    /// The typical latency after a sleep of this length, in nanoseconds. If only short sleeps were
    /// measured, as on a short link, the latency of short sleeps is used.
    #[must_use]
    pub fn lateness(&self, sleep: u64) -> u64 {
        if sleep > LONG_SLEEP && self.long > 0 { self.long } else { self.short }
    }

    /// Learns that a timer set to `sleep` nanoseconds fired `late` nanoseconds after its time.
    pub fn learn(&mut self, sleep: u64, late: u64) {
        let typical = if sleep > LONG_SLEEP { &mut self.long } else { &mut self.short };
        *typical = (*typical * 7 + late.min(MAX_NANOSECONDS)) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_learned_by_length_of_sleep_and_bounded() {
        let mut waking = WakeupLatency::default();
        for _ in 0..100 {
            waking.learn(100_000, 20_000);
        }
        assert_eq!(waking.lateness(50_000), waking.lateness(2_000_000));
        for _ in 0..100 {
            waking.learn(20_000_000, 50_000);
        }
        assert!((19_000..=20_000).contains(&waking.lateness(50_000)));
        assert!((49_000..=50_000).contains(&waking.lateness(2_000_000)));
        for _ in 0..100 {
            waking.learn(100_000, 1_000_000_000);
        }
        assert!(waking.lateness(100_000) <= MAX_NANOSECONDS);
    }
}
