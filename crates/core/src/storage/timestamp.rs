//! Times as numbers, including those before 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the seconds since 1970, negative before, and the nanoseconds after that second.
#[must_use]
pub fn since_1970(time: SystemTime) -> (i64, u32) {
    let seconds = |it: Duration| i64::try_from(it.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (seconds(since), since.subsec_nanos()),
        Err(earlier) => {
            let before = earlier.duration();
            match before.subsec_nanos() {
                0 => (-seconds(before), 0),
                nanos => (-seconds(before) - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

/// Returns the time of a number of seconds and nanoseconds since 1970, as [`since_1970`] returns
/// them; none if this machine cannot express it.
#[must_use]
pub fn from_1970(seconds: i64, nanoseconds: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds {
        0.. => UNIX_EPOCH.checked_add(whole),
        _ => UNIX_EPOCH.checked_sub(whole),
    };
    second?.checked_add(Duration::from_nanos(nanoseconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_and_keep_their_order() {
        let all = [(-631_152_000, 0), (-2, 1), (-1, 0), (-1, 999_999_999), (0, 0), (1, 1)];
        let times = all.map(|(seconds, nanoseconds)| from_1970(seconds, nanoseconds).unwrap());
        assert!(times.is_sorted());
        assert_eq!(times.map(since_1970), all);
    }
}
