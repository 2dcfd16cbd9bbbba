//! Discovery of a server's request limits by trial.
//!
//! Servers limit the number of ranges, the text of a header, or the bytes of an answer, and tell
//! none of these. An allowance starts where every server is expected to follow, doubles as long as
//! all goes well, and after a refusal closes in on the limit between what was taken and what was
//! not. Two rules bound the price:
//!
//! - Steps between the two are geometric means, and end when what was taken is at least 7/8 of what
//!   was refused: no more than 1.15 times the fewest possible requests are sent from then on, and
//!   nothing is refused any more.
//! - Before anything was taken, a first refusal halves and every further one divides by eight: a
//!   limit is most often near, and where it is not, it is one.
//!
//! A refusal of an amount that is above what is asked for by now was under way when the allowance
//! fell: it is no news.

use serde::{Deserialize, Serialize};

/// One learned limit of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedLimit {
    /// Most to put into one request now; at least 1.
    pub current: u64,
    /// Most that was ever answered in full; 0 if nothing was.
    pub accepted: u64,
    /// Least that was refused; 0 if nothing was.
    pub rejected: u64,
}

impl LearnedLimit {
    /// Nothing is known: `most` is where to start.
    #[must_use]
    pub const fn starting(most: u64) -> Self {
        Self { current: most, accepted: 0, rejected: 0 }
    }

    /// More than `most` is known to be refused, as by servers of this make.
    #[must_use]
    pub const fn limited(most: u64) -> Self {
        Self { current: most, accepted: 0, rejected: most.saturating_add(1) }
    }

    /// A request with this much was answered in full. Nothing grows beyond `ceiling` by that.
    pub fn took(&mut self, amount: u64, ceiling: u64) {
        self.accepted = self.accepted.max(amount);
        if amount >= self.rejected {
            self.rejected = 0;
        }
        // Only a request that made use of the allowance says something about more.
        if amount.saturating_mul(2) > self.current {
            self.current = match self.rejected {
                0 => self.current.saturating_mul(2).min(ceiling).max(self.current),
                _ => self.between(),
            };
        }
    }

    /// A request with this much was refused for it.
    pub fn refuse(&mut self, amount: u64) {
        let first = self.rejected == 0;
        if first || amount < self.rejected {
            self.rejected = amount.max(2);
        }
        if self.accepted >= amount {
            // It took that once, and does not any more.
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

    /// As [`LearnedLimit::refuse`], where the way of refusing makes it likely that more than one is
    /// never taken.
    pub fn refuse_several(&mut self, amount: u64) {
        self.refuse(amount);
        if self.accepted <= 1 {
            self.current = self.current.min(if amount > 2 { 2 } else { 1 });
        }
    }

    /// Returns true if this amount was never accepted yet.
    #[must_use]
    pub fn is_unproven(&self, amount: u64) -> bool {
        amount > self.accepted
    }

    /// Returns true if the limit is known well enough to stop the search.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let taken = self.accepted.max(1);
        let refused = self.rejected;
        refused > 0
            && (taken.saturating_mul(8) >= refused.saturating_mul(7) || refused <= taken + 1)
    }

    /// With every figure within `1..=largest`.
    #[must_use]
    pub fn clamped(self, least: u64, largest: u64) -> Self {
        Self {
            current: self.current.clamp(least, largest),
            accepted: self.accepted.min(largest),
            rejected: self.rejected.min(largest.saturating_add(1)),
        }
    }

    /// Where to look next for the limit.
    fn between(&self) -> u64 {
        let taken = self.accepted.max(1);
        let refused = self.rejected;
        if self.is_settled() {
            return taken;
        }
        let middle = u64::try_from((u128::from(taken) * u128::from(refused)).isqrt());
        middle.unwrap_or(taken).clamp(taken + 1, refused - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Requests refused until the allowance rests, and where.
    fn learn(limit: u64, start: u64) -> (u32, u64) {
        let mut allowance = LearnedLimit::starting(start);
        let mut refusals = 0;
        for _ in 0..100 {
            if allowance.current <= limit {
                allowance.took(allowance.current, 10_000);
            } else {
                allowance.refuse(allowance.current);
                refusals += 1;
            }
        }
        (refusals, allowance.current)
    }

    #[test]
    fn common_limits_are_found() {
        assert_eq!(learn(200, 200), (4, 200));
        assert_eq!(learn(1, 200), (5, 1));
        assert_eq!(learn(10_000, 200), (0, 10_000));
        assert!((448..=512).contains(&learn(512, 200).1));
    }

    #[test]
    fn what_was_on_its_way_when_the_allowance_fell_is_no_news() {
        let mut allowance = LearnedLimit::starting(200);
        (0..4).for_each(|_| allowance.refuse(200));
        assert_eq!(allowance, LearnedLimit { current: 100, accepted: 0, rejected: 200 });
    }

    #[test]
    fn two_tell_one_from_several() {
        let mut allowance = LearnedLimit::starting(200);
        allowance.refuse_several(200);
        assert_eq!(allowance.current, 2);
        allowance.took(2, 10_000);
        assert_eq!(allowance.current, 20);
        let mut single = LearnedLimit::starting(200);
        single.refuse_several(200);
        single.refuse_several(2);
        assert_eq!((single.current, single.rejected), (1, 2));
    }

    #[test]
    fn a_server_may_change_its_mind() {
        let mut allowance = LearnedLimit { current: 400, accepted: 400, rejected: 420 };
        allowance.refuse(400);
        assert!(allowance.current < 400 && allowance.accepted == 0);
        let mut raised = LearnedLimit { current: 400, accepted: 400, rejected: 420 };
        raised.took(500, 10_000);
        assert_eq!((raised.rejected, raised.accepted), (0, 500));
    }

    proptest! {
        #[test]
        fn every_limit_is_found_with_few_refusals(limit in 1_u64..20_000, start in 1_u64..5_000) {
            let (refusals, most) = learn(limit, start);
            prop_assert!(most <= limit);
            prop_assert!(most * 8 >= limit.min(10_000) * 7 || most + 1 >= limit.min(10_000), "{most} of {limit}");
            prop_assert!(refusals <= 12, "{refusals} refusals");
        }

        #[test]
        fn no_order_of_events_leads_astray(events in prop::collection::vec((any::<bool>(), any::<u64>()), 0..50)) {
            let mut allowance = LearnedLimit::starting(200);
            for (good, amount) in events {
                if good { allowance.took(amount, 10_000) } else { allowance.refuse(amount) }
                prop_assert!(allowance.current >= 1);
            }
        }
    }
}
