//! The messages of the protocol that clients here send and understand, in both directions.
//!
//! All numbers are big-endian, without padding. A connection begins with a handshake of 20 bytes,
//! answered by 16. After that it is a stream of requests in one direction and of responses in the
//! other:
//!
//! ```text
//! request   stream id (2) | code (2)   | body (16) | length (4) | payload (length)
//! response  stream id (2) | status (2) | length (4) | payload (length)
//! status    a response of status 4007: crc32c (4) | stream id (2) | code - 3000 (1) | kind (1)
//!           | 0 (4) | length of data (4) | information, such as an offset (8)
//!           and after it the data, which the length of the response does not count
//! ```
//!
//! The client chooses the stream id. Any number of requests may be in flight, and responses come in
//! any order. A response may come in several frames ([`status_code::OKSOFAR`]), with frames of
//! other streams between them.
//!
//! Decoding allocates at most the bytes that were passed in, never a length that is only stated.
//! The caller that collects those bytes limits them ([`crate::client`], [`crate::server`]).
//!
//! Sources: `XProtocol.hh` of xrootd, which grants free implementation of the protocol, and
//! xrootd's server for points that it leaves open (`XrdXrootdXeq.cc`, `XrdXrootdXeqPgrw.cc`,
//! `XrdXrootdXeqFAttr.cc`, `XrdXrootdResponse.cc`).

mod codes;
mod error;
mod excerpt;
mod fattr;
mod field_reader;
mod flags;
mod frame;
mod ids;
mod login;
mod pages;
mod request;
mod response;
mod vector;
mod write_queue;

pub use codes::{ErrorCode, PROTOCOL_VERSION, request_code, status_code};
pub use error::WireError;
pub use fattr::{Attribute, parse_attributes};
pub use flags::{
    ability, dirlist, locate, open, prepare, protocol, query as query_kind, server,
    stat as stat_flags,
};
pub use frame::{
    HANDSHAKE, HANDSHAKE_RESPONSE_BYTES, HandshakeResponse, REQUEST_HEAD_BYTES,
    RESPONSE_HEAD_BYTES, RequestHead, ResponseHead,
};
pub use ids::{FileHandle, SessionId, StreamId};
pub use login::{
    LoginRequest, LoginResponse, ProtocolRequest, ProtocolResponse, SecurityMethod, Signing,
};
pub use pages::{
    PAGE_BYTES, PAGE_UNIT_BYTES, StatusHead, StatusKind, page_end, paged, unpaged_length,
};
pub use request::{OpenRequest, PrepareRequest, Request};
pub use response::dirlist::{Dirlist, DirlistEntry};
pub use response::locate::{LocateEntry, LocateEntryKind, parse_locate};
pub use response::query::{checksum, vector_limits};
pub use response::redirect::{Redirect, RedirectTarget};
pub use response::stat::StatInfo;
pub use response::{Attention, ErrorResponse, OpenResponse, WaitResponse};
pub use vector::{MAX_ELEMENT_BYTES, MAX_ELEMENTS, SEGMENT_BYTES, Segment, VectorLimits};
pub use write_queue::WriteQueue;

pub(crate) use excerpt::excerpt;
pub(crate) use field_reader::{FieldReader, before_nul, strict_text, text, wire_length};
