//! Discovery of a server's request limits by trial.
//!
//! Servers limit the number of ranges, the length of a header, or the bytes of a response, and
//! publish none of these limits. A learned limit starts at a value that every server is expected to
//! accept, and doubles as long as requests are accepted. After a rejection it approaches the
//! server's limit between the accepted and the rejected amount. Two rules bound the number of
//! rejections:
//!
//! - Each step is the geometric mean of the two amounts. The search ends when the accepted amount
//!   is at least 7/8 of the rejected one: from then on at most 1.15 times the fewest possible
//!   requests are sent, and none is rejected.
//! - Before anything was accepted, the first rejection halves the limit and each further one
//!   divides it by eight: the server's limit is usually near the start, and otherwise one.
//!
//! A rejection of an amount above the current limit is ignored: the request was sent before the
//! limit fell.

use serde::{Deserialize, Serialize};

/// One learned limit of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedLimit {
    /// Maximum amount for a request now; at least 1.
    pub current: u64,
    /// Largest amount that was accepted; 0 if none was.
    pub accepted: u64,
    /// Smallest amount that was rejected; 0 if none was.
    pub rejected: u64,
}

impl LearnedLimit {
    /// An unknown limit; the search starts with `start`.
    #[must_use]
    pub const fn starting(start: u64) -> Self {
        Self { current: start, accepted: 0, rejected: 0 }
    }

    /// A limit that is known not to exceed `max`, from the server's software.
    #[must_use]
    pub const fn limited(max: u64) -> Self {
        Self { current: max, accepted: 0, rejected: max.saturating_add(1) }
    }

    /// Records an accepted request of `amount`. The limit does not grow beyond `ceiling`.
    pub fn record_accepted(&mut self, amount: u64, ceiling: u64) {
        self.accepted = self.accepted.max(amount);
        if amount >= self.rejected {
            self.rejected = 0;
        }
        // Only a request close to the limit is evidence for a larger one.
        if amount.saturating_mul(2) > self.current {
            self.current = match self.rejected {
                0 => self.current.saturating_mul(2).min(ceiling).max(self.current),
                _ => self.between(),
            };
        }
    }

    /// Records a request that was rejected because of `amount`.
    pub fn record_rejected(&mut self, amount: u64) {
        let first = self.rejected == 0;
        if first || amount < self.rejected {
            self.rejected = amount.max(2);
        }
        if self.accepted >= amount {
            // The server accepted this amount before, and now rejects it.
            self.accepted = 0;
        }
        if amount > self.current {
            return;
        }
        self.current = match self.accepted {
            0 if first => amount / 2,
            0 => amount / 8,
            _ => self.between(),
        }
        .max(1);
    }

    /// Records a rejection from which it is likely that the server never accepts more than one;
    /// otherwise as [`LearnedLimit::record_rejected`].
    pub fn record_rejected_several(&mut self, amount: u64) {
        self.record_rejected(amount);
        if self.accepted <= 1 {
            self.current = self.current.min(if amount > 2 { 2 } else { 1 });
        }
    }

    /// Returns true if no request of this amount or more was accepted.
    #[must_use]
    pub fn is_unproven(&self, amount: u64) -> bool {
        amount > self.accepted
    }

    /// Returns true if the limit is known well enough to stop the search.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let accepted = self.accepted.max(1);
        let rejected = self.rejected;
        rejected > 0
            && (accepted.saturating_mul(8) >= rejected.saturating_mul(7)
                || rejected <= accepted + 1)
    }

    /// The same limit with its values restricted to `min..=max`.
    #[must_use]
    pub fn clamped(self, min: u64, max: u64) -> Self {
        Self {
            current: self.current.clamp(min, max),
            accepted: self.accepted.min(max),
            rejected: self.rejected.min(max.saturating_add(1)),
        }
    }

    /// The next amount to try between the accepted and the rejected one.
    fn between(&self) -> u64 {
        let accepted = self.accepted.max(1);
        if self.is_settled() {
            return accepted;
        }
        let mean = u64::try_from((u128::from(accepted) * u128::from(self.rejected)).isqrt());
        mean.unwrap_or(accepted).clamp(accepted + 1, self.rejected - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of rejections until the limit stays the same, and its value.
    fn learn(limit: u64, start: u64) -> (u32, u64) {
        let mut learned = LearnedLimit::starting(start);
        let mut rejections = 0;
        for _ in 0..100 {
            if learned.current <= limit {
                learned.record_accepted(learned.current, 10_000);
            } else {
                learned.record_rejected(learned.current);
                rejections += 1;
            }
        }
        (rejections, learned.current)
    }

    #[test]
    fn common_limits_are_learned() {
        assert_eq!(learn(200, 200), (4, 200));
        assert_eq!(learn(1, 200), (5, 1));
        assert_eq!(learn(10_000, 200), (0, 10_000));
        assert!((448..=512).contains(&learn(512, 200).1));
    }

    #[test]
    fn rejections_of_requests_sent_before_a_decrease_are_ignored() {
        let mut learned = LearnedLimit::starting(200);
        (0..4).for_each(|_| learned.record_rejected(200));
        assert_eq!(learned, LearnedLimit { current: 100, accepted: 0, rejected: 200 });
    }

    #[test]
    fn the_limit_tells_one_connection_from_several() {
        let mut learned = LearnedLimit::starting(200);
        learned.record_rejected_several(200);
        assert_eq!(learned.current, 2);
        learned.record_accepted(2, 10_000);
        assert_eq!(learned.current, 20);
        let mut single = LearnedLimit::starting(200);
        single.record_rejected_several(200);
        single.record_rejected_several(2);
        assert_eq!((single.current, single.rejected), (1, 2));
    }

    #[test]
    fn a_changed_limit_is_learned_again() {
        let mut learned = LearnedLimit { current: 400, accepted: 400, rejected: 420 };
        learned.record_rejected(400);
        assert!(learned.current < 400 && learned.accepted == 0);
        let mut raised = LearnedLimit { current: 400, accepted: 400, rejected: 420 };
        raised.record_accepted(500, 10_000);
        assert_eq!((raised.rejected, raised.accepted), (0, 500));
    }

    proptest! {
        #[test]
        fn every_limit_is_learned_with_few_rejections(limit in 1_u64..20_000, start in 1_u64..5_000) {
            let (rejections, most) = learn(limit, start);
            prop_assert!(most <= limit);
            prop_assert!(most * 8 >= limit.min(10_000) * 7 || most + 1 >= limit.min(10_000), "{most} of {limit}");
            prop_assert!(rejections <= 12, "{rejections} rejections");
        }

        #[test]
        fn any_order_of_events_keeps_a_valid_limit(events in prop::collection::vec((any::<bool>(), any::<u64>()), 0..50)) {
            let mut learned = LearnedLimit::starting(200);
            for (good, amount) in events {
                if good { learned.record_accepted(amount, 10_000) } else { learned.record_rejected(amount) }
                prop_assert!(learned.current >= 1);
            }
        }
    }
}
