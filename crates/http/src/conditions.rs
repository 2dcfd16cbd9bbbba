//! Conditional requests, evaluated by a server (RFC 9110 section 13).

pub mod if_header;

use crate::field::list_items;
use crate::text::trim;
use http::header::IF_UNMODIFIED_SINCE;
use http::header::{HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The field of a DELETE, with any value, that must not remove a directory that is not empty.
/// Without it the contents are removed, too (RFC 4918), including those that no listing shows:
/// parts of uploads. Only hither's server supports it.
pub const IF_EMPTY: HeaderName = HeaderName::from_static("hither-if-empty");

/// The validators of the current version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The entity tag with its quotes, and with `W/` if it is weak.
    pub etag: String,
    /// The time of the last change.
    pub modified: SystemTime,
}

/// The outcome of the conditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionResult {
    /// Proceed with the request.
    Proceed,
    /// The client has this version already: 304.
    NotModified,
    /// A precondition failed: 412.
    Failed,
}

/// Evaluates the preconditions of a request; `version` is `None` if the file does not exist.
/// `is_read` is true for GET, HEAD and QUERY.
#[must_use]
pub fn evaluate(headers: &HeaderMap, version: Option<&Version>, is_read: bool) -> ConditionResult {
    if headers.contains_key(IF_MATCH) {
        if !matches_any(headers, &IF_MATCH, version, strong) {
            return ConditionResult::Failed;
        }
    } else if let (Some(date), Some(version)) = (date(headers, &IF_UNMODIFIED_SINCE), version)
        && seconds(version.modified) > seconds(date)
    {
        return ConditionResult::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        return match (matches_any(headers, &IF_NONE_MATCH, version, weak), is_read) {
            (false, _) => ConditionResult::Proceed,
            (true, true) => ConditionResult::NotModified,
            (true, false) => ConditionResult::Failed,
        };
    }
    if let (true, Some(date), Some(version)) = (is_read, date(headers, &IF_MODIFIED_SINCE), version)
        && seconds(version.modified).is_some_and(|modified| Some(modified) <= seconds(date))
    {
        return ConditionResult::NotModified;
    }
    ConditionResult::Proceed
}

/// Returns true if a `Range` field applies: there is no `If-Range`, or it names the current
/// version. A date does so only if the file was not changed in the second before `now`, in which it
/// might have changed twice.
#[must_use]
pub fn if_range_matches(headers: &HeaderMap, version: &Version, now: SystemTime) -> bool {
    let Some(value) = headers.get(IF_RANGE) else { return true };
    let text = trim(value.as_bytes());
    if text.starts_with(b"\"") || text.starts_with(b"W/") {
        return strong(text, version.etag.as_bytes());
    }
    let date = std::str::from_utf8(text).ok().and_then(|text| httpdate::parse_http_date(text).ok());
    let settled =
        now.duration_since(version.modified).is_ok_and(|age| age > Duration::from_secs(1));
    settled && date.is_some_and(|date| seconds(date) == seconds(version.modified))
}

fn matches_any(
    headers: &HeaderMap,
    name: &HeaderName,
    version: Option<&Version>,
    same: fn(&[u8], &[u8]) -> bool,
) -> bool {
    let Some(version) = version else { return false };
    let mut tags = headers.get_all(name).into_iter().flat_map(|list| list_items(list.as_bytes()));
    tags.any(|tag| tag == b"*" || same(tag, version.etag.as_bytes()))
}

/// Strong comparison: both tags are equal, and neither is weak.
pub(crate) fn strong(a: &[u8], b: &[u8]) -> bool {
    a == b && a.starts_with(b"\"")
}

/// Weak comparison: both tags are equal without `W/`.
fn weak(a: &[u8], b: &[u8]) -> bool {
    a.strip_prefix(b"W/").unwrap_or(a) == b.strip_prefix(b"W/").unwrap_or(b)
}

/// The date of a field; an invalid date counts as no field.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?.trim()).ok()
}

/// Seconds since 1970; none before, which no date states.
fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const THEN: u64 = 1_700_000_000;

    fn version(etag: &str) -> Version {
        let modified = UNIX_EPOCH + Duration::from_millis(THEN * 1000 + 400);
        Version { etag: etag.to_owned(), modified }
    }

    fn at(seconds: u64) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn fields(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let field = |(name, value): &(HeaderName, &str)| {
            (name.clone(), HeaderValue::from_str(value).unwrap())
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn tags_decide_before_dates() {
        use ConditionResult::{Failed, NotModified, Proceed};
        let mine = version("\"a\"");
        for (headers, read, write) in [
            (fields(&[]), Proceed, Proceed),
            (fields(&[(IF_MATCH, "\"b\", \"a\"")]), Proceed, Proceed),
            (fields(&[(IF_MATCH, "*")]), Proceed, Proceed),
            (fields(&[(IF_MATCH, "\"b\"")]), Failed, Failed),
            (fields(&[(IF_MATCH, "W/\"a\"")]), Failed, Failed),
            (fields(&[(IF_NONE_MATCH, "W/\"a\"")]), NotModified, Failed),
            (fields(&[(IF_NONE_MATCH, "*")]), NotModified, Failed),
            (
                fields(&[(IF_NONE_MATCH, "\"b\""), (IF_MODIFIED_SINCE, &at(THEN + 9))]),
                Proceed,
                Proceed,
            ),
            (fields(&[(IF_MODIFIED_SINCE, &at(THEN))]), NotModified, Proceed),
            (fields(&[(IF_MODIFIED_SINCE, &at(THEN - 1))]), Proceed, Proceed),
            (fields(&[(IF_MODIFIED_SINCE, "soon")]), Proceed, Proceed),
            (fields(&[(IF_UNMODIFIED_SINCE, &at(THEN))]), Proceed, Proceed),
            (fields(&[(IF_UNMODIFIED_SINCE, &at(THEN - 1))]), Failed, Failed),
        ] {
            assert_eq!(evaluate(&headers, Some(&mine), true), read, "{headers:?}");
            assert_eq!(evaluate(&headers, Some(&mine), false), write, "{headers:?}");
        }
    }

    #[test]
    fn nothing_matches_no_file() {
        assert_eq!(evaluate(&fields(&[(IF_MATCH, "*")]), None, false), ConditionResult::Failed);
        assert_eq!(
            evaluate(&fields(&[(IF_NONE_MATCH, "*")]), None, false),
            ConditionResult::Proceed
        );
    }

    #[test]
    fn a_time_before_1970_equals_no_date() {
        let modified = UNIX_EPOCH - Duration::from_secs(THEN);
        let version = Version { modified, ..version("\"a\"") };
        for (name, is_met) in [(IF_MODIFIED_SINCE, true), (IF_UNMODIFIED_SINCE, true)] {
            let result = evaluate(&fields(&[(name, &at(0))]), Some(&version), true);
            assert_eq!(result == ConditionResult::Proceed, is_met);
        }
        let headers = fields(&[(IF_RANGE, &at(0))]);
        assert!(!if_range_matches(&headers, &version, UNIX_EPOCH + Duration::from_secs(THEN)));
    }

    #[test]
    fn if_range_wants_the_very_version() {
        let now = UNIX_EPOCH + Duration::from_secs(THEN + 10);
        let counts = |etag, value: &str| {
            if_range_matches(&fields(&[(IF_RANGE, value)]), &version(etag), now)
        };
        assert!(if_range_matches(&fields(&[]), &version("\"a\""), now));
        assert!(counts("\"a\"", "\"a\""));
        assert!(!counts("\"a\"", "\"b\""));
        assert!(!counts("W/\"a\"", "W/\"a\""));
        assert!(counts("\"a\"", &at(THEN)));
        assert!(!counts("\"a\"", &at(THEN + 1)) && !counts("\"a\"", "then"));
        let soon = UNIX_EPOCH + Duration::from_secs(THEN + 1);
        let headers = fields(&[(IF_RANGE, &at(THEN))]);
        assert!(!if_range_matches(&headers, &version("\"a\""), soon));
    }
}
