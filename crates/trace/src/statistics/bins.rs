//! Histograms of integers.

use serde::Serialize;
use std::collections::BTreeMap;

/// Count of numbers in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The lower limit.
    pub from: i64,
    /// The upper limit. The interval includes the limit that is nearer to 0, and excludes the other
    /// one.
    pub to: i64,
    /// Count of numbers.
    pub count: u64,
}

/// Bins with the limits 1, 2, 5, 10, ... on both sides of 0, and a separate bin for 0.
#[derive(Debug, Clone, Default)]
pub(super) struct Logarithmic(BTreeMap<i16, u64>);

impl Logarithmic {
    pub(super) fn add(&mut self, number: i64) {
        *self.0.entry(steps(number)).or_default() += 1;
    }

    pub(super) fn join(&mut self, other: &Self) {
        join(&mut self.0, &other.0);
    }

    pub(super) fn bins(&self) -> Vec<Bin> {
        bins(&self.0, |steps| match steps {
            0 => (0, 1),
            1.. => (limit(steps - 1), limit(steps)),
            _ => (-limit(-steps), -limit(-steps - 1)),
        })
    }
}

/// Bins whose limits are powers of two: 0, 1, 2-3, 4-7, ...
#[derive(Debug, Clone, Default)]
pub(super) struct PowerOfTwo(BTreeMap<i16, u64>);

impl PowerOfTwo {
    pub(super) fn add(&mut self, number: u64) {
        let bits = i16::try_from(64 - number.leading_zeros()).unwrap_or_default();
        *self.0.entry(bits).or_default() += 1;
    }

    pub(super) fn join(&mut self, other: &Self) {
        join(&mut self.0, &other.0);
    }

    pub(super) fn bins(&self) -> Vec<Bin> {
        let power = |bits: i16| 1_i64.checked_shl(u32::try_from(bits).unwrap_or(0));
        let power = |bits| power(bits).filter(|power| *power > 0).unwrap_or(i64::MAX);
        bins(&self.0, |bits| match bits {
            ..=0 => (0, 1),
            _ => (power(bits - 1), power(bits)),
        })
    }
}

fn join(into: &mut BTreeMap<i16, u64>, from: &BTreeMap<i16, u64>) {
    for (bin, count) in from {
        *into.entry(*bin).or_default() += count;
    }
}

/// All bins from the first to the last with a count, including empty ones between them.
fn bins(counts: &BTreeMap<i16, u64>, limits: impl Fn(i16) -> (i64, i64)) -> Vec<Bin> {
    let ends = counts.first_key_value().zip(counts.last_key_value());
    let Some(((&first, _), (&last, _))) = ends else { return Vec::new() };
    let bin = |bin| {
        let (from, to) = limits(bin);
        Bin { from, to, count: counts.get(&bin).copied().unwrap_or(0) }
    };
    (first..=last).map(bin).collect()
}

/// Number of limits 1, 2, 5, 10, ... between 0 and `number`; negative for a negative `number`.
fn steps(number: i64) -> i16 {
    let Some(decade) = number.unsigned_abs().checked_ilog10() else { return 0 };
    let leading = number.unsigned_abs() / 10_u64.pow(decade);
    let within = if leading >= 5 { 3 } else { 1 + i16::from(leading >= 2) };
    let steps = 3 * i16::try_from(decade).unwrap_or(i16::MAX / 3) + within;
    if number < 0 { -steps } else { steps }
}

/// The limit with this index in 1, 2, 5, 10, ..., from 0.
fn limit(steps: i16) -> i64 {
    let [decade, within] = [steps / 3, steps % 3].map(|part| u32::try_from(part).unwrap_or(0));
    let leading = [1, 2, 5].get(within as usize).copied().unwrap_or(1);
    10_i64.checked_pow(decade).and_then(|power| power.checked_mul(leading)).unwrap_or(i64::MAX)
}

/// Bins of equal width, and the count of numbers outside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinearBins {
    /// Lower limit of the first bin.
    pub lo: i64,
    /// Upper limit of the last bin, excluded.
    pub hi: i64,
    /// Count of numbers in each bin.
    pub counts: Vec<u64>,
    /// Count of numbers below `lo`.
    pub below: u64,
    /// Count of numbers not below `hi`.
    pub above: u64,
}

impl LinearBins {
    /// Limits and number of bins, such that 0 is in the middle of a bin.
    const LIMIT: i64 = 1_005_000;
    const WIDTH: i64 = 10_000;

    pub(super) fn add(&mut self, number: i64) {
        let bin = number.saturating_sub(self.lo).div_euclid(Self::WIDTH);
        let bin = usize::try_from(bin).ok().and_then(|bin| self.counts.get_mut(bin));
        *match bin {
            Some(count) => count,
            None if number < self.lo => &mut self.below,
            None => &mut self.above,
        } += 1;
    }

    pub(super) fn join(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.below += other.below;
        self.above += other.above;
    }
}

impl Default for LinearBins {
    fn default() -> Self {
        let bins = usize::try_from(2 * Self::LIMIT / Self::WIDTH).unwrap_or(0);
        Self { lo: -Self::LIMIT, hi: Self::LIMIT, counts: vec![0; bins], below: 0, above: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_falls_into_the_bin_that_contains_it(number: i64, small in -3000_i64..3000) {
            for number in [number, small] {
                let mut all = Logarithmic::default();
                all.add(number);
                let [Bin { from, to, count: 1 }] = all.bins()[..] else { panic!("{all:?}") };
                let inside = if number < 0 { from < number && number <= to } else { from <= number && number < to };
                prop_assert!(inside || to == i64::MAX || from == -i64::MAX, "{number} in {from}..{to}");
                let mut all = PowerOfTwo::default();
                all.add(number.unsigned_abs());
                let [Bin { from, to, count: 1 }] = all.bins()[..] else { panic!("{all:?}") };
                let number = i64::try_from(number.unsigned_abs()).unwrap_or(i64::MAX);
                prop_assert!(from <= number && (number < to || to == i64::MAX), "{number} in {from}..{to}");
            }
        }
    }

    #[test]
    fn bins_are_symmetric_around_zero_without_gaps() {
        let mut all = Logarithmic::default();
        [-12, 0, 1, 5].into_iter().for_each(|number| all.add(number));
        let limits: Vec<_> = all.bins().iter().map(|bin| (bin.from, bin.to, bin.count)).collect();
        let expected = [
            (-20, -10, 1),
            (-10, -5, 0),
            (-5, -2, 0),
            (-2, -1, 0),
            (0, 1, 1),
            (1, 2, 1),
            (2, 5, 0),
            (5, 10, 1),
        ];
        assert_eq!(limits, expected);
    }

    #[test]
    fn values_beyond_the_linear_bins_are_counted() {
        let mut plain = LinearBins::default();
        let numbers = [i64::MIN, -1_005_001, -1_005_000, -1, 0, 1_004_999, 1_005_000, i64::MAX];
        numbers.into_iter().for_each(|number| plain.add(number));
        assert_eq!((plain.below, plain.above), (2, 2));
        let filled: Vec<_> =
            plain.counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
        assert_eq!(filled, [(0, &1), (100, &2), (200, &1)]);
    }
}
