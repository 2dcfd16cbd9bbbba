//! Vector reads over HTTP: many ranges in the body of a `QUERY` (RFC 10008), and its framed
//! response.
//!
//! A `Range` field is text in a header, and servers limit headers: ten thousand ranges are 160 kB
//! of text, where nginx accepts 8 kB. The response, `multipart/byteranges`, needs some 100 bytes
//! for every part. `QUERY` is as safe and idempotent as `GET` and has a body. The request is a
//! [list](RangeList) of some four bytes a range, so ten thousand fit into the first two round trips
//! of a connection; the response is a sequence of [frames] with a header of 16 bytes each.
//!
//! `docs/protocols/query.md` is the specification.

pub mod frames;
pub(crate) mod leb128;
mod range_list;

pub use range_list::{RangeList, RangeListError};

use crate::field::{list_items, value};
use crate::text::trim;
use http::header::{HeaderMap, HeaderName};

/// Media type of a list of ranges.
pub const RANGES_TYPE: &str = "application/vnd.hither.ranges.v1";
/// Media type of a framed response.
pub const FRAMES_TYPE: &str = "application/vnd.hither.frames.v1";
/// The field that lists the accepted types of `QUERY` (RFC 10008 section 3).
pub const ACCEPT_QUERY: HeaderName = HeaderName::from_static("accept-query");
/// Maximum number of data bytes in a frame.
pub const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Returns true if a response with this header states that lists of ranges are accepted.
#[must_use]
pub fn is_understood(headers: &HeaderMap) -> bool {
    accepts_query(headers, RANGES_TYPE)
}

/// Returns true if a response with this header states that a `QUERY` with a body of this type is
/// accepted.
pub(crate) fn accepts_query(headers: &HeaderMap, media_type: &str) -> bool {
    let values = headers.get_all(ACCEPT_QUERY);
    values.iter().flat_map(|list| list_items(list.as_bytes())).any(|item| {
        value(item).is_some_and(|(kind, _)| trim(&kind).eq_ignore_ascii_case(media_type.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn servers_say_it_as_string_or_token_among_others() {
        for (text, understood) in [
            ("\"application/vnd.hither.ranges.v1\"", true),
            ("application/sql, APPLICATION/vnd.hither.ranges.v1;q=1", true),
            ("\"application/vnd.hither.ranges.v2\"", false),
            ("\"application/vnd.hither.ranges.v1", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_QUERY, HeaderValue::from_static(text))]);
            assert_eq!(is_understood(&headers), understood, "{text}");
        }
    }
}
