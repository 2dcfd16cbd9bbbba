//! Every form of an answer.

use crate::wire::{
    AttributeAction, AttributeResponse, DirlistEntry, ErrorCode, ErrorResponse, LocateEntry,
    OpenResponse, Redirect, Segment, StatInfo, StatusHead, StatusKind, WaitResponse, WireError,
    correction, paged, request_code, status_code,
};
use bytes::{BufMut, Bytes, BytesMut};
use std::ops::Range;

/// An answer, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Response {
    /// The whole answer, or its last part.
    Ok(Bytes),
    /// A part; more follows.
    Partial(Bytes),
    /// A refusal.
    Error(ErrorResponse),
    /// Elsewhere.
    Redirect(Redirect),
    /// Again after a while.
    Wait(WaitResponse),
    /// The answer will come by itself within so many seconds.
    Later(u32),
    /// Another step of authentication.
    AuthMore(Bytes),
    /// With a checksum: what it answers, and the data behind it.
    Status(StatusHead, Bytes),
}

impl Response {
    /// That it is done.
    #[must_use]
    pub fn nothing() -> Self {
        Self::Ok(Bytes::new())
    }

    /// A refusal.
    #[must_use]
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error(ErrorResponse { code, message: message.into() })
    }

    /// To be asked again.
    #[must_use]
    pub fn wait(seconds: u32, message: impl Into<String>) -> Self {
        Self::Wait(WaitResponse { seconds, message: message.into() })
    }

    /// Text, ended by a NUL as servers do.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Ok([text.as_bytes(), b"\0"].concat().into())
    }

    /// An open file.
    #[must_use]
    pub fn opened(answer: &OpenResponse) -> Self {
        let mut out = BytesMut::new();
        answer.encode(&mut out);
        Self::Ok(out.freeze())
    }

    /// What a file is.
    #[must_use]
    pub fn status(status: &StatInfo) -> Self {
        Self::text(&status.to_text())
    }

    /// A directory.
    #[must_use]
    pub fn listing(entries: &[DirlistEntry], with_status: bool) -> Self {
        Self::Ok(DirlistEntry::to_text(entries, with_status).into())
    }

    /// Who has a file.
    #[must_use]
    pub fn locations(places: &[LocateEntry]) -> Self {
        let words: Vec<_> = places.iter().map(LocateEntry::to_text).collect();
        Self::text(&words.join(" "))
    }

    /// What became of attributes.
    ///
    /// # Errors
    /// Too many of them, or too long ones.
    pub fn attributes(
        action: &AttributeAction,
        answer: &AttributeResponse,
    ) -> Result<Self, WireError> {
        let mut out = BytesMut::new();
        answer.encode(action, &mut out)?;
        Ok(Self::Ok(out.freeze()))
    }

    /// Ranges of a vector read, or some of them: each with its data, whose length is said rather than the range's.
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

    /// Data in pages with checksums; the last part, or not.
    #[must_use]
    pub fn pages(offset: u64, data: &[u8], last: bool) -> Self {
        let pages = paged(offset, data);
        let kind = if last { StatusKind::Final } else { StatusKind::Partial };
        Self::of_pages(request_code::PGREAD, kind, offset, pages)
    }

    /// Pages were written, but for these, which arrived damaged.
    ///
    /// # Errors
    /// Too many of them.
    pub fn written(offset: u64, damaged: &[Range<u64>]) -> Result<Self, WireError> {
        let list = correction(damaged)?;
        Ok(Self::of_pages(request_code::PGWRITE, StatusKind::Final, offset, list))
    }

    fn of_pages(code: u16, kind: StatusKind, offset: u64, data: Bytes) -> Self {
        let data_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        Self::Status(StatusHead { code, kind, data_bytes, offset }, data)
    }

    /// The status it is sent with, and its payload; of [`Response::Status`] only what its head counts.
    pub(super) fn parts(&self) -> (u16, Bytes) {
        let mut out = BytesMut::new();
        let status = match self {
            Self::Ok(payload) => return (status_code::OK, payload.clone()),
            Self::Partial(payload) => return (status_code::OKSOFAR, payload.clone()),
            Self::AuthMore(payload) => return (status_code::AUTHMORE, payload.clone()),
            Self::Error(error) => {
                error.encode(&mut out);
                status_code::ERROR
            }
            Self::Redirect(redirect) => {
                // Its flags are the only thing that may not fit, and come from the wire or from here.
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
