//! All forms of a response.

use crate::wire::{
    ErrorCode, ErrorResponse, OpenResponse, Redirect, Segment, StatInfo, StatusHead, StatusKind,
    WaitResponse, paged, request_code, status_code,
};
use bytes::{BufMut, Bytes, BytesMut};

/// A response, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Response {
    /// The whole response, or its last part.
    Ok(Bytes),
    /// A part; more follows.
    Partial(Bytes),
    /// An error.
    Error(ErrorResponse),
    /// A redirect.
    Redirect(Redirect),
    /// Repeat the request after a while.
    Wait(WaitResponse),
    /// The response will follow within this number of seconds.
    Later(u32),
    /// A response with a checksum: its head, and the data behind it.
    Status(StatusHead, Bytes),
}

impl Response {
    /// An empty response.
    #[must_use]
    pub fn nothing() -> Self {
        Self::Ok(Bytes::new())
    }

    /// An error.
    #[must_use]
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error(ErrorResponse { code, message: message.into() })
    }

    /// Repeat the request later.
    #[must_use]
    pub fn wait(seconds: u32, message: impl Into<String>) -> Self {
        Self::Wait(WaitResponse { seconds, message: message.into() })
    }

    /// Text, terminated by a NUL as real servers do.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Ok([text.as_bytes(), b"\0"].concat().into())
    }

    /// The response to an open.
    #[must_use]
    pub fn opened(answer: &OpenResponse) -> Self {
        let mut out = BytesMut::new();
        answer.encode(&mut out);
        Self::Ok(out.freeze())
    }

    /// The response to a stat.
    #[must_use]
    pub fn status(status: &StatInfo) -> Self {
        Self::text(&status.to_text())
    }

    /// Segments of a vector read, all or some of them. Each states the length of its data, which
    /// may be shorter than the range.
    #[must_use]
    pub fn segments(segments: &[(Segment, Bytes)]) -> Bytes {
        let mut out = BytesMut::new();
        for (segment, data) in segments {
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            out.put_slice(&Segment { length, ..*segment }.encode());
            out.put_slice(data);
        }
        out.freeze()
    }

    /// Data in pages with checksums, as the last or another part of the response.
    #[must_use]
    pub fn pages(offset: u64, data: &[u8], last: bool) -> Self {
        let pages = paged(offset, data);
        let kind = if last { StatusKind::Final } else { StatusKind::Partial };
        let data_bytes = u32::try_from(pages.len()).unwrap_or(u32::MAX);
        Self::Status(StatusHead { code: request_code::PGREAD, kind, data_bytes, offset }, pages)
    }

    /// The status code and the payload; for [`Response::Status`] only the part that its head
    /// counts.
    pub(super) fn parts(&self) -> (u16, Bytes) {
        let mut out = BytesMut::new();
        let status = match self {
            Self::Ok(payload) => return (status_code::OK, payload.clone()),
            Self::Partial(payload) => return (status_code::OKSOFAR, payload.clone()),
            Self::Error(error) => {
                error.encode(&mut out);
                status_code::ERROR
            }
            Self::Redirect(redirect) => {
                // Only its flags may be out of range, and they come from the wire or from this
                // crate.
                drop(redirect.encode(&mut out));
                status_code::REDIRECT
            }
            Self::Wait(wait) => {
                wait.encode(&mut out);
                status_code::WAIT
            }
            Self::Later(seconds) => {
                out.put_u32(*seconds);
                status_code::WAITRESP
            }
            Self::Status(..) => status_code::STATUS,
        };
        (status, out.freeze())
    }
}
