//! A response: status, header, and a body that goes from the backend to the connection in bounded
//! memory.

pub(crate) mod block;
pub(crate) mod body;
pub(crate) mod buffer_pool;
pub(crate) mod page_cache;
pub(crate) mod range_encoder;
pub(crate) mod readahead;
pub(crate) mod recorded_body;
pub(crate) mod streamed_ranges;

use crate::http_error::HttpError;
use crate::response::body::ResponseBody;
use bytes::Bytes;
use hither_http::tree;
use hither_http::vector::RANGES_TYPE;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, header};
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Status, header and body.
#[derive(Debug)]
pub(crate) struct ServerResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
    /// The number of ranges in the body, for the access log.
    pub(crate) ranges: Option<usize>,
}

impl ServerResponse {
    /// A response without fields and body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: ResponseBody::Empty, ranges: None }
    }

    /// A response with a short text.
    pub(crate) fn text(status: StatusCode, media_type: &'static str, text: String) -> Self {
        let mut response = Self::empty(status);
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response.body = ResponseBody::Whole(Bytes::from(text));
        response
    }

    /// Adds a header field; a value that no field can hold is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a header field; a value that no field can hold is left out.
    pub(crate) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }
}

impl From<HttpError> for ServerResponse {
    /// The reason as plain text.
    fn from(error: HttpError) -> Self {
        let media_type = "text/plain; charset=utf-8";
        let mut response = Self::text(error.status, media_type, error.what + "\n");
        for (name, value) in error.fields {
            response.headers.insert(name, value);
        }
        response.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// The value of `Accept-Query`.
pub(crate) fn accept_query() -> String {
    format!("\"{RANGES_TYPE}\"")
}

/// The value of `Accept-Query` for a directory.
pub(crate) fn accept_tree_query() -> String {
    format!("\"{}\"", tree::QUERY_TYPE)
}

/// A time in UTC, to the second (RFC 3339); none for one that has no form, as after the year 9999.
pub(crate) fn rfc3339(time: SystemTime) -> Option<String> {
    let epoch = OffsetDateTime::UNIX_EPOCH;
    let time = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => epoch.checked_add(since.try_into().ok()?),
        Err(before) => epoch.checked_sub(before.duration().try_into().ok()?),
    };
    time?.replace_nanosecond(0).ok()?.format(&Rfc3339).ok()
}

/// A time in UTC with three digits of milliseconds (RFC 3339).
pub(crate) fn rfc3339_millis(time: SystemTime) -> String {
    let seconds = rfc3339(time).unwrap_or_default();
    let millis = time.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_millis();
    format!("{}.{millis:03}Z", seconds.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_written_to_the_second_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(999);
            assert_eq!(rfc3339(time).as_deref(), Some(text));
            assert_eq!(rfc3339_millis(time), text.replace('Z', ".999Z"));
        }
    }

    #[test]
    fn a_time_has_a_text_until_the_end_of_the_year_9999() {
        let after = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(after(253_402_300_799).as_deref(), Some("9999-12-31T23:59:59Z"));
        assert_eq!(after(253_402_300_800), None);
        assert_eq!(after(i64::MAX as u64), None);
        let before = rfc3339(UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!(before.as_deref(), Some("1969-12-31T23:59:58Z"));
    }
}
