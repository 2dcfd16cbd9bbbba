//! Limits on wasted bytes: prefetched and never read.
//!
//! Every prefetch is a speculation. Two rules keep the losses small.
//!
//! A cursor has as much **credit** as it has earned: however long its reader waits, its window is
//! no longer than the bytes that the cursor has predicted correctly so far. A reader that stops
//! after `n` bytes wastes at most `n`, and one that reads on doubles its window with every round
//! trip. A reader of a whole file over a long path has a multiple of that.
//!
//! The losses of a file are **counted**. As soon as they are near their limit (and more than the
//! allowance of a newly opened file), no more blocks are fetched and the credit of every cursor
//! shrinks to a small share of its earned bytes. From then on losses cannot grow faster than the
//! limit, whatever the program does. So the total loss is at most the limit, the allowance, and the
//! prefetched bytes at the time when the credit shrank, which the memory for prefetches bounds.

use super::ReadAheadConfig;
use crate::PrefetchContext;

/// Part of the limit that is reserved for losses of cursors when credit is short.
const RESERVED: f64 = 0.5;

/// Losses so far, as far as they are visible to read-ahead.
#[derive(Debug, Default)]
pub(super) struct Waste {
    /// Bytes named for abandoned cursors.
    orphaned: u64,
}

impl Waste {
    /// Counts named bytes that will not be read.
    pub(super) fn orphan(&mut self, bytes: u64) {
        self.orphaned = self.orphaned.saturating_add(bytes);
    }

    /// Returns true if nearly the whole allowance is used up.
    pub(super) fn tight(&self, config: &ReadAheadConfig, conditions: &PrefetchContext) -> bool {
        // Named bytes may never have been fetched; bytes fetched and not read are dropped
        // eventually.
        let orphaned = self.orphaned.min(conditions.fetched_bytes);
        let lost = conditions.wasted_bytes.max(orphaned);
        let allowed = share(config.waste_limit * (1.0 - RESERVED), conditions.fetched_bytes);
        lost > allowed.saturating_add(config.allowance_bytes)
    }

    /// Longest window, in bytes, of a cursor that has `earned` this many; at least the `first`
    /// window, unless too much was wasted.
    pub(super) fn credit(
        &self,
        earned: u64,
        first: u64,
        config: &ReadAheadConfig,
        conditions: &PrefetchContext,
    ) -> u64 {
        if self.tight(config, conditions) {
            share(config.waste_limit * RESERVED, earned)
        } else {
            earned.max(first)
        }
    }
}

/// A fraction of a number of bytes.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn share(part: f64, bytes: u64) -> u64 {
    whole(part * bytes as f64)
}

/// A number of bytes, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is meant"
)]
pub(super) fn whole(bytes: f64) -> u64 {
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::{Limits, LinkEstimate};

    fn conditions(wasted_bytes: u64, fetched_bytes: u64) -> PrefetchContext {
        PrefetchContext {
            size: None,
            link: LinkEstimate::default(),
            limits: Limits::unlimited(),
            ahead_bytes: 0,
            ahead_budget_bytes: 1 << 20,
            wasted_bytes,
            fetched_bytes,
        }
    }

    #[test]
    fn credit_grows_with_used_bytes_and_ends_with_too_much_waste() {
        let config = ReadAheadConfig::default();
        let waste = Waste::default();
        let fetched = 1 << 30;
        let allowed = config.allowance_bytes + fetched / 20;
        let credit = |wasted| waste.credit(10 << 20, 0, &config, &conditions(wasted, fetched));
        assert_eq!(credit(allowed - 1000), 10 << 20);
        assert_eq!(credit(allowed + 1000), share(0.05, 10 << 20));
        let young = waste.credit(0, 1000, &config, &conditions(config.allowance_bytes, 0));
        assert_eq!(young, 1000);
    }

    #[test]
    fn cancelled_bytes_count_as_waste_if_they_may_have_arrived() {
        let config = ReadAheadConfig::default();
        let mut waste = Waste::default();
        waste.orphan(u64::MAX);
        waste.orphan(1);
        assert!(!waste.tight(&config, &conditions(0, 2 << 20)));
        assert!(waste.tight(&config, &conditions(0, 4 << 20)));
    }
}
