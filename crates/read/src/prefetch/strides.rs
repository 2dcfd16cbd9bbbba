//! Prediction of a reader's jumps from its past ones.
//!
//! A run is a stretch of the file read without a jump, by one read or by several that touch. A step
//! is the distance between the starts of two runs, and a reader with a rule repeats the same steps:
//! one step for a column of equal pieces, three for one that reads three pieces and skips the
//! fourth. The rule is the shortest list of steps that the latest ones repeat.

/// Longest list of steps that is found.
const MAX_PERIOD: usize = 8;
/// Steps compared: two of the longest periods.
const SEEN: usize = 2 * MAX_PERIOD;
/// Steps kept: the latest may be undone.
const KEPT: usize = SEEN + 1;
/// Periods examined for the length of a run.
const PERIODS_FOR_LENGTH: usize = 4;

/// The step from the start of a run to the start of the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stride {
    /// Bytes between the starts.
    pub(super) by: i64,
    /// Length of the first of the two runs in bytes.
    pub(super) length: u64,
}

/// The latest steps of a reader, and the rule in them.
#[derive(Debug, Clone, Default)]
pub(super) struct Strides {
    steps: [Stride; KEPT],
    count: usize,
    /// Steps of the rule; 0 for none. Invariant: at most half of `count`, and at most
    /// [`MAX_PERIOD`].
    period: usize,
    rule: Rule,
}

/// The next steps, computed for one period of the rule.
#[derive(Debug, Clone, Default)]
struct Rule {
    /// Starts of the runs, relative to the start of the present one.
    starts: [i128; MAX_PERIOD],
    lengths: [u64; MAX_PERIOD],
    /// Total bytes of the runs before, without the present one.
    bytes: [u64; MAX_PERIOD],
    /// From the start of a run to that of the one a period later.
    round: i128,
    /// Bytes of as many runs as there are steps in the rule.
    round_bytes: u64,
}

impl Strides {
    /// Adds a step, and looks for a rule if the present one no longer holds.
    pub(super) fn push(&mut self, step: Stride) {
        self.steps[self.count % KEPT] = step;
        self.count += 1;
        if self.period == 0 || self.back(1).by != self.back(1 + self.period).by {
            self.period = self.find();
        }
        self.work_out();
    }

    /// Undoes the latest step; not twice in a row.
    pub(super) fn undo(&mut self) {
        self.count = self.count.saturating_sub(1);
        self.period = self.find();
        self.work_out();
    }

    /// Steps made since the beginning.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn regular(&self) -> bool {
        self.period > 0
    }

    /// Times that the latest steps have repeated the rule, as far back as they are kept.
    pub(super) fn repeats(&self) -> usize {
        let period = self.period;
        if period == 0 {
            return 0;
        }
        let known = self.count.min(SEEN) - period;
        (1..=known).take_while(|&n| self.back(n).by == self.back(n + period).by).count() / period
    }

    /// Predicted start of the run `n` after the present one, relative to the start of that one, and
    /// its length; `n` is 0 for the present one. None without a rule.
    pub(super) fn ahead(&self, n: usize) -> Option<(i128, u64)> {
        let rounds = n.checked_div(self.period)?;
        let place = n % self.period;
        let offset = self.rule.round.checked_mul(i128::try_from(rounds).ok()?)?;
        Some((offset.checked_add(self.rule.starts[place])?, self.rule.lengths[place]))
    }

    /// Bytes of the runs 1 to `n` after the present one.
    pub(super) fn bytes_ahead(&self, n: usize) -> u64 {
        let Some(rounds) = n.checked_div(self.period) else { return 0 };
        let part = self.rule.bytes[n % self.period];
        self.rule.round_bytes.saturating_mul(rounds as u64).saturating_add(part)
    }

    fn work_out(&mut self) {
        let mut start = 0;
        let mut bytes = 0_u64;
        for place in 0..self.period {
            let length = self.length(place);
            bytes = if place == 0 { 0 } else { bytes.saturating_add(length) };
            self.rule.starts[place] = start;
            self.rule.lengths[place] = length;
            self.rule.bytes[place] = bytes;
            start += i128::from(self.back(self.period - place).by);
        }
        self.rule.round = start;
        self.rule.round_bytes = bytes.saturating_add(self.rule.lengths[0]);
    }

    /// Length of the runs at a position in the rule: the greatest of the latest, since lengths
    /// vary.
    fn length(&self, place: usize) -> u64 {
        let first = self.period - place;
        let last = (PERIODS_FOR_LENGTH * self.period).min(self.count.min(SEEN));
        (first..=last).step_by(self.period).map(|n| self.back(n).length).max().unwrap_or(0)
    }

    /// The `n`th step from the end, 1 being the latest. `n` is at most `count`, and at most
    /// [`KEPT`].
    fn back(&self, n: usize) -> Stride {
        self.steps[(self.count - n) % KEPT]
    }

    fn find(&self) -> usize {
        let known = self.count.min(SEEN);
        (1..=known / 2)
            .find(|&period| {
                (1..=period).all(|n| self.back(n).by == self.back(n + period).by)
                    && (1..=period).map(|n| i128::from(self.back(n).by)).sum::<i128>() != 0
            })
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strides(steps: &[(i64, u64)]) -> Strides {
        let mut strides = Strides::default();
        for &(by, length) in steps {
            strides.push(Stride { by, length });
        }
        strides
    }

    #[test]
    fn two_equal_strides_make_a_pattern() {
        assert!(!strides(&[(64, 4)]).regular());
        let strides = strides(&[(64, 4), (64, 5)]);
        assert_eq!(strides.ahead(0), Some((0, 5)));
        assert_eq!(strides.ahead(3), Some((192, 5)));
        assert_eq!(strides.bytes_ahead(3), 15);
    }

    #[test]
    fn a_repeating_list_of_strides_is_found_and_kept_in_phase() {
        // Two runs of 1, the third of 7 after a gap.
        let rule = [(10, 1), (10, 1), (80, 7)];
        let mut seen: Vec<_> = rule.iter().cycle().take(7).copied().collect();
        let read = strides(&seen);
        assert_eq!(read.ahead(0), Some((0, 1)));
        assert_eq!(read.ahead(1), Some((10, 7)));
        assert_eq!(read.ahead(2), Some((90, 1)));
        assert_eq!(read.ahead(3), Some((100, 1)));
        assert_eq!(read.bytes_ahead(4), 7 + 1 + 1 + 7);
        assert_eq!(read.repeats(), 1);
        seen.push((11, 1));
        assert!(!strides(&seen).regular());
    }

    #[test]
    fn a_reverted_stride_has_no_effect() {
        let mut read = strides(&[(64, 4); 20]);
        read.push(Stride { by: 65, length: 4 });
        assert!(!read.regular());
        read.undo();
        assert_eq!(read.ahead(2), Some((128, 4)));
    }

    #[test]
    fn strides_of_zero_make_no_pattern() {
        assert!(!strides(&[(5, 1), (-5, 1), (5, 1), (-5, 1)]).regular());
        assert!(!strides(&[(0, 1), (0, 1), (0, 1)]).regular());
    }

    #[test]
    fn backward_strides_make_a_pattern() {
        assert_eq!(strides(&[(-64, 4), (-64, 4)]).ahead(2), Some((-128, 4)));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let strides = strides(&[(i64::MIN, u64::MAX), (i64::MIN, u64::MAX)]);
        assert!(strides.ahead(usize::MAX).is_some());
        assert_eq!(strides.bytes_ahead(usize::MAX), u64::MAX);
    }
}
