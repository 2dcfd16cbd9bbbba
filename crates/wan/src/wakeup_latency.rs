//! How late a sleeper wakes, learned while it sleeps.
//!
//! A processor that went idle takes tens of microseconds to run a thread again, the more the longer it was idle, and
//! much more in a virtual machine than on bare metal. That would be added to the delay of a packet twice in each
//! direction: when it arrives at a sleeping forwarder, and when its time has come. So the forwarder measures how
//! late its timers are and sleeps that much less; what is left of the time it spends polling, some microseconds as a
//! rule. A packet that woke it is dated back by the same time, because that is how long it has waited.

/// Sleeps longer than this let the processor fall into deeper idleness, nanoseconds.
const LONG_SLEEP: u64 = 1_000_000;

/// No more than this is ever believed, nanoseconds: a busy machine wakes late for other reasons.
const MAX_NANOSECONDS: u64 = 80_000;

/// Typical lateness of waking after short and after long sleeps.
#[derive(Debug, Clone, Default)]
pub struct WakeupLatency {
    short: u64,
    long: u64,
}

impl WakeupLatency {
    /// How late a sleep of this length typically ends, nanoseconds. On a short link no timer is ever long, though the pauses
    /// between packets are: then what is known of short sleeps has to do.
    #[must_use]
    pub fn lateness(&self, sleep: u64) -> u64 {
        if sleep > LONG_SLEEP && self.long > 0 { self.long } else { self.short }
    }

    /// A timer set for `sleep` nanoseconds fired `late` nanoseconds after that.
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
