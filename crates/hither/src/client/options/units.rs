//! Durations and sizes as people write them.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The seconds that a time limit may have.
const SECONDS: RangeInclusive<f64> = 0.001..=86_400.0;

/// Reads a time limit in seconds.
///
/// # Errors
///
/// A sentence about what was expected.
pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.trim().parse().ok().filter(|seconds| SECONDS.contains(seconds));
    seconds.ok_or_else(|| format!("expected {} to {} seconds", SECONDS.start(), SECONDS.end()))
}

/// Reads a whole number of seconds, minutes, hours or days.
///
/// # Errors
///
/// A sentence about what was expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    scaled(text, &units)
        .map(Duration::from_secs)
        .ok_or_else(|| "expected seconds, or as in 90s, 30m, 12h or 7d".to_owned())
}

/// Reads a number of bytes, with k, M, G or T for powers of a thousand.
///
/// # Errors
///
/// A sentence about what was expected.
pub fn byte_size(text: &str) -> Result<u64, String> {
    let units = [
        ('k', 1_000),
        ('K', 1_000),
        ('M', 1_000_000),
        ('G', 1_000_000_000),
        ('T', 1_000_000_000_000),
    ];
    scaled(text, &units).ok_or_else(|| "expected bytes, as in 500M or 20G".to_owned())
}

/// A whole number with one of these units or none.
fn scaled(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let text = text.trim();
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_of_a_unit() {
        for (text, seconds) in
            [("0", 0), ("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "h", "1.5h", "-1", "1w", "213503982334602d"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_count_in_powers_of_a_thousand() {
        for (text, bytes) in [("0", 0), ("7", 7), ("2k", 2_000), ("500M", 500_000_000)] {
            assert_eq!(byte_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "G", "1.5G", "1MiB", "99999999T"] {
            assert!(byte_size(wrong).is_err(), "{wrong:?}");
        }
    }
}
