//! Classification of a response to a range request, from its status and header fields.
//!
//! A server may ignore ranges, merge them, send only one of them, reject too many, or redirect (RFC
//! 9110 sections 14.2 and 15.3.7). [`classify`] names the form and makes no decision: the transport
//! decides whether to read or drop a whole file, and whether to send smaller requests after an
//! error. A response that lacks a required element of its form (a 206 without a position) is an
//! error, because none of its bytes can be trusted.
//!
//! [`ResponseHead`] holds the fields worth remembering from any response.

use crate::content_range::{ContentRange, ContentRangeError};
use crate::field;
use crate::multipart::MAX_BOUNDARY_BYTES;
use crate::text::{excerpt, number, trim};
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    HeaderMap, HeaderName, LAST_MODIFIED, LOCATION, RETRY_AFTER, SERVER, VIA,
};
use http::{HeaderValue, StatusCode};
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// The form of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeResponse {
    /// 206 with several parts: read the body with [`MultipartReader`](crate::MultipartReader).
    Multipart {
        /// The boundary between the parts, without the leading `--`.
        boundary: Vec<u8>,
    },
    /// 206 with one range of the file. After a request for several ranges this may be all of them
    /// merged, or only one of them.
    Single {
        /// The range of the file in the body.
        range: Range<u64>,
        /// The size of the whole file, in bytes.
        total: Option<u64>,
    },
    /// 200: the body is the whole file. Ranges were ignored, or the file has changed (`If-Range`).
    Whole {
        /// The size in bytes, if the header states it.
        size: Option<u64>,
    },
    /// 416: no range lies in the file, or (Varnish) the server accepts only one range. Also a 206
    /// of an empty file.
    Unsatisfied {
        /// The size of the whole file in bytes, if the server states it (nginx and Go do, Apache
        /// and lighttpd do not).
        size: Option<u64>,
    },
    /// 413, 414, 431, or 400 to a request for several ranges: request fewer ranges at a time.
    TooLarge {
        /// The status.
        status: StatusCode,
    },
    /// 301, 302, 303, 307 or 308.
    Redirect {
        /// The status.
        status: StatusCode,
        /// The target, perhaps relative to the requested URL. Untrusted.
        location: String,
    },
    /// Any other status.
    Refused {
        /// The status.
        status: StatusCode,
    },
}

/// A response that lacks an element that its status requires.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeResponseError {
    /// A 206 with neither `Content-Range` nor a multipart type.
    #[error("status 206 without a content-range, content-type is \"{content_type}\"")]
    NoContentRange {
        /// The stated type, shortened and escaped; empty if there is none.
        content_type: String,
    },
    /// A 206 whose range cannot be parsed.
    #[error("status 206 with an invalid range")]
    ContentRange(#[from] ContentRangeError),
    /// A 206 with `bytes */size`, which belongs to a 416.
    #[error("status 206 states that no range lies in the file of {total} bytes")]
    SatisfiedNothing {
        /// The stated size.
        total: u64,
    },
    /// A body whose length differs from its range, as of an HTML page in place of the data.
    #[error("a body of {length} bytes for a range of {range_bytes}")]
    OtherLength {
        /// The stated length of the body.
        length: u64,
        /// The length of the stated range.
        range_bytes: u64,
    },
    /// A multipart response without a boundary of 1 to 200 bytes.
    #[error(
        "status 206 with the content-type \"{content_type}\", expected a boundary of 1 to 200 bytes in it"
    )]
    NoBoundary {
        /// The stated type, shortened and escaped.
        content_type: String,
    },
    /// A redirect without a target.
    #[error("status {} without a usable location", .status.as_u16())]
    NoLocation {
        /// The status.
        status: StatusCode,
    },
}

/// Classifies the response to a request for `range_count` ranges (a tail counts as one; 0 if none
/// was requested).
///
/// # Errors
/// The response lacks an element that its status requires.
pub fn classify(
    status: StatusCode,
    headers: &HeaderMap,
    range_count: usize,
) -> Result<RangeResponse, RangeResponseError> {
    match status {
        StatusCode::PARTIAL_CONTENT => partial(headers, range_count),
        StatusCode::OK => whole(headers),
        StatusCode::RANGE_NOT_SATISFIABLE if range_count > 0 => {
            // The size is optional here: an invalid field counts as absent.
            let size = headers.get(CONTENT_RANGE).and_then(|value| {
                match ContentRange::parse(value.as_bytes()) {
                    Ok(ContentRange::Unsatisfied { total }) => Some(total),
                    _ => None,
                }
            });
            Ok(RangeResponse::Unsatisfied { size })
        }
        StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::URI_TOO_LONG
        | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        | StatusCode::BAD_REQUEST
            if range_count > 1 =>
        {
            Ok(RangeResponse::TooLarge { status })
        }
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => {
            // Some servers do not encode the letters of names.
            let location = headers.get(LOCATION).and_then(|it| str::from_utf8(it.as_bytes()).ok());
            let location = location.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
            let location = location.ok_or(RangeResponseError::NoLocation { status })?;
            Ok(RangeResponse::Redirect { status, location })
        }
        _ => Ok(RangeResponse::Refused { status }),
    }
}

/// The whole file, or a part of it under the wrong status, as of `rclone serve s3`.
fn whole(headers: &HeaderMap) -> Result<RangeResponse, RangeResponseError> {
    let size = content_length(headers);
    let position = headers.get(CONTENT_RANGE).map(|value| ContentRange::parse(value.as_bytes()));
    match position {
        Some(Ok(ContentRange::Satisfied { range, total }))
            if total != size && total != Some(range.end - range.start) =>
        {
            single(headers, range, total)
        }
        _ => Ok(RangeResponse::Whole { size }),
    }
}

fn single(
    headers: &HeaderMap,
    range: Range<u64>,
    total: Option<u64>,
) -> Result<RangeResponse, RangeResponseError> {
    let range_bytes = range.end - range.start;
    match content_length(headers).filter(|length| *length != range_bytes) {
        Some(length) => Err(RangeResponseError::OtherLength { length, range_bytes }),
        None => Ok(RangeResponse::Single { range, total }),
    }
}

fn partial(headers: &HeaderMap, range_count: usize) -> Result<RangeResponse, RangeResponseError> {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let content_range = headers.get(CONTENT_RANGE);
    // A file may itself be a stored multipart message: then one range was requested and
    // Content-Range states it.
    if is_multipart(content_type) && (range_count > 1 || content_range.is_none()) {
        let boundary = boundary(content_type).ok_or_else(|| RangeResponseError::NoBoundary {
            content_type: excerpt(content_type),
        })?;
        return Ok(RangeResponse::Multipart { boundary });
    }
    let value = content_range.ok_or_else(|| RangeResponseError::NoContentRange {
        content_type: excerpt(content_type),
    })?;
    match ContentRange::parse(value.as_bytes())? {
        ContentRange::Satisfied { range, total } => single(headers, range, total),
        // The file is empty, whatever the status.
        ContentRange::Unsatisfied { total: 0 } => Ok(RangeResponse::Unsatisfied { size: Some(0) }),
        ContentRange::Unsatisfied { total } => Err(RangeResponseError::SatisfiedNothing { total }),
    }
}

/// Matches `multipart/byteranges`, and `multipart/x-byteranges` of servers older than RFC 2616.
fn is_multipart(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    let media_type = trim(media_type);
    media_type.eq_ignore_ascii_case(b"multipart/byteranges")
        || media_type.eq_ignore_ascii_case(b"multipart/x-byteranges")
}

/// The `boundary` parameter.
fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let parameters = content_type.get(content_type.iter().position(|byte| *byte == b';')?..)?;
    let (_, value) =
        field::parameters(parameters).find(|(name, _)| name.eq_ignore_ascii_case(b"boundary"))?;
    (1..=MAX_BOUNDARY_BYTES).contains(&value.len()).then_some(value)
}

/// A validator for `If-Range`: it distinguishes versions of a file (RFC 9110 section 13.1.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validator {
    /// A strong entity tag, with its quotes.
    ETag(HeaderValue),
    /// The date of the last change, as the server wrote it. Two versions within a second have the
    /// same date.
    LastModified(HeaderValue),
}

impl Validator {
    /// The best validator of the header: a strong entity tag, else the date. A weak tag (`W/"…"`)
    /// does not help with ranges: it stays the same while bytes change. Nor does a date equal to
    /// the second of the response (RFC 9110 section 8.8.2.2): the next version may have the same.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let tag = headers.get(ETAG).filter(|tag| is_strong(tag.as_bytes()));
        tag.cloned().map(Self::ETag).or_else(|| Self::date(headers))
    }

    /// The date of the header, if it is a validator.
    #[must_use]
    pub fn date(headers: &HeaderMap) -> Option<Self> {
        let date = headers.get(LAST_MODIFIED).filter(|date| !date.is_empty())?;
        let may_be_of_two = match (time(date), headers.get(DATE).and_then(time)) {
            (Some(modified), Some(now)) => modified >= now,
            _ => false,
        };
        (!may_be_of_two).then(|| Self::LastModified(date.clone()))
    }

    /// The value for an `If-Range` field.
    #[must_use]
    pub fn if_range(&self) -> &HeaderValue {
        match self {
            Self::ETag(value) | Self::LastModified(value) => value,
        }
    }
}

fn time(date: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(date.to_str().ok()?).ok()
}

fn is_strong(tag: &[u8]) -> bool {
    matches!(tag, [b'"', inner @ .., b'"'] if !inner.contains(&b'"'))
}

/// The earliest time for another request, as a server states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryAfter {
    /// After this duration.
    Delay(Duration),
    /// At this time, in a response that does not state when it was sent.
    Date(SystemTime),
}

impl RetryAfter {
    /// The time from `now` on.
    #[must_use]
    pub fn delay(&self, now: SystemTime) -> Duration {
        match self {
            Self::Delay(delay) => *delay,
            Self::Date(date) => date.duration_since(now).unwrap_or_default(),
        }
    }
}

/// Header fields worth remembering from any response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The validator of this version of the file.
    pub validator: Option<Validator>,
    /// Size of the whole file in bytes, if the header states it. (A multipart response states it in
    /// its parts.)
    pub size: Option<u64>,
    /// `Server`: the software of the origin.
    pub server: Option<String>,
    /// `Via`: the caches and proxies on the path.
    pub via: Option<String>,
    /// `Retry-After`.
    pub retry_after: Option<RetryAfter>,
    /// `Accept-Ranges`: true for byte ranges, false for none.
    pub accepts_ranges: Option<bool>,
    /// `Content-Encoding`, unless it is `identity`. Positions then count encoded bytes: those of
    /// the stored file if it is stored compressed, and not reproducible ones if the server
    /// compresses on the fly.
    pub content_encoding: Option<String>,
}

impl ResponseHead {
    /// Collects the fields of a response.
    #[must_use]
    pub fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let size = match (status, headers.get(CONTENT_RANGE)) {
            (StatusCode::OK, _) => match whole(headers) {
                Ok(RangeResponse::Single { total, .. }) => total,
                Ok(RangeResponse::Whole { size }) => size,
                _ => None,
            },
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, Some(value)) => {
                match ContentRange::parse(value.as_bytes()) {
                    Ok(ContentRange::Satisfied { total, .. }) => total,
                    Ok(ContentRange::Unsatisfied { total }) => Some(total),
                    Err(_) => None,
                }
            }
            _ => None,
        };
        Self {
            validator: Validator::of(headers),
            size,
            server: text(headers, &SERVER),
            via: text(headers, &VIA),
            retry_after: retry_after(headers),
            accepts_ranges: accepts_ranges(headers),
            content_encoding: content_encoding(headers),
        }
    }
}

/// The size of the file, if it is the length of the response.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    if content_encoding(headers).is_some() {
        return None;
    }
    let value = trim(headers.get(CONTENT_LENGTH)?.as_bytes());
    number(value).and_then(|(length, rest)| rest.is_empty().then_some(length))
}

fn accepts_ranges(headers: &HeaderMap) -> Option<bool> {
    let units = text(headers, &ACCEPT_RANGES)?;
    match units.trim() {
        unit if unit.eq_ignore_ascii_case("bytes") => Some(true),
        unit if unit.eq_ignore_ascii_case("none") => Some(false),
        _ => None,
    }
}

fn content_encoding(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(CONTENT_ENCODING).into_iter().map(HeaderValue::as_bytes);
    let all = String::from_utf8_lossy(&all.collect::<Vec<_>>().join(&b", "[..])).into_owned();
    let mut codings = all.split(',').map(str::trim).filter(|coding| !coding.is_empty());
    codings.any(|coding| !coding.eq_ignore_ascii_case("identity")).then_some(all)
}

fn retry_after(headers: &HeaderMap) -> Option<RetryAfter> {
    let value = text(headers, &RETRY_AFTER).filter(|value| !value.is_empty())?;
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = number(value.as_bytes()).map_or(u64::MAX, |(seconds, _)| seconds);
        return Some(RetryAfter::Delay(Duration::from_secs(seconds)));
    }
    let date = httpdate::parse_http_date(&value).ok()?;
    // The clock of the server is decisive, even if it is wrong.
    let sent = text(headers, &DATE).and_then(|sent| httpdate::parse_http_date(&sent).ok());
    let after = RetryAfter::Date(date);
    match sent {
        Some(sent) => Some(RetryAfter::Delay(after.delay(sent))),
        None => Some(after),
    }
}

/// The text of a field, if it is visible ASCII.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|value| value.trim().to_owned())
}
