//! HTTP codecs for reading many ranges of a file, for clients and servers. Sans-I/O.
//!
//! A response to a request for many ranges has many forms: one part or several, merged, reordered,
//! the whole file, an error. This crate writes the request, names the form of the response, and
//! reads its body as it arrives. It opens no connection and uses no clock: message framing (chunked
//! bodies, lengths, keep-alive) belongs to an HTTP library such as hyper.
//!
//! For clients:
//! - [`range_header`]: writes a `Range` field, and computes the exact length of its text;
//! - [`range_response`]: classifies a response by status and header fields ([`classify`]), and
//!   collects the fields worth remembering ([`ResponseHead`]);
//! - [`multipart`]: reads a body of type `multipart/byteranges` as bytes at offsets;
//! - [`content_range`]: reads the field that states the position of bytes in the file;
//! - [`object_list`]: reads a page of a list of an object store;
//! - [`mod@server_hint`]: limits that servers of a known make are likely to accept.
//!
//! For both ends:
//! - [`vector`]: many ranges in the body of a `QUERY`, and its framed response;
//! - [`tree`]: the files of a directory tree as a stream of records;
//! - [`digest`]: checksums of files in header fields;
//! - [`date`]: dates in header fields;
//! - [`metalink`]: replicas of a file, in a document or in header fields;
//! - [`propfind`]: listings and properties over WebDAV;
//! - [`server_timing`]: the share of a server in the time of a connection.
//!
//! For servers:
//! - [`range_set`]: reads a `Range` field; [`multipart::writer`]: writes the parts;
//! - [`conditions`]: evaluates conditional requests; [`if_header`]: those of WebDAV.
//!
//! Every reader takes bytes from a peer that is not trusted: lengths are checked before memory is
//! allocated, and errors quote at most 80 bytes, escaped.
//!
//! A request for two ranges, and a response that arrives in one piece:
//!
//! ```
//! use hither_http::{MultipartEvent, MultipartReader, RangeResponse, classify, range_header};
//! use http::{HeaderMap, StatusCode, header};
//!
//! let ranges = [0..2, 10..12];
//! assert_eq!(range_header::format(&ranges, None)?, "bytes=0-1,10-11");
//!
//! let mut headers = HeaderMap::new();
//! headers.insert(header::CONTENT_TYPE, "multipart/byteranges; boundary=b".parse()?);
//! let response = classify(StatusCode::PARTIAL_CONTENT, &headers, ranges.len())?;
//! let RangeResponse::Multipart { boundary } = response else {
//!     panic!("expected a multipart response")
//! };
//!
//! let mut piece = "--b\r\nContent-Range: bytes 10-11/20\r\n\r\nhi\r\n--b--".into();
//! let mut body = MultipartReader::new(&boundary)?;
//! let mut found = Vec::new();
//! while let Some(event) = body.next(&mut piece)? {
//!     if let MultipartEvent::Data { offset, bytes } = event {
//!         found.push((offset, bytes));
//!     }
//! }
//! body.finish()?;
//! assert_eq!(found, [(10, "hi".into())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start reading
//!
//! - forms of responses, and what is learned from them: `src/range_response.rs`,
//!   `crates/transport/src/http/exchange.rs`, `crates/transport/src/pool/capabilities.rs`.

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
pub mod tree;
pub mod vector;

mod field;
mod text;
mod xml;

pub use conditions::if_header;
pub use content_range::{ContentRange, ContentRangeError};
pub use digest::digests;
pub use field::{date, pelican, server_timing};
pub use metalink::Metalink;
pub use multipart::{MultipartError, MultipartEvent, MultipartReader};
pub use pelican::PelicanNamespace;
pub use range_response::{
    RangeResponse, RangeResponseError, ResponseHead, RetryAfter, Validator, classify,
};
pub use server_hint::{ServerHint, server_hint};
pub use xml::{XmlError, object_list};
