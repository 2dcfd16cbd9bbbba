//! One reader among those that share a file.
//!
//! A cursor follows a reader from run to run and holds its prediction: that the run continues, that
//! the next runs follow at the same strides as the last ones, or only the neighbourhood. It
//! remembers how far it has prefetched, so that no range is named in advice twice without need.

mod window;

use super::block_rounding::BlockRounding;
use super::region::Region;
use super::strides::{Stride, Strides};
use std::ops::Range;
use window::Named;

/// Backward seeks up to this distance keep the cursor.
const BACK_BYTES: u64 = 1 << 20;
/// Maximum distance in bytes between two reads of one reader.
const NEAR_BYTES: u64 = 1 << 20;
/// Runs of a rule that a reader may skip.
const SKIPPED_RUNS: usize = 8;
/// Runs without a rule after which only the neighbourhood is considered.
const IRREGULAR_RUNS: usize = 8;
/// Repetitions of strides in a neighbourhood that make them a rule: fewer happen by chance.
const SURE: usize = 3;

/// A prediction.
#[derive(Debug, Clone)]
enum CursorPattern {
    /// No prediction yet.
    Young,
    /// The run continues.
    Sequential,
    /// Runs follow a rule.
    Regular,
    /// Reads near the last ones.
    Region(Region),
}

/// Match of a read with a cursor; the smaller, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CursorMatch {
    /// Where the run ended.
    Continues,
    /// Near the end of the run, before or after it.
    Inside,
    /// In a predicted run: number of runs ahead.
    Predicted(usize),
    /// Beyond the end of the run, within its prefetches.
    Skips,
    /// In the neighbourhood.
    Region,
    /// It begins where an abandoned run ended. No cursor fits.
    Resumes,
    /// Near a cursor that predicts nothing: distance in bytes.
    Near(u64),
    /// In the neighbourhood of readers that alternate.
    Crowd,
    /// Anywhere, from a cursor that has been one run so far.
    Young,
    /// Not at all.
    Unrelated,
}

/// One reader.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    /// The present run.
    run: Range<u64>,
    strides: Strides,
    course: CursorPattern,
    named: Named,
    /// The gap that the reader left before this run, where it was predicted to continue.
    gap: Range<u64>,
    /// Bytes to keep prefetched ahead of the reader.
    window: u64,
    /// The value of `earned` at which the window grows again.
    grow_from: u64,
    /// Bytes read where they were predicted.
    earned: u64,
    /// Bytes named that the reader has skipped.
    passed: u64,
    /// The last use, as a count of reads of the file.
    pub(super) used_at: u64,
}

impl Cursor {
    /// A cursor for a reader's first read. It inherits the strides of a `parent` with a long run
    /// that has now jumped here: the jump may be one of a rule.
    pub(super) fn new(range: &Range<u64>, parent: Option<&Self>) -> Self {
        let mut cursor = Self {
            run: range.clone(),
            strides: Strides::default(),
            course: CursorPattern::Young,
            named: Named { run: 0, to: range.end },
            gap: 0..0,
            window: 0,
            grow_from: 0,
            earned: 0,
            passed: 0,
            used_at: 0,
        };
        if let Some(parent) =
            parent.filter(|parent| matches!(parent.course, CursorPattern::Sequential))
        {
            cursor.strides = parent.strides.clone();
            cursor.strides.push(parent.step_to(range.start));
            if cursor.strides.regular() {
                cursor.course = CursorPattern::Regular;
                (cursor.window, cursor.earned) = (parent.window, parent.earned);
            }
        }
        cursor
    }

    /// A cursor for a reader whose abandoned run continues.
    pub(super) fn resumed(range: &Range<u64>) -> Self {
        let mut cursor = Self::new(range, None);
        cursor.course = CursorPattern::Sequential;
        cursor.earned = range.end - range.start;
        cursor
    }

    /// Match of a read with this cursor.
    pub(super) fn fit(&self, range: &Range<u64>) -> CursorMatch {
        let start = range.start;
        let end = self.run.end;
        match &self.course {
            CursorPattern::Region(region) if region.holds(start, NEAR_BYTES) => {
                if region.is_several() { CursorMatch::Crowd } else { CursorMatch::Region }
            }
            CursorPattern::Region(_) => CursorMatch::Unrelated,
            _ if start == end => CursorMatch::Continues,
            _ if self.run.contains(&start) && end - start <= BACK_BYTES => self.inside(range),
            CursorPattern::Young => match start.abs_diff(end) {
                distance if distance <= NEAR_BYTES => CursorMatch::Near(distance),
                _ if self.strides.count() < 2 => CursorMatch::Young,
                _ => CursorMatch::Unrelated,
            },
            CursorPattern::Sequential if start < end && end - start <= BACK_BYTES => {
                self.inside(range)
            }
            CursorPattern::Sequential if start > end && start <= self.named.to => {
                CursorMatch::Skips
            }
            CursorPattern::Sequential => CursorMatch::Unrelated,
            CursorPattern::Regular => self.fit_rule(range),
        }
    }

    fn inside(&self, range: &Range<u64>) -> CursorMatch {
        if range.end > self.run.end { CursorMatch::Continues } else { CursorMatch::Inside }
    }

    fn fit_rule(&self, range: &Range<u64>) -> CursorMatch {
        let start = range.start;
        let predicted = (1..=SKIPPED_RUNS)
            .find(|&n| self.expected(n).is_some_and(|expected| expected.contains(&start)));
        if let Some(n) = predicted {
            return CursorMatch::Predicted(n);
        }
        if start < self.run.start && self.run.start - start <= BACK_BYTES {
            return CursorMatch::Inside;
        }
        let distance = start.abs_diff(self.run.end);
        if self.strides.repeats() < 2 && distance <= NEAR_BYTES {
            return CursorMatch::Near(distance);
        }
        CursorMatch::Unrelated
    }

    fn step_to(&self, start: u64) -> Stride {
        Stride {
            by: start.wrapping_sub(self.run.start).cast_signed(),
            length: self.run.end - self.run.start,
        }
    }

    /// Follows the reader; `touches` if the read begins where some earlier run ended. True if the
    /// read was predicted.
    pub(super) fn follow(
        &mut self,
        range: &Range<u64>,
        fit: CursorMatch,
        touches: bool,
        blocks: &BlockRounding,
    ) -> bool {
        let length = range.end - range.start;
        let predicted = match fit {
            CursorMatch::Continues => return self.go_on(range),
            CursorMatch::Inside => {
                self.fill_gap(range);
                return false;
            }
            CursorMatch::Predicted(n) => {
                self.next_run(range, n);
                true
            }
            CursorMatch::Skips => {
                self.passed = self.passed.saturating_add(range.start - self.run.end);
                self.strides.push(self.step_to(range.start));
                self.gap = self.run.end..range.start;
                self.begin(range);
                self.named.to = self.named.to.max(range.end);
                if self.strides.regular() {
                    self.find_rule();
                }
                true
            }
            _ => return self.hop(range, touches, blocks),
        };
        self.earned = self.earned.saturating_add(length);
        predicted
    }

    /// Changes a sequential reader to one with a rule: of its prefetches, this run's part is still
    /// wanted.
    fn find_rule(&mut self) {
        let named = self.named.to;
        self.set(CursorPattern::Regular);
        let end = self.expected(0).map_or(self.run.end, |run| run.end);
        self.named.to = named.min(end);
        self.passed = self.passed.saturating_add(named.saturating_sub(end));
    }

    /// Records a read in the gap: the reader skipped nothing, only the order of two reads was
    /// changed.
    fn fill_gap(&mut self, range: &Range<u64>) {
        if self.gap.contains(&range.start) {
            self.strides.undo();
            self.run.start = range.start;
            self.gap = 0..0;
            if matches!(self.course, CursorPattern::Regular) {
                self.set(CursorPattern::Sequential);
            }
        }
    }

    fn go_on(&mut self, range: &Range<u64>) -> bool {
        let fresh = range.end - self.run.end;
        let broken = matches!(self.course, CursorPattern::Regular)
            && self.expected(0).is_none_or(|expected| range.end > expected.end);
        self.run.end = range.end;
        let predicted = !matches!(self.course, CursorPattern::Young) && !broken;
        if matches!(self.course, CursorPattern::Young) {
            self.earned = self.earned.max(self.run.end - self.run.start);
            self.set(CursorPattern::Sequential);
        } else if broken {
            self.passed = self.passed.saturating_add(self.ahead_bytes());
            self.strides = Strides::default();
            self.set(CursorPattern::Sequential);
        } else {
            self.earned = self.earned.saturating_add(fresh);
        }
        if self.named.run == 0 {
            self.named.to = self.named.to.max(self.run.end);
        }
        predicted
    }

    /// Moves to the run `n` after the last.
    fn next_run(&mut self, range: &Range<u64>, n: usize) {
        let start = self.expected(n).map_or(range.start, |expected| expected.start);
        for left_out in 1..n {
            if let Some(next) = self.expected(1) {
                if self.named.run > left_out {
                    self.passed = self.passed.saturating_add(next.end - next.start);
                }
                self.strides.push(self.step_to(next.start));
                self.run = next;
            }
        }
        self.strides.push(self.step_to(start));
        self.run = start..range.end;
        self.gap = 0..0;
        self.named = match self.named.run.checked_sub(n) {
            Some(0) => Named { run: 0, to: self.named.to.max(range.end) },
            Some(run) => Named { run, to: self.named.to },
            None => Named { run: 0, to: range.end },
        };
    }

    /// Records a read that was not predicted, of a reader without a settled pattern.
    fn hop(&mut self, range: &Range<u64>, touches: bool, blocks: &BlockRounding) -> bool {
        self.strides.push(self.step_to(range.start));
        if let CursorPattern::Region(region) = &mut self.course {
            let leads = region.read(range, touches, blocks);
            self.begin(range);
            if leads {
                self.earned = self.earned.saturating_add(range.end - range.start);
            }
            if self.strides.repeats() >= SURE {
                self.set(CursorPattern::Regular);
            }
            return leads;
        }
        if matches!(self.course, CursorPattern::Regular) {
            self.passed = self.passed.saturating_add(self.ahead_bytes());
        }
        self.begin(range);
        self.set(if self.strides.regular() {
            CursorPattern::Regular
        } else if self.strides.count() >= IRREGULAR_RUNS {
            CursorPattern::Region(Region::new(range))
        } else {
            CursorPattern::Young
        });
        false
    }

    fn begin(&mut self, range: &Range<u64>) {
        self.run = range.clone();
    }

    fn set(&mut self, course: CursorPattern) {
        self.course = course;
        self.named = Named { run: 0, to: self.run.end };
    }

    /// The run `n` after the present one, which is run 0; endless if the file is read sequentially.
    fn expected(&self, n: usize) -> Option<Range<u64>> {
        match self.course {
            CursorPattern::Sequential if n == 0 => Some(self.run.start..u64::MAX),
            CursorPattern::Regular => {
                let (offset, length) = self.strides.ahead(n)?;
                let start = u64::try_from(i128::from(self.run.start).checked_add(offset)?).ok()?;
                let end = start.checked_add(length)?;
                Some(start..if n == 0 { end.max(self.run.end) } else { end })
            }
            _ => None,
        }
    }

    /// The present run of the reader.
    pub(super) fn run(&self) -> &Range<u64> {
        &self.run
    }

    /// Returns true if the next read is predicted to the byte.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self.course, CursorPattern::Sequential | CursorPattern::Regular)
    }

    /// Returns true if it reads without gaps.
    pub(super) fn is_sequential(&self) -> bool {
        matches!(self.course, CursorPattern::Sequential)
    }

    /// The neighbourhood, if that is the only prediction.
    pub(super) fn region(&self) -> Option<&Region> {
        match &self.course {
            CursorPattern::Region(region) => Some(region),
            _ => None,
        }
    }

    /// Bytes read where they were predicted.
    pub(super) fn earned(&self) -> u64 {
        self.earned
    }

    /// Bytes to keep prefetched ahead of the reader.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Bytes that were named and skipped since the last call.
    pub(super) fn take_passed(&mut self) -> u64 {
        std::mem::take(&mut self.passed)
    }

    /// Adapts the window, which begins with `first` bytes and is never longer than `most`; it grows
    /// by the factor `growth`, and halves where memory is `short`, not more than once for each half
    /// of it that is read.
    pub(super) fn steer(&mut self, first: u64, most: u64, growth: u64, short: bool) {
        if self.window == 0 {
            self.window = first;
        } else if (growth > 1 || short) && self.earned >= self.grow_from {
            self.grow_from = self.earned.saturating_add(self.window / 2);
            self.window = if short { self.window / 2 } else { self.window.saturating_mul(growth) };
        }
        self.window = self.window.min(most);
    }
}
