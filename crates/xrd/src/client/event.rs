//! Events of a session.

use crate::wire::{Attribute, DirlistEntry, ErrorCode, LocateEntry, Redirect, StatInfo, WireError};
use bytes::Bytes;
use std::ops::Range;

/// The id of a request to the session. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(crate) u64);

impl RequestId {
    /// The set-up of the session itself: the server's responses to the login.
    pub const SETUP: Self = Self(0);
    /// Requests of the session itself.
    pub(crate) const INTERNAL: Self = Self(1);
}

/// A file that is open, or being opened, in one session. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct File(pub(crate) u64);

/// An event of a session.
///
/// Each request ends with one [`Done`](Self::Done), [`Failed`](Self::Failed) or
/// [`Redirect`](Self::Redirect), unless it was cancelled: then no further event names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The login is complete. Requests do not have to wait for it: each is sent as soon as
    /// possible.
    Ready,
    /// The next byte from the server is TLS, and so must be the next one to it. Do the TLS
    /// handshake, beginning with the bytes left in the piece that was passed to
    /// [`receive`](crate::client::Session::receive), and call
    /// [`tls_started`](crate::client::Session::tls_started).
    StartTls,
    /// Bytes of a file. They are final: they need not be requested again after a later error.
    Data {
        /// The read.
        request_id: RequestId,
        /// The offset in the file.
        offset: u64,
        /// The bytes: mostly a slice of the piece that was passed to
        /// [`receive`](crate::client::Session::receive).
        bytes: Bytes,
    },
    /// Entries of a directory.
    Entries {
        /// The listing.
        request_id: RequestId,
        /// The entries.
        entries: Vec<DirlistEntry>,
    },
    /// A request succeeded.
    Done {
        /// The request.
        request_id: RequestId,
        /// The server's response.
        completion: Completion,
    },
    /// A request failed.
    Failed {
        /// The request.
        request_id: RequestId,
        /// The reason.
        failure: RequestError,
        /// Of a read: the ranges that were not delivered, ascending within the request.
        missing: Vec<Range<u64>>,
    },
    /// A redirect to another server. For an open it also covers the reads on the file, which fail.
    Redirect {
        /// The request to repeat there. [`RequestId::SETUP`] means all requests, and ends this
        /// session.
        request_id: RequestId,
        /// The target.
        redirect: Redirect,
        /// Of a read: the ranges that were not delivered.
        missing: Vec<Range<u64>>,
    },
    /// Repeat the request after a while, with [`resume`](crate::client::Session::resume). The
    /// server may be staging the file from tape, or be overloaded.
    Wait {
        /// The request.
        request_id: RequestId,
        /// The time to wait before the request is repeated.
        seconds: u32,
        /// The server's reason.
        message: String,
    },
    /// The server announced a later response within this time. Wait longer than usual.
    Later {
        /// The request.
        request_id: RequestId,
        /// The maximum time that it should take.
        seconds: u32,
    },
    /// A message of the server for its users.
    Message(String),
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completion {
    /// Success without data.
    Nothing,
    /// The file is open.
    Opened {
        /// The file.
        file: File,
        /// Its status, if the open requested it.
        status: Option<StatInfo>,
    },
    /// The read is complete.
    Read {
        /// The ranges that were not delivered: usually those beyond the end of the file.
        missing: Vec<Range<u64>>,
        /// Pages that arrived damaged and were not delivered; request them again.
        damaged: Vec<Range<u64>>,
    },
    /// The status of a file.
    Status(StatInfo),
    /// The replicas of the file.
    Locations(Vec<LocateEntry>),
    /// The extended attributes of the file.
    Attributes(Vec<Attribute>),
    /// Text whose meaning depends on the request: see [`checksum`](crate::wire::checksum).
    Text(Bytes),
}

/// Reason why a request failed. The session continues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server returned an error.
    #[error("the server said: {message} ({})", code.name())]
    Refused {
        /// The error code.
        code: ErrorCode,
        /// The server's message.
        message: String,
    },
    /// The file is not open: its open failed, was redirected or cancelled, or it was closed.
    #[error("the file is not open")]
    NotOpen,
    /// The request cannot be encoded, or its response cannot be decoded.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Reason why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The server sent bytes that are not the protocol.
    #[error("not the XRootD protocol")]
    Wire(#[from] WireError),
    /// A response without a request.
    #[error("a response with status {status} for stream {stream}, which has no request")]
    Unasked {
        /// The stream.
        stream: u16,
        /// The status of the response.
        status: u16,
    },
    /// The server differs from its profile, so that a message sent ahead was wrong. Connect again
    /// with [`Session::profile`](crate::client::Session::profile) and
    /// [`Pipelining::Steps`](crate::client::Pipelining::Steps).
    #[error("the server differs from its last session: {seen}")]
    Mispredicted {
        /// The difference.
        seen: String,
    },
    /// TLS is required, and the server does not support it.
    #[error("the server does not support TLS, so roots:// is not possible")]
    NoTls,
    /// The server requires TLS. Connect again with
    /// [`TlsMode::IfWanted`](crate::client::TlsMode::IfWanted).
    #[error("the server requires TLS: {message}")]
    TlsWanted {
        /// The server's message.
        message: String,
    },
    /// The server accepted none of the credentials, or no credential fits its methods.
    #[error("the server requires authentication by {wanted}: {advice}")]
    Unauthenticated {
        /// The methods that the server offers, in its order.
        wanted: String,
        /// Advice to the user.
        advice: String,
    },
    /// The server requires signed requests, which need an authentication that is not implemented.
    #[error(
        "the server requires signed requests, which are not implemented; TLS makes them unnecessary"
    )]
    SigningWanted,
    /// The server rejected the login or an earlier step.
    #[error("the server rejected the {step}: {message} ({})", code.name())]
    Refused {
        /// The step.
        step: &'static str,
        /// The error code.
        code: ErrorCode,
        /// The server's message.
        message: String,
    },
    /// The connection ended.
    #[error("the connection ended {during}")]
    Ended {
        /// The step that was interrupted.
        during: &'static str,
    },
    /// The session had ended before.
    #[error("the session is over")]
    Over,
}
