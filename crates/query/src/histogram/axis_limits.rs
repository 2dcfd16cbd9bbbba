//! Limits for a histogram whose range was not given.
//!
//! The width of a bin has few digits (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten).
//! It is the smallest of these widths for which all values fit, and the lower limit is a multiple
//! of it. The upper limit lies above the largest value, since a bin does not contain its upper
//! edge. For equal values the range extends by 1 on either side, or by a thousandth of the value if
//! that is more. Without values the limits are 0 and 1.

/// The digits of a bin's width.
const DIGITS: [f64; 10] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// Limits for `bins` bins that contain all values from `min` to `max`, both finite.
pub(crate) fn nice_limits(min: f64, max: f64, bins: usize) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "there are at most a million bins")]
    let count = bins.max(1) as f64;
    if min > max {
        return (0.0, 1.0);
    }
    if min == max {
        let half = (min.abs() * 1e-3).max(1.0);
        return (min - half, max + half);
    }
    let min_width = max / count - min / count;
    let mut exponent = min_width.log10().floor() - 1.0;
    // a width that fits is always within three decades, the first one below the smallest width
    for _ in 0..3 {
        for digits in DIGITS {
            let width = digits * 10_f64.powf(exponent);
            if width < min_width || !width.is_normal() {
                continue;
            }
            let lo = (min / width).floor() * width;
            let hi = lo + width * count;
            if lo <= min && hi > max && hi.is_finite() {
                return (lo, hi);
            }
        }
        exponent += 1.0;
    }
    // the values are too close to each other, or too large, for a width with few digits
    (min, max.next_up().min(f64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_are_round_numbers() {
        assert_eq!(nice_limits(0.0, 99.0, 100), (0.0, 100.0));
        assert_eq!(nice_limits(0.0, 100.0, 100), (0.0, 120.0));
        assert_eq!(nice_limits(-3.3, 17.2, 50), (-3.5, 21.5));
        assert_eq!(nice_limits(5.0, 5.0, 100), (4.0, 6.0));
        assert_eq!(nice_limits(f64::INFINITY, f64::NEG_INFINITY, 100), (0.0, 1.0));
    }

    proptest! {
        #[test]
        fn all_values_fit_and_at_most_half_of_the_range_is_empty(
            min in -1e12_f64..1e12,
            spread in prop_oneof![1e-6_f64..1e12, 1e-3_f64..10.0],
            bins in 1_usize..500,
        ) {
            let max = min + spread;
            let (lo, hi) = nice_limits(min, max, bins);
            prop_assert!(lo <= min && max < hi);
            if bins >= 10 && spread > 1e-9 * min.abs() {
                prop_assert!(hi - lo < 1.8 * (max - min), "{} {}", lo, hi);
            }
        }

        #[test]
        fn all_finite_values_have_limits(a in any::<f64>(), b in any::<f64>(), bins in 1_usize..1000) {
            prop_assume!(a.is_finite() && b.is_finite());
            let (lo, hi) = nice_limits(a.min(b), a.max(b), bins);
            prop_assert!(lo < hi && lo.is_finite() && hi.is_finite(), "{} {}", lo, hi);
        }
    }
}
