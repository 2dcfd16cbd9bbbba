//! What a session tells its driver.

use crate::wire::{
    AttributeResponse, DirlistEntry, ErrorCode, LocateEntry, Redirect, StatInfo, WireError,
};
use bytes::Bytes;
use std::ops::Range;

/// Names one thing that was asked of a session. Not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(crate) u64);

impl RequestId {
    /// The set-up of the session itself: what a server says to the login.
    pub const SETUP: Self = Self(0);
    /// What the session asks for itself.
    pub(crate) const INTERNAL: Self = Self(1);
}

/// A file that was opened, or is being opened, in one session. Not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct File(pub(crate) u64);

/// Something that happened.
///
/// Each ticket ends with one [`Done`](Self::Done), [`Failed`](Self::Failed) or [`Redirect`](Self::Redirect), unless it was
/// cancelled: then nothing more is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The login is done. Requests needn't wait for it: they are sent as soon as they can be.
    Ready,
    /// The next byte from the server is one of TLS, and so must be the next one to it. Do its handshake, with what is
    /// left in the piece that was handed to [`receive`](crate::client::Session::receive) as the first bytes of it, and call
    /// [`tls_started`](crate::client::Session::tls_started).
    StartTls,
    /// Bytes of a file. They are right; whatever happens later, they needn't be asked for again.
    Data {
        /// Which read they belong to.
        ticket: RequestId,
        /// Where they are in the file.
        offset: u64,
        /// The bytes: a slice of what was handed to [`receive`](crate::client::Session::receive), mostly.
        bytes: Bytes,
    },
    /// Names in a directory.
    Entries {
        /// Which listing they belong to.
        ticket: RequestId,
        /// The names.
        entries: Vec<DirlistEntry>,
    },
    /// It is done.
    Done {
        /// What.
        ticket: RequestId,
        /// What the server answered.
        reply: Completion,
    },
    /// It failed.
    Failed {
        /// What.
        ticket: RequestId,
        /// Why.
        failure: RequestError,
        /// Of a read: what has not been delivered, ascending as it was asked for.
        missing: Vec<Range<u64>>,
    },
    /// Another server is to be asked. Of an open: together with the reads on the file, which fail.
    Redirect {
        /// What is to be asked there. [`Ticket::SETUP`]: everything, and this session is over.
        ticket: RequestId,
        /// Where.
        redirect: Redirect,
        /// Of a read: what has not been delivered.
        missing: Vec<Range<u64>>,
    },
    /// To be asked again after a while, as by [`resume`](crate::client::Session::resume). The server may be fetching the file
    /// from tape, or have too much to do.
    Wait {
        /// What.
        ticket: RequestId,
        /// How long to wait first.
        seconds: u32,
        /// Why, in the server's words.
        message: String,
    },
    /// The answer will come by itself within this time. Nothing is to be done but to wait longer than usual.
    Later {
        /// Which one.
        ticket: RequestId,
        /// The longest that it should take.
        seconds: u32,
    },
    /// A message of the server for its users.
    Message(String),
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completion {
    /// That it is done.
    Nothing,
    /// The file is open.
    Opened {
        /// Which one.
        file: File,
        /// What it is, if the open asked for it.
        status: Option<StatInfo>,
    },
    /// All that there was of a read has been delivered.
    Read {
        /// What has not: what lies beyond the end of the file, usually.
        missing: Vec<Range<u64>>,
        /// Pages that arrived damaged and have not been delivered; to be asked for again.
        damaged: Vec<Range<u64>>,
    },
    /// Written, but for pages that arrived damaged; to be sent again.
    Written {
        /// These pages.
        damaged: Vec<Range<u64>>,
    },
    /// What a file is.
    Status(StatInfo),
    /// What kind of thing each path is: flags of [`stat_flags`](crate::wire::stat_flags).
    Kinds(Vec<u8>),
    /// Who has the file.
    Locations(Vec<LocateEntry>),
    /// What became of attributes.
    Attributes(AttributeResponse),
    /// Text, whose meaning is the request's: see [`checksum`](crate::wire::checksum), [`config`](crate::wire::config),
    /// [`SpaceInfo`](crate::wire::Space).
    Text(Bytes),
}

/// Why something failed. The session goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server refused.
    #[error("the server said: {message} ({})", code.name())]
    Refused {
        /// Why.
        code: ErrorCode,
        /// Why, in the server's words.
        message: String,
    },
    /// The file is not open: its open failed, was redirected or cancelled, or it was closed.
    #[error("the file is not open")]
    NotOpen,
    /// The request cannot be sent, or its answer cannot be understood.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Why a session is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The server said something that is not the protocol.
    #[error("not the XRootD protocol")]
    Wire(#[from] WireError),
    /// An answer to nothing that was asked.
    #[error("an answer with status {status} for stream {stream}, on which nothing was asked")]
    Unasked {
        /// The stream.
        stream: u16,
        /// The answer's status.
        status: u16,
    },
    /// The server is not as its profile says: what was sent ahead was wrong. Connect again, with
    /// [`Session::profile`](crate::client::Session::profile) and [`Pipelining::Steps`](crate::client::Pace::Steps).
    #[error("the server is not as it was: {seen}")]
    Mispredicted {
        /// What is different.
        seen: String,
    },
    /// TLS was required, and the server cannot do it.
    #[error("the server has no TLS: roots:// is not possible here")]
    NoTls,
    /// The server wants TLS. Connect again with [`TlsMode::IfWanted`](crate::client::Tls::IfWanted).
    #[error("the server wants TLS: {message}")]
    TlsWanted {
        /// What it said.
        message: String,
    },
    /// No proof of who one is was accepted, or there is none that the server would accept.
    #[error("the server wants one of {wanted}: {advice}")]
    Unauthenticated {
        /// What the server offers, in its order.
        wanted: String,
        /// What can be done.
        advice: String,
    },
    /// The server wants signed requests, which takes a kind of authentication that is not implemented.
    #[error(
        "the server wants requests to be signed, which is not implemented; TLS makes it unnecessary"
    )]
    SigningWanted,
    /// The server refused the login, or even the protocol.
    #[error("the server refused the {step}: {message} ({})", code.name())]
    Refused {
        /// Which step.
        step: &'static str,
        /// Why.
        code: ErrorCode,
        /// Why, in its words.
        message: String,
    },
    /// The connection ended.
    #[error("the connection ended {during}")]
    Ended {
        /// Amid what.
        during: &'static str,
    },
    /// It was over already.
    #[error("the session is over")]
    Over,
}
