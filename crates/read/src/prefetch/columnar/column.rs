//! Access to a column of a tree: its position, and the likelihood that its next basket will be
//! read.

/// Weight of the last basket in the running mean.
const WEIGHT: f32 = 0.25;
/// Rate from which on a column counts as read basket by basket.
const STEADY: f32 = 0.7;

/// The likelihood that the next basket of a column will be read: a running mean over its baskets,
/// of 1 for each that was read and 0 for each that was skipped.
///
/// Three baskets read in a row, the first among them, make a new column steady; two skipped in a
/// row make a steady one unsteady. Wasted bytes are thus at most about a third of the bytes read of
/// a column that is read now and then, and such columns are rare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReadRate(f32);

impl ReadRate {
    /// Rate of a column that was learned.
    pub(super) const SURE: Self = Self(1.0);
    /// Rate of a column that is read for the first time late.
    pub(super) const NEW: Self = Self(0.5);

    pub(super) fn record_read(&mut self) {
        self.0 += (1.0 - self.0) * WEIGHT;
    }

    pub(super) fn record_skipped(&mut self, baskets: u32) {
        // After 16 the rate is practically 0.
        for _ in 0..baskets.min(16) {
            self.0 -= self.0 * WEIGHT;
        }
    }

    pub(super) fn is_steady(self) -> bool {
        self.0 >= STEADY
    }
}

/// A column of a tree, and where its reader is.
#[derive(Debug, Clone)]
pub(super) struct ColumnTracker {
    /// The column is prefetched: it was read, or is in the learned set.
    pub(super) active: bool,
    /// The column was read.
    pub(super) was_read: bool,
    pub(super) rate: ReadRate,
    /// The first basket that was neither read nor skipped in this pass.
    pub(super) next: u32,
    /// End of the baskets, from `next` on, that have been prefetched.
    pub(super) prefetched: u32,
    /// One past the last basket that was read in this pass.
    pub(super) read: u32,
    /// The next read is known only to lie somewhere from `next` on.
    pub(super) loose: bool,
    /// The burst in which the column was read last; 0 for none.
    pub(super) burst: u32,
    /// The basket that was fetched on trial, before the column was ever read.
    pub(super) tried: Option<u32>,
}

impl ColumnTracker {
    pub(super) const UNKNOWN: Self = Self {
        active: false,
        was_read: false,
        rate: ReadRate::NEW,
        next: 0,
        prefetched: 0,
        read: 0,
        loose: false,
        burst: 0,
        tried: None,
    };

    pub(super) fn is_steady(&self) -> bool {
        self.active && self.rate.is_steady()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_rises_slowly_and_falls_fast() {
        let mut rate = ReadRate::NEW;
        let mut read = 0;
        while !rate.is_steady() {
            rate.record_read();
            read += 1;
        }
        assert_eq!(read, 2);
        let mut rate = ReadRate::SURE;
        rate.record_skipped(1);
        assert!(rate.is_steady());
        rate.record_skipped(1);
        assert!(!rate.is_steady());
        rate.record_skipped(u32::MAX);
        rate.record_read();
        assert!(!rate.is_steady());
    }
}
