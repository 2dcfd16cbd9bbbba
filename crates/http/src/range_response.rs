//! What a server's answer to a range request means, from status and header fields alone.
//!
//! A server may ignore ranges, merge them, send one of them only, refuse too many, or redirect (RFC 9110 sections
//! 14.2 and 15.3.7). [`classify`] names the form; it decides nothing: whether a whole file is read or thrown away, and
//! whether a refusal means "smaller requests" or "give up", is the transport's to say. An answer that claims a form
//! but lacks what the form needs (a 206 that doesn't say where its bytes belong) is an error, because no byte of it
//! can be trusted.
//!
//! [`ResponseHead`] are what is worth remembering from any answer, whatever its form.

use crate::content_range::{ContentRange, ContentRangeError};
use crate::field;
use crate::multipart::MAX_BOUNDARY_BYTES;
use crate::text::{excerpt, number, trim};
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, LAST_MODIFIED, LOCATION, RETRY_AFTER, SERVER, VIA,
};
use http::{HeaderValue, StatusCode};
use std::ops::Range;
use std::time::Duration;

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeResponse {
    /// 206, several parts: read the body with [`MultipartReader`](crate::Multipart).
    Multipart {
        /// What parts the parts, without the leading `--`.
        boundary: Vec<u8>,
    },
    /// 206, the body is this range of the file. After a request for several ranges it may be all of them merged into
    /// one, or only one of them.
    Single {
        /// The bytes of the file that the body holds.
        range: Range<u64>,
        /// The size of the whole file, in bytes.
        total: Option<u64>,
    },
    /// 200: the body is the whole file, ranges were ignored or the file has changed (`If-Range`).
    Whole {
        /// Its size in bytes, where the header tells it.
        size: Option<u64>,
    },
    /// 416: no range lies in the file, or (Varnish) the server takes one range only. Also 206 of an empty file.
    Unsatisfied {
        /// The size of the whole file in bytes, where the server tells it (nginx and Go do, Apache and lighttpd don't).
        size: Option<u64>,
    },
    /// 413, 414, 431, or 400 to a request for several ranges: ask for fewer ranges at once.
    TooLarge {
        /// The status.
        status: StatusCode,
    },
    /// 301, 302, 303, 307 or 308.
    Redirect {
        /// The status.
        status: StatusCode,
        /// Where to, perhaps relative to the URL that was asked. Untrusted.
        location: String,
    },
    /// Any other status.
    Refused {
        /// The status.
        status: StatusCode,
    },
}

/// An answer that lacks what its status promises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeResponseError {
    /// A 206 with neither `Content-Range` nor a multipart type.
    #[error("status 206 without a content-range, content-type is \"{content_type}\"")]
    NoContentRange {
        /// The type stated, shortened and escaped; empty if none is.
        content_type: String,
    },
    /// A 206 whose range can't be understood.
    #[error("status 206 with a range that cannot be placed")]
    ContentRange(#[from] ContentRangeError),
    /// A 206 of the form `bytes */size`, which belongs to a 416.
    #[error("status 206 says that no range lies in the file of {total} bytes")]
    SatisfiedNothing {
        /// The size that it states.
        total: u64,
    },
    /// A multipart answer without a boundary of 1 to 200 bytes.
    #[error(
        "status 206 with the content-type \"{content_type}\", expected a boundary of 1 to 200 bytes in it"
    )]
    NoBoundary {
        /// The type stated, shortened and escaped.
        content_type: String,
    },
    /// A redirect to nowhere.
    #[error("status {} without a usable location", .status.as_u16())]
    NoLocation {
        /// The status.
        status: StatusCode,
    },
}

/// Names the form of an answer to a request for `ranges_asked` ranges (a tail counts as one; 0 if none was asked).
///
/// # Errors
/// The answer lacks what its status promises.
pub fn classify(
    status: StatusCode,
    headers: &HeaderMap,
    ranges_asked: usize,
) -> Result<RangeResponse, RangeResponseError> {
    match status {
        StatusCode::PARTIAL_CONTENT => partial(headers, ranges_asked),
        StatusCode::OK => Ok(RangeResponse::Whole { size: content_length(headers) }),
        StatusCode::RANGE_NOT_SATISFIABLE => {
            // The size is a convenience here: a field that can't be read is as good as none.
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
            if ranges_asked > 1 =>
        {
            Ok(RangeResponse::TooLarge { status })
        }
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => {
            let location = text(headers, &LOCATION).filter(|location| !location.is_empty());
            let location = location.ok_or(RangeResponseError::NoLocation { status })?;
            Ok(RangeResponse::Redirect { status, location })
        }
        _ => Ok(RangeResponse::Refused { status }),
    }
}

fn partial(headers: &HeaderMap, ranges_asked: usize) -> Result<RangeResponse, RangeResponseError> {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let content_range = headers.get(CONTENT_RANGE);
    // A file may itself be a stored multipart message: then one range was asked and Content-Range tells which.
    if is_multipart(content_type) && (ranges_asked > 1 || content_range.is_none()) {
        let boundary = boundary(content_type).ok_or_else(|| RangeResponseError::NoBoundary {
            content_type: excerpt(content_type),
        })?;
        return Ok(RangeResponse::Multipart { boundary });
    }
    let value = content_range.ok_or_else(|| RangeResponseError::NoContentRange {
        content_type: excerpt(content_type),
    })?;
    match ContentRange::parse(value.as_bytes())? {
        ContentRange::Satisfied { range, total } => Ok(RangeResponse::Single { range, total }),
        // An empty file is one, whatever the status.
        ContentRange::Unsatisfied { total: 0 } => Ok(RangeResponse::Unsatisfied { size: Some(0) }),
        ContentRange::Unsatisfied { total } => Err(RangeResponseError::SatisfiedNothing { total }),
    }
}

/// `multipart/byteranges`, or `multipart/x-byteranges` of servers older than RFC 2616.
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

/// What tells one version of a file from another, fit for `If-Range` (RFC 9110 section 13.1.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validator {
    /// A strong entity tag, with its quotes.
    ETag(HeaderValue),
    /// The date of the last change, as the server wrote it. It can't tell two versions within a second apart.
    LastModified(HeaderValue),
}

impl Validator {
    /// The best validator that the header has: a strong entity tag, else the date. A weak tag (`W/"…"`) is no use
    /// for ranges: it stays the same while bytes change.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let tag = headers.get(ETAG).filter(|tag| is_strong(tag.as_bytes()));
        tag.cloned().map(Self::ETag).or_else(|| {
            let date = headers.get(LAST_MODIFIED).filter(|date| !date.is_empty());
            date.cloned().map(Self::LastModified)
        })
    }

    /// The value for an `If-Range` field.
    #[must_use]
    pub fn if_range(&self) -> &HeaderValue {
        match self {
            Self::ETag(value) | Self::LastModified(value) => value,
        }
    }
}

fn is_strong(tag: &[u8]) -> bool {
    matches!(tag, [b'"', inner @ .., b'"'] if !inner.contains(&b'"'))
}

/// When a server says it may be asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryAfter {
    /// After this time.
    Delay(Duration),
    /// The text of a date (RFC 9110 section 5.6.7), left to who has a clock.
    Date(String),
}

/// What is worth remembering of any answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseHead {
    /// What tells this version of the file from another.
    pub validator: Option<Validator>,
    /// Size of the whole file in bytes, if the header tells it. (A multipart answer tells it in its parts.)
    pub size: Option<u64>,
    /// `Server`: the software of the origin.
    pub server: Option<String>,
    /// `Via`: the caches and proxies on the way.
    pub via: Option<String>,
    /// `Retry-After`.
    pub retry_after: Option<RetryAfter>,
    /// `Accept-Ranges`: whether it says that ranges of bytes are understood, or that none are.
    pub accepts_ranges: Option<bool>,
    /// `Content-Encoding`, if it isn't `identity`. Positions then count encoded bytes: those of the stored file where
    /// the file itself is stored compressed, of nothing in particular where the server compresses as it sends.
    pub content_encoding: Option<String>,
}

impl ResponseHead {
    /// Collects them from an answer.
    #[must_use]
    pub fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let size = match (status, headers.get(CONTENT_RANGE)) {
            (StatusCode::OK, _) => content_length(headers),
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

/// The size of the file from the length of an answer, where that is the same.
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
    text(headers, &CONTENT_ENCODING)
        .filter(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity"))
}

fn retry_after(headers: &HeaderMap) -> Option<RetryAfter> {
    let value = text(headers, &RETRY_AFTER).filter(|value| !value.is_empty())?;
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(RetryAfter::Date(value));
    }
    let (seconds, _) = number(value.as_bytes())?;
    Some(RetryAfter::Delay(Duration::from_secs(seconds)))
}

/// The text of a field, if it is visible ASCII.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|value| value.trim().to_owned())
}
