//! What is known of one column of a tree from the way it is read.

/// How much of the past the last basket outweighs.
const WEIGHT: f32 = 0.25;
/// From here on a column counts as read basket by basket.
const STEADY: f32 = 0.7;

/// How likely it is that the next basket of a column will be read: a running mean over its baskets, of 1 for those that
/// were read and 0 for those that were passed over.
///
/// Three baskets read in a row, the first among them, make a column steady that was new, two passed over in a row make one unsteady that was
/// steady. What is fetched ahead in vain is thus at most about a third of what a column that is read now and then takes,
/// and such columns are rare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReadRate(f32);

impl ReadRate {
    /// Of a column that was learned.
    pub(super) const SURE: Self = Self(1.0);
    /// Of one that turned up later.
    pub(super) const NEW: Self = Self(0.5);

    pub(super) fn read(&mut self) {
        self.0 += (1.0 - self.0) * WEIGHT;
    }

    pub(super) fn passed(&mut self, baskets: u32) {
        // After so many there is nothing left to lose.
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
    /// Whether it takes part: it was read, or is in the learned set.
    pub(super) active: bool,
    /// Whether it was read.
    pub(super) touched: bool,
    pub(super) habit: ReadRate,
    /// The first basket that has neither been read nor passed over in this pass.
    pub(super) next: u32,
    /// The baskets from `next` to before this one have been named.
    pub(super) named: u32,
    /// One past the last basket that was read in this pass.
    pub(super) read: u32,
    /// Where exactly it will be read next is not known: somewhere from `next` on.
    pub(super) loose: bool,
    /// The burst in which it was read last; 0 for none.
    pub(super) burst: u32,
    /// The basket that was fetched on the mere suspicion that the column may be read.
    pub(super) tried: Option<u32>,
}

impl ColumnTracker {
    pub(super) const UNKNOWN: Self = Self {
        active: false,
        touched: false,
        habit: ReadRate::NEW,
        next: 0,
        named: 0,
        read: 0,
        loose: false,
        burst: 0,
        tried: None,
    };

    pub(super) fn is_steady(&self) -> bool {
        self.active && self.habit.is_steady()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_made_slowly_and_lost_soon() {
        let mut habit = ReadRate::NEW;
        let mut read = 0;
        while !habit.is_steady() {
            habit.read();
            read += 1;
        }
        assert_eq!(read, 2);
        let mut habit = ReadRate::SURE;
        habit.passed(1);
        assert!(habit.is_steady());
        habit.passed(1);
        assert!(!habit.is_steady());
        habit.passed(u32::MAX);
        habit.read();
        assert!(!habit.is_steady());
    }
}
