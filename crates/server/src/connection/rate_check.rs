//! The minimum rate of a body, in either direction.

use std::time::Duration;

/// The rate of a client while the server waits for it. Time that the server takes does not count.
#[derive(Debug)]
pub(crate) struct RateCheck {
    /// Bytes per second.
    minimum: u64,
    waited: Duration,
    bytes: u64,
}

/// The time of waiting over which the rate is averaged.
const WINDOW: Duration = Duration::from_secs(60);

impl RateCheck {
    /// A check for a minimum rate in bytes per second.
    pub(crate) fn new(minimum: u64) -> Self {
        Self { minimum, waited: Duration::ZERO, bytes: 0 }
    }

    /// Counts `bytes` that the client sent or read during a wait. Returns false if the client was
    /// too slow in the last minute of waiting.
    pub(crate) fn add(&mut self, waited: Duration, bytes: u64) -> bool {
        self.waited += waited;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < WINDOW {
            return true;
        }
        let minimum = u128::from(self.minimum) * self.waited.as_millis() / 1000;
        let is_enough = u128::from(self.bytes) >= minimum;
        *self = Self::new(self.minimum);
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_below_the_minimum_fails_in_any_minute_of_waiting() {
        let second = Duration::from_secs(1);
        let mut rate = RateCheck::new(100);
        assert!((0..59).all(|_| rate.add(second, 1)));
        assert!(!rate.add(second, 1));
        let mut rate = RateCheck::new(100);
        assert!((0..1000).all(|_| rate.add(second, 100)));
        // Earlier bytes do not count.
        assert!(rate.add(second, 1 << 30));
        assert!(!(0..120).all(|_| rate.add(second, 1)));
    }
}
