//! A histogram of the selected values, with the semantics of ROOT's `TH1`.
//!
//! A bin contains its lower edge and not its upper one. Values below the range count as underflow;
//! values at its upper limit or above, and NaN, as overflow. Mean and standard deviation are those
//! of the values within the range, weighted, and not corrected for the size of the sample
//! (`TH1::GetMean`, `TH1::GetStdDev`).
//!
//! Without a range the values are buffered until the end. The limits are then chosen from the
//! smallest and the largest value ([`axis_limits`]). Once more than [`MAX_BUFFERED`] values are
//! buffered, the limits are chosen from them. A later value beyond the limits doubles the range
//! towards it and merges the bins in pairs, as in ROOT. Mean and standard deviation are still those
//! of all values, since all are within the range. Infinite values and NaN do not influence the
//! limits, and count as underflow or overflow.

mod axis_limits;
mod moments;

use crate::SelectedValues;
use axis_limits::nice_limits;
use hither_core::{Error, ErrorKind};
use moments::Moments;
use serde::Serialize;

/// Maximum number of bins.
pub const MAX_BINS: usize = 1_000_000;

/// Maximum number of values that are buffered to choose limits: 32 MiB, 64 MiB with weights.
const MAX_BUFFERED: usize = 4 << 20;

/// Counts, mean and standard deviation of the values that passed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Histogram {
    /// Number of bins.
    pub bins: usize,
    /// Lower edge of the first bin.
    pub lo: f64,
    /// Upper edge of the last bin.
    pub hi: f64,
    /// Sum of the weights in each bin.
    pub counts: Vec<f64>,
    /// Sum of the weights below the range.
    pub underflow: f64,
    /// Sum of the weights above the range, and of NaN.
    pub overflow: f64,
    /// Number of entries evaluated.
    pub entries: u64,
    /// Number of values that passed.
    pub selected: u64,
    /// Sum of the weights within the range.
    pub sum_of_weights: f64,
    /// Weighted mean of the values within the range; 0 if there are none.
    pub mean: f64,
    /// Weighted standard deviation of the values within the range; 0 if there are none.
    pub stddev: f64,
}

impl Histogram {
    /// The lower edge of bin `bin`, which for `bin == bins` is the upper limit.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "there are at most a million bins")]
    pub fn edge(&self, bin: usize) -> f64 {
        if bin >= self.bins {
            return self.hi;
        }
        self.lo + (self.hi - self.lo) * (bin as f64 / self.bins as f64)
    }
}

/// Fills a [`Histogram`].
#[derive(Debug, Clone)]
pub struct HistogramBuilder {
    bins: usize,
    axis: Option<Axis>,
    /// True if the limits are chosen from the values.
    automatic: bool,
    buffered: SelectedValues,
    entries: u64,
    selected: u64,
    underflow: f64,
    overflow: f64,
    moments: Moments,
}

/// The bins of a range.
#[derive(Debug, Clone)]
struct Axis {
    lo: f64,
    hi: f64,
    counts: Vec<f64>,
}

/// The bin of a value.
enum BinIndex {
    Underflow,
    Bin(usize),
    Overflow,
}

impl Axis {
    fn new(lo: f64, hi: f64, bins: usize) -> Self {
        Self { lo, hi, counts: vec![0.0; bins] }
    }

    /// `TAxis::FindFixBin`.
    #[inline]
    fn find_bin(&self, value: f64) -> BinIndex {
        if value < self.lo {
            return BinIndex::Underflow;
        }
        if value < self.hi {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "between 0 and the number of bins"
            )]
            let bin = (self.counts.len() as f64 * (value - self.lo) / (self.hi - self.lo)) as usize;
            return BinIndex::Bin(bin.min(self.counts.len().saturating_sub(1)));
        }
        BinIndex::Overflow
    }

    /// Doubles the range towards `value` until it is inside; returns false if that is not possible.
    fn extend_to(&mut self, value: f64) -> bool {
        loop {
            let width = self.hi - self.lo;
            let new_hi = self.hi + width;
            let new_lo = self.lo - width;
            match self.find_bin(value) {
                BinIndex::Bin(_) => return true,
                BinIndex::Overflow
                    if value.is_finite() && new_hi.is_finite() && new_hi - self.lo > width =>
                {
                    self.counts = halved(self.counts.iter().copied(), self.counts.len());
                    self.hi = new_hi;
                }
                BinIndex::Underflow
                    if value.is_finite() && new_lo.is_finite() && self.hi - new_lo > width =>
                {
                    self.counts = halved(self.counts.iter().rev().copied(), self.counts.len());
                    self.counts.reverse();
                    self.lo = new_lo;
                }
                _ => return false,
            }
        }
    }
}

/// Sums of pairs of `counts`, followed by zeros.
fn halved(counts: impl Iterator<Item = f64>, bins: usize) -> Vec<f64> {
    let mut merged = vec![0.0; bins];
    for (i, count) in counts.enumerate() {
        if let Some(bin) = merged.get_mut(i / 2) {
            *bin += count;
        }
    }
    merged
}

impl HistogramBuilder {
    /// Creates a histogram of `bins` bins over `range` (lower limit, upper limit), or with limits
    /// that are chosen from the values.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for no bins, for more than [`MAX_BINS`], and for limits that
    /// are not finite or not in order.
    pub fn new(bins: usize, range: Option<(f64, f64)>) -> Result<Self, Error> {
        if bins == 0 || bins > MAX_BINS {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("a histogram cannot have {bins} bins, expected 1 to {MAX_BINS}"),
            ));
        }
        if let Some((lo, hi)) = range
            && !(lo < hi && (hi - lo).is_finite())
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "range {lo}:{hi} is empty or infinite, expected finite limits, lower:upper"
                ),
            ));
        }
        Ok(Self {
            bins,
            axis: range.map(|(lo, hi)| Axis::new(lo, hi, bins)),
            automatic: range.is_none(),
            buffered: SelectedValues::default(),
            entries: 0,
            selected: 0,
            underflow: 0.0,
            overflow: 0.0,
            moments: Moments::default(),
        })
    }

    /// Adds values. The result is the same to the last bit if chunks are added in the order of
    /// their entries.
    pub fn fill(&mut self, selected: &SelectedValues) {
        self.entries += selected.entries;
        self.selected += selected.values.len() as u64;
        if self.axis.is_some() {
            self.count(selected);
            return;
        }
        let SelectedValues { values, weights, .. } = selected;
        if !weights.is_empty() && self.buffered.weights.is_empty() {
            self.buffered.weights.resize(self.buffered.values.len(), 1.0);
        }
        if !self.buffered.weights.is_empty() || !weights.is_empty() {
            self.buffered.weights.extend(weights);
            self.buffered.weights.resize(self.buffered.values.len() + values.len(), 1.0);
        }
        self.buffered.values.extend(values);
        if self.buffered.values.len() > MAX_BUFFERED {
            self.choose_limits();
        }
    }

    /// The histogram of all values added.
    #[must_use]
    pub fn finish(mut self) -> Histogram {
        let axis = match self.axis.take() {
            Some(axis) => axis,
            None => {
                self.choose_limits();
                self.axis.take().unwrap_or_else(|| Axis::new(0.0, 1.0, self.bins))
            }
        };
        let results = self.moments.results();
        Histogram {
            bins: self.bins,
            lo: axis.lo,
            hi: axis.hi,
            counts: axis.counts,
            underflow: self.underflow,
            overflow: self.overflow,
            entries: self.entries,
            selected: self.selected,
            sum_of_weights: results.sum_of_weights,
            mean: results.mean,
            stddev: results.stddev,
        }
    }

    /// Chooses limits from the buffered values, and adds these to the bins.
    fn choose_limits(&mut self) {
        let buffered = std::mem::take(&mut self.buffered);
        let finite = buffered.values.iter().copied().filter(|value| value.is_finite());
        let (min, max) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| {
            (min.min(value), max.max(value))
        });
        let (lo, hi) = nice_limits(min, max, self.bins);
        self.axis = Some(Axis::new(lo, hi, self.bins));
        self.count(&buffered);
    }

    fn count(&mut self, selected: &SelectedValues) {
        let Some(axis) = &mut self.axis else { return };
        for (i, value) in selected.values.iter().copied().enumerate() {
            let weight = selected.weights.get(i).copied().unwrap_or(1.0);
            let mut index = axis.find_bin(value);
            if self.automatic && !matches!(index, BinIndex::Bin(_)) && axis.extend_to(value) {
                index = axis.find_bin(value);
            }
            match index {
                BinIndex::Underflow => self.underflow += weight,
                BinIndex::Overflow => self.overflow += weight,
                BinIndex::Bin(bin) => {
                    if let Some(count) = axis.counts.get_mut(bin) {
                        *count += weight;
                    }
                    self.moments.add(value, weight);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selected(values: &[f64]) -> SelectedValues {
        SelectedValues {
            entries: values.len() as u64,
            values: values.to_vec(),
            weights: Vec::new(),
        }
    }

    fn fill(bins: usize, range: Option<(f64, f64)>, values: &[f64]) -> Histogram {
        let mut builder = HistogramBuilder::new(bins, range).unwrap();
        builder.fill(&selected(values));
        builder.finish()
    }

    #[test]
    fn a_bin_contains_its_lower_edge() {
        let h =
            fill(4, Some((0.0, 4.0)), &[-0.1, 0.0, 0.9, 1.0, 3.9, 4.0, f64::NAN, f64::INFINITY]);
        assert_eq!(h.counts, [2.0, 1.0, 0.0, 1.0]);
        assert_eq!((h.underflow, h.overflow), (1.0, 3.0));
        assert_eq!((h.selected, h.sum_of_weights), (8, 4.0));
        assert!((h.mean - 1.45).abs() < 1e-15);
    }

    #[test]
    fn without_a_range_every_finite_value_has_a_bin() {
        let h = fill(10, None, &[3.0, -2.0, 17.0, f64::NEG_INFINITY, f64::NAN]);
        assert_eq!((h.lo, h.hi), (-2.0, 18.0));
        assert_eq!(h.counts.iter().sum::<f64>(), 3.0);
        assert_eq!((h.underflow, h.overflow), (1.0, 1.0));
        assert_eq!(h.mean, 6.0);
    }

    #[test]
    fn a_value_beyond_chosen_limits_doubles_the_range() {
        for bins in [4, 5] {
            let mut axis = Axis::new(0.0, f64::from(bins), usize::try_from(bins).unwrap());
            axis.counts.iter_mut().zip(1..).for_each(|(count, i)| *count = f64::from(i));
            let all: f64 = axis.counts.iter().sum();
            assert!(axis.extend_to(1.5 * f64::from(bins)));
            assert_eq!((axis.lo, axis.hi), (0.0, 2.0 * f64::from(bins)));
            assert_eq!(axis.counts[..2], [3.0, 7.0]);
            assert!(axis.extend_to(-0.5));
            assert_eq!((axis.lo, axis.hi), (-2.0 * f64::from(bins), 2.0 * f64::from(bins)));
            assert_eq!(axis.counts.iter().sum::<f64>(), all);
        }
    }

    #[test]
    fn extending_the_range_ends_for_every_value() {
        for value in [f64::MAX, f64::MIN, f64::INFINITY, f64::NAN, 1e300] {
            let mut axis = Axis::new(0.0, 1e-300, 3);
            let inside = axis.extend_to(value);
            assert_eq!(inside, matches!(axis.find_bin(value), BinIndex::Bin(_)));
        }
        assert!(!Axis::new(1e18, 1e18 + 256.0, 3).extend_to(f64::MAX));
    }

    #[test]
    fn invalid_bins_and_ranges_are_an_error() {
        for (bins, range) in [
            (0, None),
            (MAX_BINS + 1, None),
            (10, Some((1.0, 1.0))),
            (10, Some((2.0, 1.0))),
            (10, Some((f64::NAN, 1.0))),
            (10, Some((0.0, f64::INFINITY))),
            (10, Some((f64::MIN, f64::MAX))),
        ] {
            assert_eq!(HistogramBuilder::new(bins, range).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn values_after_the_limits_are_chosen_extend_the_range() {
        let mut builder = HistogramBuilder::new(100, None).unwrap();
        let narrow = selected(&vec![0.5; MAX_BUFFERED / 4]);
        (0..5).for_each(|_| builder.fill(&narrow));
        builder.fill(&selected(&[1000.0, -1000.0]));
        let h = builder.finish();
        assert!(h.lo <= -1000.0 && h.hi > 1000.0, "{} {}", h.lo, h.hi);
        assert_eq!(h.counts.iter().sum::<f64>(), h.selected as f64);
        assert!(h.counts.iter().filter(|count| **count > 0.0).count() == 3);
    }

    proptest! {
        #[test]
        fn the_histogram_does_not_depend_on_the_size_of_the_parts(
            values in prop::collection::vec((-10.0_f64..10.0, prop::option::of(-2.0_f64..2.0)), 0..600),
            cuts in prop::collection::vec(0_usize..600, 0..5),
            range in prop::option::of(Just((-5.0, 5.0))),
        ) {
            let build = |cuts: &[usize]| {
                let mut builder = HistogramBuilder::new(20, range).unwrap();
                let mut start = 0;
                for end in cuts.iter().copied().chain([values.len()]) {
                    let part = &values[start..end.clamp(start, values.len())];
                    start += part.len();
                    let weighted = part.iter().any(|(_, weight)| weight.is_some());
                    builder.fill(&SelectedValues {
                        entries: part.len() as u64,
                        values: part.iter().map(|(value, _)| *value).collect(),
                        weights: if weighted {
                            part.iter().map(|(_, weight)| weight.unwrap_or(1.0)).collect()
                        } else {
                            Vec::new()
                        },
                    });
                }
                builder.finish()
            };
            let mut cuts = cuts;
            cuts.sort_unstable();
            prop_assert_eq!(build(&cuts), build(&[]));
        }
    }
}
