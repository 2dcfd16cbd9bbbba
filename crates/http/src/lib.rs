//! HTTP codecs for reading many ranges of a file: what is asked, and every form that the answer may take. Sans-I/O.
//!
//! The connection and the framing of messages (chunked bodies, lengths, keep-alive) are the transport's; this crate
//! handles what lies above:
//!
//! - [`range_header`]: ranges to the value of a `Range` field, and the exact length of that text;
//! - [`answer`]: status and header fields to one of the forms of an [`RangeResponse`], and the [`ResponseHead`] worth remembering;
//! - [`multipart`]: a body of type `multipart/byteranges` to bytes at offsets, as they arrive;
//! - [`vector`]: many ranges in the body of a `QUERY`, and the frames that answer it;
//! - [`range_set`], [`byteranges`], [`conditions`]: the server's side of ranges, parts and conditional requests;
//! - [`content_range`]: the field that says where bytes belong, in headers and in parts;
//! - [`digest`]: checksums of files in header fields;
//! - [`metalink`]: where else a file is, in a document or in header fields;
//! - [`propfind`]: names and their properties over WebDAV;
//! - [`mod@server_hint`]: what servers of a known make are likely to accept.
//!
//! ```
//! use hither_http::{RangeResponse, Event, MultipartReader, classify, range_header};
//! use http::{HeaderMap, StatusCode, header};
//!
//! let ranges = [0..2, 10..12];
//! assert_eq!(range_header::format(&ranges, None)?, "bytes=0-1,10-11");
//!
//! let mut headers = HeaderMap::new();
//! headers.insert(header::CONTENT_TYPE, "multipart/byteranges; boundary=b".parse()?);
//! let RangeResponse::MultipartReader { boundary } = classify(StatusCode::PARTIAL_CONTENT, &headers, ranges.len())? else {
//!     unreachable!("that was a multipart answer")
//! };
//! let mut body = "--b\r\nContent-Range: bytes 10-11/20\r\n\r\nhi\r\n--b--".into();
//! let mut parts = MultipartReader::new(&boundary)?;
//! let mut found = Vec::new();
//! while let Some(event) = parts.next(&mut body)? {
//!     if let Event::Data { offset, bytes } = event {
//!         found.push((offset, bytes));
//!     }
//! }
//! parts.finish()?;
//! assert_eq!(found, [(10, "hi".into())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod conditions;
pub mod content_range;
pub mod digest;
pub mod metalink;
pub mod multipart;
pub mod propfind;
pub mod range_header;
pub mod range_response;
pub mod range_set;
pub mod server_hint;
pub mod vector;

mod field;
mod text;
mod xml;

pub use content_range::{ContentRange, ContentRangeError};
pub use digest::{Digest, DigestAlgorithm, digests};
pub use metalink::Metalink;
pub use multipart::{MultipartError, MultipartEvent, MultipartReader};
pub use range_response::{
    RangeResponse, RangeResponseError, ResponseHead, RetryAfter, Validator, classify,
};
pub use server_hint::{ServerHint, server_hint};
pub use xml::XmlError;
