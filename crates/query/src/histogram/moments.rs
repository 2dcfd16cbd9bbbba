//! Mean and standard deviation.
//!
//! ROOT (`TH1::GetMean`, `TH1::GetStdDev`) sums `w`, `w x` and `w x^2` in the order of the values,
//! and subtracts large numbers at the end. This module computes the same sums in the same order, so
//! that results agree with ROOT's to the last bit, rounding errors included. For values around 10^9
//! with a spread of 1, however, these sums leave no correct digit of the standard deviation. A
//! second set of sums therefore uses `x - pivot`, where the pivot is the mean of the first group.
//! They are summed in groups with Neumaier's compensation, which keeps all digits. They are the
//! result if the mean is more than [`MAX_PLAIN_RATIO`] standard deviations away from zero.
//!
//! Groups are counted from the first value, not from the start of each chunk, so that the result
//! does not depend on the size of the chunks.

/// Maximum ratio of mean and standard deviation for which ROOT's plain sums are the result. The
/// plain sums lose twice as many decimal digits as this ratio has zeros: half of the sixteen
/// digits.
const MAX_PLAIN_RATIO: f64 = 1e4;

/// Number of values summed plainly before they are added to the compensated sums: plain sums of 128
/// numbers lose two or three bits, and compensation is needed only once per 128 values.
const GROUP_SIZE: usize = 128;

/// Sums over weighted values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moments {
    /// Values of the incomplete group.
    group: Vec<(f64, f64)>,
    pivot: Option<f64>,
    /// Sums of `w`, `w d` and `w d^2`, where `d` is the distance from the pivot.
    sums: [CompensatedSum; 3],
    /// Sums of `w`, `w x` and `w x^2`, as in ROOT.
    plain: [f64; 3],
}

/// A sum and its accumulated rounding error.
#[derive(Debug, Clone, Copy, Default)]
struct CompensatedSum {
    sum: f64,
    error: f64,
}

impl CompensatedSum {
    fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        self.error +=
            if self.sum.abs() >= x.abs() { (self.sum - sum) + x } else { (x - sum) + self.sum };
        self.sum = sum;
    }

    fn value(&self) -> f64 {
        self.sum + self.error
    }
}

impl Moments {
    /// Adds a finite value.
    #[inline]
    pub(crate) fn add(&mut self, value: f64, weight: f64) {
        self.group.push((value, weight));
        if self.group.len() == GROUP_SIZE {
            self.close_group();
        }
    }

    fn close_group(&mut self) {
        let Some((first, _)) = self.group.first().copied() else { return };
        let count = f64::from(u8::try_from(self.group.len()).unwrap_or(u8::MAX));
        let pivot = *self.pivot.get_or_insert_with(|| {
            let offset: f64 = self.group.iter().map(|(value, _)| (value - first) / count).sum();
            if offset.is_finite() { first + offset } else { 0.0 }
        });
        let mut sums = [0.0; 3];
        for (value, weight) in self.group.drain(..) {
            self.plain[0] += weight;
            self.plain[1] += weight * value;
            self.plain[2] += weight * value * value;
            let distance = value - pivot;
            sums[0] += weight;
            sums[1] += weight * distance;
            sums[2] += weight * distance * distance;
        }
        for (total, sum) in self.sums.iter_mut().zip(sums) {
            total.add(sum);
        }
    }

    /// The results so far.
    pub(crate) fn results(&self) -> Results {
        let mut all = self.clone();
        all.close_group();
        let exact = Results::from_sums(all.sums.map(|sum| sum.value()), all.pivot.unwrap_or(0.0));
        if exact.mean.abs() > MAX_PLAIN_RATIO * exact.stddev {
            return exact;
        }
        Results::from_sums(all.plain, 0.0)
    }
}

/// The sums, mean and standard deviation of [`Moments`]; all 0 if the sum of the weights is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Results {
    pub(crate) sum_of_weights: f64,
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
}

impl Results {
    /// Results from the sums of `w`, `w d` and `w d^2`, where `d` is the distance from `pivot`.
    fn from_sums([weights, first, second]: [f64; 3], pivot: f64) -> Self {
        if weights == 0.0 {
            return Self::default();
        }
        let offset = first / weights;
        let variance = second / weights - offset * offset;
        Self {
            sum_of_weights: weights,
            mean: pivot + offset,
            // as in ROOT: weights of both signs can make the variance negative
            stddev: if variance > 0.0 { variance.sqrt() } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results_of(values: impl IntoIterator<Item = (f64, f64)>) -> Results {
        let mut moments = Moments::default();
        values.into_iter().for_each(|(value, weight)| moments.add(value, weight));
        moments.results()
    }

    #[test]
    fn a_small_spread_around_a_large_number_keeps_its_digits() {
        let results = results_of((0..100_000).map(|i| (1e9 + f64::from(i % 2), 1.0)));
        assert_eq!(results.mean, 1e9 + 0.5);
        assert!((results.stddev - 0.5).abs() < 1e-13, "{results:?}");
    }

    #[test]
    fn results_are_weighted() {
        let results = results_of([(1.0, 3.0), (5.0, 1.0)]);
        assert_eq!(results.sum_of_weights, 4.0);
        assert_eq!(results.mean, 2.0);
        assert!((results.stddev - 3_f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn results_equal_roots_where_plain_sums_are_precise() {
        let values: Vec<f64> = (0..10_000).map(|i| (f64::from(i) * 0.37).sin() + 2.0).collect();
        let sum: f64 = values.iter().sum();
        let squares: f64 = values.iter().map(|x| x * x).sum();
        let mean = sum / 10_000.0;
        let results = results_of(values.iter().map(|x| (*x, 1.0)));
        assert_eq!(results.mean, mean);
        assert_eq!(results.stddev, (squares / 10_000.0 - mean * mean).sqrt());
    }

    #[test]
    fn an_early_outlier_loses_few_digits() {
        let values = (0..1_000_000_u32).map(|i| if i == 0 { 1e12 } else { 1e9 + f64::from(i % 2) });
        let mut moments = Moments::default();
        values.for_each(|value| moments.add(value, 1.0));
        moments.close_group();
        let exact = Results::from_sums(moments.sums.map(|sum| sum.value()), moments.pivot.unwrap());
        let mean = 1e9 + (999e9 + 5e5) / 1e6;
        assert!((exact.mean / mean - 1.0).abs() < 1e-14, "{exact:?} {mean}");
    }

    #[test]
    fn mean_and_deviation_of_no_values_are_zero() {
        let results = results_of([]);
        assert_eq!((results.mean, results.stddev), (0.0, 0.0));
    }
}
