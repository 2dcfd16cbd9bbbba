//! Many ranges of a file in one request and one answer: the body of a `QUERY` (RFC 10008) and of the answer to it.
//!
//! A `Range` field is text in a header, and servers bound headers: ten thousand ranges are 160 kB of it, where nginx takes
//! 8 kB. The answer, `multipart/byteranges`, spends some 100 bytes on every part. `QUERY` is as safe and idempotent as
//! `GET` and has a body. The request is a [list](RangeList) of some four bytes a range, so ten thousand fit what a
//! connection may send in its first two round trips; the answer is a row of [frames] of 16 bytes and the data.
//!
//! ```text
//! QUERY /run7/file.root HTTP/1.1                 HTTP/1.1 200 OK
//! Content-Type: application/vnd.hither.ranges.v1 Content-Type: application/vnd.hither.frames.v1
//! If-Match: "17a2-8c1"                           ETag: "17a2-8c1"
//!
//! list                                           frames
//! ```
//!
//! A server that can do so says `Accept-Query: "application/vnd.hither.ranges.v1"` with every answer about a file. Who did
//! not see that does not ask: other servers answer with 405 or 501, or, worse, with the whole file.
//!
//! **The list** is a row of numbers in LEB128: first how many bytes of the end of the file are wanted besides (0 for none:
//! a first request does not know the size), then for each range the distance of its start from the end of the range before,
//! zigzag-coded because the order is the client's own, and its length, which is not 0.
//!
//! **The frames**: each is an offset (8 bytes), a length (4), a CRC32C (4), big-endian, and so many bytes of the file. The
//! sum is of offset, length and data, so that neither bytes nor their place can be damaged unseen. The first frame has no
//! data, and the size of the file in place of an offset. The others come in ascending order or any other, none larger than
//! [`MAX_FRAME_BYTES`]; ranges that touch or overlap may come as one, and every byte comes once. What lies beyond the end
//! of the file does not come.

pub mod frames;
mod range_list;

pub use range_list::{RangeList, RangeListError};

use crate::field::{list_items, value};
use crate::text::trim;
use http::header::{HeaderMap, HeaderName};

/// The type of a list of ranges.
pub const RANGES_TYPE: &str = "application/vnd.hither.ranges.v1";
/// The type of an answer in frames.
pub const FRAMES_TYPE: &str = "application/vnd.hither.frames.v1";
/// The field that says which types of `QUERY` are understood (RFC 10008 section 3).
pub const ACCEPT_QUERY: HeaderName = HeaderName::from_static("accept-query");
/// Most bytes of data in a frame.
pub const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Whether an answer with this header says that lists of ranges are understood.
#[must_use]
pub fn is_understood(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_QUERY);
    values.iter().flat_map(|list| list_items(list.as_bytes())).any(|item| {
        value(item)
            .is_some_and(|(kind, _)| trim(&kind).eq_ignore_ascii_case(RANGES_TYPE.as_bytes()))
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
