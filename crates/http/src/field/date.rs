//! The date of a header field (RFC 9110 section 5.6.7).

use std::time::{SystemTime, UNIX_EPOCH};

/// The last second of the year 9999, beyond which dates cannot be written.
pub const LAST_SECOND: u64 = 253_402_300_799;

/// The text of a time; none before 1970 and after [`LAST_SECOND`].
#[must_use]
pub fn http_date(time: SystemTime) -> Option<String> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    (since.as_secs() <= LAST_SECOND).then(|| httpdate::fmt_http_date(time))
}

/// The time of the last change that a field or property states. None for the first second of 1970,
/// which servers state for all times before (nginx), and for times that they do not know.
#[must_use]
pub fn modification_time(date: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(date).ok().filter(|time| *time > UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_has_a_text_from_1970_until_the_end_of_the_year_9999() {
        let after = |seconds| http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(after(0).as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(after(LAST_SECOND).as_deref(), Some("Fri, 31 Dec 9999 23:59:59 GMT"));
        assert_eq!(after(LAST_SECOND + 1), None);
        assert_eq!(after(i64::MAX as u64), None);
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_secs(1)), None);
    }

    #[test]
    fn the_first_second_of_1970_is_an_unknown_time() {
        let after = |text| modification_time(text)?.duration_since(UNIX_EPOCH).ok();
        assert_eq!(after("Thu, 01 Jan 1970 00:00:00 GMT"), None);
        assert_eq!(after("Thu, 01 Jan 1970 00:00:01 GMT"), Some(Duration::from_secs(1)));
        assert_eq!(after("Wed, 31 Dec 1969 23:59:59 GMT"), None);
        assert_eq!(after("yesterday"), None);
    }
}
