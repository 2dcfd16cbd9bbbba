//! What a client asks.

mod decode;
mod encode;

use crate::wire::{
    AttributesRequest, FileHandle, LoginRequest, ProtocolRequest, Segment, SessionId, open,
    request_code,
};
use bytes::Bytes;
use std::fmt;

/// A file, by its path or because it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A path, with what is appended to it behind a `?`. Not empty.
    Path(String),
    /// An open file.
    Handle(FileHandle),
}

/// How a file is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// The path, with what is appended to it behind a `?`.
    pub path: String,
    /// [`open`].
    pub options: u16,
    /// More of them.
    pub more_options: u16,
    /// The access rights of a new file, as in `0o644`.
    pub mode: u16,
}

impl OpenRequest {
    /// For reading, and what stat says with it.
    #[must_use]
    pub fn for_reading(path: impl Into<String>) -> Self {
        Self { path: path.into(), options: open::READ | open::STAT, more_options: 0, mode: 0 }
    }
}

/// Files to be fetched from tape, or given up, or such a request to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrepareRequest {
    /// [`prepare`](crate::wire::prepare).
    pub options: u8,
    /// 0 to 3, the highest.
    pub priority: u8,
    /// Where to notify; 0 for this connection.
    pub port: u16,
    /// Extended options.
    pub more_options: u16,
    /// Paths; of a request that is taken back, its identifier.
    pub paths: Vec<String>,
}

/// A request, as it is on the wire. The [client](crate::client) makes those on open files itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Request {
    /// Version and abilities.
    Protocol(ProtocolRequest),
    /// Begin of a session.
    Login(LoginRequest),
    /// A step of authentication.
    Auth {
        /// The method's name, filled up with zeros.
        method: [u8; 4],
        /// What proves who one is.
        credentials: Bytes,
    },
    /// Makes this connection a path of the session.
    Bind(SessionId),
    /// Ends a session.
    EndSession(SessionId),
    /// Nothing but an answer.
    Ping,
    /// A setting of the session.
    Set(String),
    /// Opens a file.
    Open(OpenRequest),
    /// Closes a file.
    Close(FileHandle),
    /// Writes out what was written.
    Sync(FileHandle),
    /// What a file is.
    Stat {
        /// Which one.
        target: Target,
        /// The file system's state rather than the file's (`kXR_vfs`).
        file_system: bool,
    },
    /// What kind of thing each path is: one byte of [`stat_flags`](crate::wire::stat_flags) for each.
    StatMany(Vec<String>),
    /// Gives a file another size.
    Truncate {
        /// Which one.
        target: Target,
        /// Its size in bytes from now on.
        size: u64,
    },
    /// Bytes of a file.
    Read {
        /// The file.
        handle: FileHandle,
        /// From which byte on.
        offset: u64,
        /// How many.
        length: u32,
        /// On which path of the session the answer is to come.
        path_id: u8,
    },
    /// Many ranges.
    ReadVector(Vec<Segment>),
    /// Bytes of a file, with checksums of pages.
    ReadPages {
        /// The file.
        handle: FileHandle,
        /// From which byte on.
        offset: u64,
        /// How many.
        length: u32,
        /// They arrived damaged before: the server should look at its own checksums.
        again: bool,
    },
    /// Bytes into a file.
    Write {
        /// The file.
        handle: FileHandle,
        /// To which byte on.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Bytes into a file, with checksums of pages.
    WritePages {
        /// The file.
        handle: FileHandle,
        /// To which byte on.
        offset: u64,
        /// A page that arrived damaged before.
        again: bool,
        /// Pages behind their checksums, as of [`paged`](crate::wire::paged).
        pages: Bytes,
    },
    /// Names in a directory.
    List {
        /// The directory.
        path: String,
        /// [`dirlist`](crate::wire::dirlist).
        options: u8,
    },
    /// Makes a directory.
    MakeDirectory {
        /// Which one.
        path: String,
        /// Those above it too.
        parents: bool,
        /// Its access rights, as in `0o755`.
        mode: u16,
    },
    /// Removes a file.
    Remove(String),
    /// Removes a directory.
    RemoveDirectory(String),
    /// Gives another name.
    Rename {
        /// The present one.
        from: String,
        /// The future one.
        to: String,
    },
    /// Changes access rights.
    ChangeMode {
        /// Of what.
        path: String,
        /// The rights, as in `0o644`.
        mode: u16,
    },
    /// Who has a file.
    Locate {
        /// The file; `*` for all servers, `*path` for those that could have it.
        path: String,
        /// [`locate`](crate::wire::locate).
        options: u16,
    },
    /// A question of some kind.
    Query {
        /// [`query_kind`](crate::wire::query_kind).
        kind: u16,
        /// The open file that it is about; zeros otherwise.
        handle: FileHandle,
        /// What is asked.
        text: String,
    },
    /// Fetching files from tape.
    Prepare(PrepareRequest),
    /// Extended attributes.
    Attributes(AttributesRequest),
    /// Something that is not implemented here, as it came.
    Other {
        /// Its number.
        code: u16,
        /// Its fields.
        body: [u8; 16],
        /// What came with it.
        payload: Bytes,
    },
}

impl Request {
    /// The number of the request.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Protocol(_) => request_code::PROTOCOL,
            Self::Login(_) => request_code::LOGIN,
            Self::Auth { .. } => request_code::AUTH,
            Self::Bind(_) => request_code::BIND,
            Self::EndSession(_) => request_code::ENDSESS,
            Self::Ping => request_code::PING,
            Self::Set(_) => request_code::SET,
            Self::Open(_) => request_code::OPEN,
            Self::Close(_) => request_code::CLOSE,
            Self::Sync(_) => request_code::SYNC,
            Self::Stat { .. } => request_code::STAT,
            Self::StatMany(_) => request_code::STATX,
            Self::Truncate { .. } => request_code::TRUNCATE,
            Self::Read { .. } => request_code::READ,
            Self::ReadVector(_) => request_code::READV,
            Self::ReadPages { .. } => request_code::PGREAD,
            Self::Write { .. } => request_code::WRITE,
            Self::WritePages { .. } => request_code::PGWRITE,
            Self::List { .. } => request_code::DIRLIST,
            Self::MakeDirectory { .. } => request_code::MKDIR,
            Self::Remove(_) => request_code::RM,
            Self::RemoveDirectory(_) => request_code::RMDIR,
            Self::Rename { .. } => request_code::MV,
            Self::ChangeMode { .. } => request_code::CHMOD,
            Self::Locate { .. } => request_code::LOCATE,
            Self::Query { .. } => request_code::QUERY,
            Self::Prepare(_) => request_code::PREPARE,
            Self::Attributes(_) => request_code::FATTR,
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
    /// Paths may hold authorisations behind a `?`, and credentials are secrets: neither is shown.
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
            | Self::Stat { target: Target::Path(path), .. }
            | Self::Truncate { target: Target::Path(path), .. } => shown.field("path", &bare(path)),
            Self::Read { handle, offset, length, .. }
            | Self::ReadPages { handle, offset, length, .. } => {
                shown.field("handle", handle).field("offset", offset).field("length", length)
            }
            Self::ReadVector(segments) => shown.field("elements", &segments.len()),
            Self::Write { handle, offset, data, .. }
            | Self::WritePages { handle, offset, pages: data, .. } => {
                shown.field("handle", handle).field("offset", offset).field("bytes", &data.len())
            }
            Self::Query { kind, .. } => shown.field("kind", kind),
            _ => &mut shown,
        };
        shown.finish_non_exhaustive()
    }
}
