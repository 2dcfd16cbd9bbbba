//! The knee of a curve: the point from which larger numbers do not increase the rate.

use serde::Serialize;

/// Minimum share of the best rate that counts as equal to it: two measurements of the same storage
/// differ by several percent.
const AS_GOOD: f64 = 0.9;

/// The knee of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Knee {
    /// The smallest number whose rate is at least 90 % of the best rate.
    pub at: u64,
    /// The rate at the knee.
    pub bytes_per_second: f64,
    /// False if the knee is the largest measured number, so that larger ones may be faster.
    pub is_reached: bool,
}

/// The knee of `(number, rate)`, in ascending order of numbers; none without points.
pub(super) fn knee(curve: &[(u64, f64)]) -> Option<Knee> {
    let best = curve.iter().map(|(_, rate)| *rate).max_by(f64::total_cmp)?;
    let (at, bytes_per_second) = *curve.iter().find(|(_, rate)| *rate >= AS_GOOD * best)?;
    Some(Knee {
        at,
        bytes_per_second,
        is_reached: curve.last().is_some_and(|(last, _)| at < *last),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rates: &[f64]) -> Option<(u64, bool)> {
        let curve: Vec<_> = rates.iter().enumerate().map(|(n, rate)| (1 << n, *rate)).collect();
        knee(&curve).map(|it| (it.at, it.is_reached))
    }

    #[test]
    fn the_knee_is_where_more_adds_nothing() {
        assert_eq!(at(&[100.0, 200.0, 390.0, 410.0, 400.0]), Some((4, true)));
        assert_eq!(at(&[500.0, 498.0, 505.0]), Some((1, true)));
        // Above the number of the best rate the rate may fall.
        assert_eq!(at(&[100.0, 300.0, 150.0]), Some((2, true)));
    }

    #[test]
    fn a_curve_that_still_grows_has_not_reached_its_knee() {
        assert_eq!(at(&[1.0, 2.0, 4.0, 8.0]), Some((8, false)));
        assert_eq!(at(&[7.0]), Some((1, false)));
        assert_eq!(at(&[]), None);
    }
}
