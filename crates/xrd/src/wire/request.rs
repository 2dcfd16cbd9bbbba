//! Requests of a client.

mod decode;
mod encode;

use crate::wire::{FileHandle, LoginRequest, ProtocolRequest, Segment, open, request_code};
use bytes::Bytes;
use std::fmt;

/// An open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// The path, with its parameters behind a `?`.
    pub path: String,
    /// [`open`].
    pub options: u16,
    /// Further options.
    pub more_options: u16,
    /// The access rights of a new file, as in `0o644`.
    pub mode: u16,
}

impl OpenRequest {
    /// Creates an open for reading that returns the status.
    #[must_use]
    pub fn for_reading(path: impl Into<String>) -> Self {
        Self { path: path.into(), options: open::READ | open::STAT, more_options: 0, mode: 0 }
    }
}

/// A prepare: stages files from tape, releases them, or cancels an earlier prepare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrepareRequest {
    /// [`prepare`](crate::wire::prepare).
    pub options: u8,
    /// The priority: 0 to 3, the highest.
    pub priority: u8,
    /// The port to notify; 0 for this connection.
    pub port: u16,
    /// Extended options.
    pub more_options: u16,
    /// The paths; of a cancellation, the identifier of the request.
    pub paths: Vec<String>,
}

/// A request on the wire. The [client](crate::client) builds those on open files itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Request {
    /// Version and abilities.
    Protocol(ProtocolRequest),
    /// Login.
    Login(LoginRequest),
    /// A step of authentication.
    Auth {
        /// The method's name, padded with zeros.
        method: [u8; 4],
        /// The credential.
        credentials: Bytes,
    },
    /// Has no effect and gets a response.
    Ping,
    /// Opens a file.
    Open(OpenRequest),
    /// Closes a file.
    Close(FileHandle),
    /// Returns the status of a file.
    Stat(String),
    /// Reads a range of a file.
    Read {
        /// The file.
        handle: FileHandle,
        /// The offset.
        offset: u64,
        /// The number of bytes.
        length: u32,
    },
    /// Reads many ranges.
    ReadVector(Vec<Segment>),
    /// Reads a range with page checksums.
    ReadPages {
        /// The file.
        handle: FileHandle,
        /// The offset.
        offset: u64,
        /// The number of bytes.
        length: u32,
        /// The range arrived damaged before: the server should verify its own checksums.
        again: bool,
    },
    /// Writes bytes into a file.
    Write {
        /// The file.
        handle: FileHandle,
        /// The offset.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Flushes the written bytes of a file to disk. For the target of a third-party copy: the first
    /// one starts the copy, the second one waits for its end.
    Sync(FileHandle),
    /// Lists a directory.
    List {
        /// The directory.
        path: String,
        /// [`dirlist`](crate::wire::dirlist).
        options: u8,
    },
    /// Creates a directory.
    MakeDirectory {
        /// The path.
        path: String,
        /// Create missing parents too.
        parents: bool,
        /// The access rights, as in `0o755`.
        mode: u16,
    },
    /// Removes a file.
    Remove(String),
    /// Removes a directory.
    RemoveDirectory(String),
    /// Renames a file or directory.
    Rename {
        /// The present path.
        from: String,
        /// The new path.
        to: String,
    },
    /// Changes access rights.
    ChangeMode {
        /// The path.
        path: String,
        /// The access rights, as in `0o644`.
        mode: u16,
    },
    /// Locates the replicas of a file.
    Locate {
        /// The file; `*` for all servers, `*path` for those that could have it.
        path: String,
        /// [`locate`](crate::wire::locate).
        options: u16,
    },
    /// A query.
    Query {
        /// [`query_kind`](crate::wire::query_kind).
        kind: u16,
        /// The argument.
        text: String,
    },
    /// Stages files from tape.
    Prepare(PrepareRequest),
    /// Lists the extended attributes of a file, with their values.
    ListAttributes(String),
    /// A request that this crate does not implement, undecoded.
    Other {
        /// Its request code.
        code: u16,
        /// Its fields.
        body: [u8; 16],
        /// Its payload.
        payload: Bytes,
    },
}

impl Request {
    /// The request code.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Protocol(_) => request_code::PROTOCOL,
            Self::Login(_) => request_code::LOGIN,
            Self::Auth { .. } => request_code::AUTH,
            Self::Ping => request_code::PING,
            Self::Open(_) => request_code::OPEN,
            Self::Close(_) => request_code::CLOSE,
            Self::Stat(_) => request_code::STAT,
            Self::Read { .. } => request_code::READ,
            Self::ReadVector(_) => request_code::READV,
            Self::ReadPages { .. } => request_code::PGREAD,
            Self::Write { .. } => request_code::WRITE,
            Self::Sync(_) => request_code::SYNC,
            Self::List { .. } => request_code::DIRLIST,
            Self::MakeDirectory { .. } => request_code::MKDIR,
            Self::Remove(_) => request_code::RM,
            Self::RemoveDirectory(_) => request_code::RMDIR,
            Self::Rename { .. } => request_code::MV,
            Self::ChangeMode { .. } => request_code::CHMOD,
            Self::Locate { .. } => request_code::LOCATE,
            Self::Query { .. } => request_code::QUERY,
            Self::Prepare(_) => request_code::PREPARE,
            Self::ListAttributes(_) => request_code::FATTR,
            Self::Other { code, .. } => *code,
        }
    }

    /// The name of the request, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        request_code::name(self.code())
    }
}

impl fmt::Debug for Request {
    /// Paths may contain authorizations behind a `?`, and credentials are secrets: neither is
    /// printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
        let mut shown = f.debug_struct(self.name());
        match self {
            Self::Open(OpenRequest { path, .. })
            | Self::List { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::Remove(path)
            | Self::RemoveDirectory(path)
            | Self::Rename { from: path, .. }
            | Self::ChangeMode { path, .. }
            | Self::Locate { path, .. }
            | Self::ListAttributes(path)
            | Self::Stat(path) => shown.field("path", &bare(path)),
            Self::Read { handle, offset, length, .. }
            | Self::ReadPages { handle, offset, length, .. } => {
                shown.field("handle", handle).field("offset", offset).field("length", length)
            }
            Self::ReadVector(segments) => shown.field("elements", &segments.len()),
            Self::Write { handle, offset, data } => {
                shown.field("handle", handle).field("offset", offset).field("bytes", &data.len())
            }
            Self::Query { kind, .. } => shown.field("kind", kind),
            _ => &mut shown,
        };
        shown.finish_non_exhaustive()
    }
}
