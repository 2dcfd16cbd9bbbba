//! Bandwidth limits: a timetable of rates, in rclone's syntax, and the token bucket that enforces
//! one of them.
//!
//! A timetable is either a rate (`10M`), or entries of a time of the day and the rate from then on.
//! A day of the week before the time restricts an entry to that day: `08:00,512k 12:00,10M
//! 23:00,off`, `Mon-08:00,512k Sat-00:00,off`. A rate is bytes per second with a suffix `B`, `K`,
//! `M`, `G`, `T` or `P` (powers of 1024; without a suffix, `K`), `off`, or two of these, `UP:DOWN`.

use std::str::FromStr;
use std::time::Duration;

/// Minutes of a week.
const WEEK: u32 = 7 * DAY;
/// Minutes of a day.
const DAY: u32 = 24 * 60;
/// Days of the week in the order of a timetable, which begins on Sunday.
const DAYS: [&str; 7] =
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
/// Maximum burst of an idle bucket: connections deliver in bursts.
const BURST: Duration = Duration::from_millis(100);

/// Rates for both directions, in bytes per second; none for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BandwidthRates {
    /// To servers.
    pub up: Option<u64>,
    /// From servers.
    pub down: Option<u64>,
}

/// The rates of a week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthTimetable {
    /// Rates by the minute of the week from which they hold, ascending; at least one.
    entries: Vec<(u32, BandwidthRates)>,
}

impl BandwidthTimetable {
    /// The rates at a minute of the week, which begins on Sunday at midnight.
    #[must_use]
    pub fn rates_at(&self, minute_of_week: u32) -> BandwidthRates {
        let minute = minute_of_week % WEEK;
        let begun = self.entries.iter().rev().find(|(from, _)| *from <= minute);
        // Before the first entry of the week, the last entry of the previous week holds.
        begun.or_else(|| self.entries.last()).map(|(_, rates)| *rates).unwrap_or_default()
    }
}

impl FromStr for BandwidthTimetable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for entry in text.split([' ', ';']).filter(|entry| !entry.is_empty()) {
            let Some((time, rates)) = entry.split_once(',') else {
                if entry == text.trim() {
                    return Ok(Self { entries: vec![(0, rates_of(entry)?)] });
                }
                return Err(format!("{entry:?} has no comma, expected HH:MM,RATE"));
            };
            let rates = rates_of(rates)?;
            match time.split_once('-') {
                Some((day, time)) => entries.push((day_of(day)? + minute_of(time)?, rates)),
                None => {
                    let minute = minute_of(time)?;
                    entries.extend((0..7).map(|day| (day * DAY + minute, rates)));
                }
            }
        }
        if entries.is_empty() {
            return Err("expected a rate, as in 10M, or a timetable".to_owned());
        }
        entries.sort_by_key(|(minute, _)| *minute);
        Ok(Self { entries })
    }
}

fn day_of(text: &str) -> Result<u32, String> {
    let text = text.to_ascii_lowercase();
    let found = (0..).zip(DAYS).find(|(_, day)| text.len() >= 3 && day.starts_with(&text));
    found.map(|(day, _)| day * DAY).ok_or_else(|| format!("{text:?} is not a day of the week"))
}

fn minute_of(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is not a time of day, expected HH:MM");
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str, end: u32| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|number| digits && *number < end).ok_or_else(wrong)
    };
    Ok(number(hours, 24)? * 60 + number(minutes, 60)?)
}

fn rates_of(text: &str) -> Result<BandwidthRates, String> {
    let (up, down) = text.split_once(':').unwrap_or((text, text));
    Ok(BandwidthRates { up: rate_of(up)?, down: rate_of(down)? })
}

fn rate_of(text: &str) -> Result<Option<u64>, String> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let wrong = || format!("{text:?} is not a rate, expected as in 512k, 10M or off");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str()
    {
        "b" => 1,
        "" | "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "p" | "pi" | "pib" => 1 << 50,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let scale = (0..fraction.len()).fold(1, |scale, _| scale * 10);
    let parts = fraction.parse::<u64>().unwrap_or(0);
    let bytes = u128::from(whole) * u128::from(unit)
        + u128::from(parts) * u128::from(unit) / u128::from(scale.max(1_u64));
    let bytes = u64::try_from(bytes).map_err(|_| wrong())?;
    Ok((bytes > 0).then_some(bytes))
}

/// A token bucket. Bytes are taken after they have moved; taking more than available makes all
/// callers wait until the debt is paid.
#[derive(Debug, Default)]
pub struct TokenBucket {
    /// Bytes per second; none for no limit.
    rate: Option<u64>,
    /// The time at which the debt is paid.
    paid_at: Duration,
}

impl TokenBucket {
    /// Changes the rate. Debt at the old rate stays.
    pub fn set_rate(&mut self, rate: Option<u64>) {
        self.rate = rate;
    }

    /// Takes `bytes` that have moved.
    pub fn take(&mut self, bytes: u64, now: Duration) {
        let Some(rate) = self.rate else { return };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let from = self.paid_at.max(now.saturating_sub(BURST));
        self.paid_at = from.saturating_add(cost);
    }

    /// The time until more bytes may move; zero if they may move now.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        if self.rate.is_none() { Duration::ZERO } else { self.paid_at.saturating_sub(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn both(rate: Option<u64>) -> BandwidthRates {
        BandwidthRates { up: rate, down: rate }
    }

    #[test]
    fn the_rates_of_a_timetable_hold_from_their_times_on() {
        let table: BandwidthTimetable = "08:00,512k 12:00,10M 23:00,off".parse().unwrap();
        for (time, rate) in [
            ("Wed", 0, None),
            ("Wed", 8 * 60 - 1, None),
            ("Wed", 8 * 60, Some(512 * KIB)),
            ("Sun", 11 * 60 + 59, Some(512 * KIB)),
            ("Sat", 12 * 60, Some(10 * MIB)),
            ("Sat", 23 * 60, None),
            ("Sun", 0, None),
        ]
        .map(|(day, minute, rate)| (day_of(day).unwrap() + minute, rate))
        {
            assert_eq!(table.rates_at(time), both(rate), "minute {time}");
        }
        let week: BandwidthTimetable = "Mon-08:00,1M;friday-18:30,2M:100k".parse().unwrap();
        let friday = BandwidthRates { up: Some(2 * MIB), down: Some(100 * KIB) };
        assert_eq!(week.rates_at(0), friday, "the last one of the week before");
        assert_eq!(week.rates_at(day_of("thu").unwrap()), both(Some(MIB)));
        assert_eq!(week.rates_at(day_of("sat").unwrap()), friday);
    }

    #[test]
    fn rates_have_units_of_1024() {
        for (text, rate) in [
            ("666", Some(666 * KIB)),
            ("100B", Some(100)),
            ("1.5M", Some(3 * MIB / 2)),
            ("10MiB", Some(10 * MIB)),
            ("1G", Some(KIB * MIB)),
            ("0", None),
            ("off", None),
        ] {
            let table: BandwidthTimetable = text.parse().unwrap();
            assert_eq!(table.rates_at(77), both(rate), "{text}");
        }
    }

    #[test]
    fn malformed_timetables_are_errors() {
        for text in [
            "",
            " ",
            "bad",
            "bad,bad",
            "bad bad",
            "1000X",
            "2401,666",
            "10:61,666",
            "1020,666",
            "bad-10:20,666",
            "Mon-bad,666",
            "Mon-10:20,bad",
            "-1",
            "1M 2M",
            "1..5M",
            ".5M",
            "99999999999999999999P",
            "999999999P",
            "mo-10:00,1",
        ] {
            assert!(text.parse::<BandwidthTimetable>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_bucket_keeps_to_its_rate() {
        let mut bucket = TokenBucket::default();
        bucket.take(u64::MAX, Duration::ZERO);
        assert_eq!(bucket.wait(Duration::ZERO), Duration::ZERO, "without a limit");
        bucket.set_rate(Some(MIB));
        let mut now = Duration::from_secs(5);
        let began = now;
        for _ in 0..1000 {
            bucket.take(64 * KIB, now);
            now += bucket.wait(now);
        }
        let took = now - began + BURST;
        assert_eq!(took, Duration::from_millis(62_500), "62.5 MiB at 1 MiB/s");
        // After a pause, at most a burst may exceed the rate.
        now += Duration::from_secs(60);
        bucket.take(MIB, now);
        assert_eq!(bucket.wait(now), Duration::from_secs(1) - BURST);
        bucket.set_rate(None);
        assert_eq!(bucket.wait(now), Duration::ZERO);
    }
}
