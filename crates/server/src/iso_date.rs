//! Times as people and XML write them: `2026-07-01T12:34:56Z` (RFC 3339).

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;
/// Days of a cycle of four hundred years, after which the calendar repeats.
const CYCLE_DAYS: u64 = 146_097;
/// From the first of March of the year 0 to the first of January 1970.
const EPOCH_DAYS: u64 = 719_468;

/// To the second, in UTC; times before 1970 as that.
pub(crate) fn format(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after the first of January 1970. Years begin in March here, so that the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (cycle, day) = (days / CYCLE_DAYS, days % CYCLE_DAYS);
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE_DAYS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_times_are_written_as_they_are() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(format(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn every_day_of_a_cycle_is_the_next_one() {
        let mut last = date(0);
        for days in 1..=CYCLE_DAYS {
            let (year, month, day) = date(days);
            let next_day = (last.0, last.1, last.2 + 1) == (year, month, day) && day <= 31;
            let next_month = (last.0, last.1 + 1, 1) == (year, month, day) && last.2 >= 28;
            let next_year =
                (last.0 + 1, 1, 1) == (year, month, day) && (last.1, last.2) == (12, 31);
            assert!(next_day || next_month || next_year, "{last:?} {year} {month} {day}");
            last = (year, month, day);
        }
        assert_eq!(date(CYCLE_DAYS), (2370, 1, 1));
    }
}
