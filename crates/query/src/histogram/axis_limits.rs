//! Limits for a histogram whose range was not given.
//!
//! The bins get a width with few digits (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten), the smallest with
//! which all values fit, and the lower limit is a multiple of it. The upper limit lies above the largest value, since
//! a bin does not contain its upper edge. Equal values get a range of 1 on either side, or of a thousandth of the
//! value where that is more; no values get 0 to 1.

/// Digits of a bin width.
const DIGITS: [f64; 10] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// Limits for `bins` bins that contain everything from `least` to `greatest`, both finite.
pub(crate) fn nice_limits(least: f64, greatest: f64, bins: usize) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "there are at most a million bins")]
    let count = bins.max(1) as f64;
    if least > greatest {
        return (0.0, 1.0);
    }
    if least == greatest {
        let half = (least.abs() * 1e-3).max(1.0);
        return (least - half, greatest + half);
    }
    let smallest = greatest / count - least / count;
    let mut exponent = smallest.log10().floor() - 1.0;
    // three decades from one below what is needed always contain a width that fits
    for _ in 0..3 {
        for digits in DIGITS {
            let width = digits * 10_f64.powf(exponent);
            if width < smallest || !width.is_normal() {
                continue;
            }
            let lo = (least / width).floor() * width;
            let hi = lo + width * count;
            if lo <= least && hi > greatest && hi.is_finite() {
                return (lo, hi);
            }
        }
        exponent += 1.0;
    }
    // so few digits are left between the values, or so large are they, that nothing nice fits
    (least, greatest.next_up().min(f64::MAX))
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
        fn all_values_fit_and_little_room_is_left(
            least in -1e12_f64..1e12,
            spread in prop_oneof![1e-6_f64..1e12, 1e-3_f64..10.0],
            bins in 1_usize..500,
        ) {
            let greatest = least + spread;
            let (lo, hi) = nice_limits(least, greatest, bins);
            prop_assert!(lo <= least && greatest < hi);
            if bins >= 10 && spread > 1e-9 * least.abs() {
                prop_assert!(hi - lo < 1.8 * (greatest - least), "{} {}", lo, hi);
            }
        }

        #[test]
        fn any_numbers_have_limits(a in any::<f64>(), b in any::<f64>(), bins in 1_usize..1000) {
            prop_assume!(a.is_finite() && b.is_finite());
            let (lo, hi) = nice_limits(a.min(b), a.max(b), bins);
            prop_assert!(lo < hi && lo.is_finite() && hi.is_finite(), "{} {}", lo, hi);
        }
    }
}
