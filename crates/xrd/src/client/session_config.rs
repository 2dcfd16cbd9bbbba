//! Configuration of a session, and the profile of a server remembered for the next one.

use crate::client::Credential;
use crate::wire::{FileHandle, SecurityMethod, VectorLimits, server};

/// Use of TLS, which the driver sets up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never (`root://`). A server that requires TLS rejects the session, and the error says so.
    #[default]
    Never,
    /// If the server requires it. Nothing is sent ahead then: a server that knows that the client
    /// supports TLS may change to TLS after the login, and would read everything sent ahead as a
    /// broken TLS handshake.
    IfWanted,
    /// Always (`roots://`). The TLS handshake begins when the server has said that it is ready.
    Required,
    /// Always, and the TLS handshake begins right after the first request: one round trip less. For
    /// servers that are known to support TLS.
    RequiredAtOnce,
}

/// The messages that are sent before the server's responses to earlier steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Pipelining {
    /// None: handshake and protocol, login, authentication and requests each wait for the response
    /// before.
    #[default]
    Steps,
    /// Handshake, protocol and login are sent together, and the rest waits. Every server accepts
    /// that.
    Login,
    /// All: handshake, protocol, login, the authentication that the profile predicts, and requests.
    /// Requests on a file use the predicted handle. A server that requires another authentication
    /// closes the connection
    /// ([`SessionError::Mispredicted`](crate::client::SessionError::Mispredicted)).
    Full,
}

/// Configuration of a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The user name; the server sees 8 bytes of it. Empty: `hither`.
    pub user: String,
    /// The id of this process, for the server's log.
    pub process: u32,
    /// Parameters of the login, as `a=b&c=d`, including those that a redirect appends.
    pub words: String,
    /// The credentials for authentication.
    pub credentials: Vec<Credential>,
    /// The use of TLS.
    pub tls: TlsMode,
    /// The messages that are sent ahead; [`ServerProfile::pipelining`] recommends a value.
    pub pipelining: Pipelining,
    /// The profile of the server.
    pub profile: ServerProfile,
}

impl SessionConfig {
    /// Configures a session of this user: unencrypted, step by step, with an unknown server.
    #[must_use]
    pub fn new(user: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            process: 0,
            words: String::new(),
            credentials: Vec::new(),
            tls: TlsMode::default(),
            pipelining: Pipelining::default(),
            profile: ServerProfile::default(),
        }
    }
}

/// Properties learned of a server: plain data, to be remembered between sessions. It contains no
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerProfile {
    /// A login succeeded, so that the other fields are known. Without it
    /// [`pipelining`](Self::pipelining) recommends [`Pipelining::Login`].
    pub proven: bool,
    /// The server's version of the protocol, such as 0x511; 0 if unknown.
    pub version: u32,
    /// Its flags ([`server`]); 0 if unknown.
    pub flags: u32,
    /// The names of the methods that it offered, in its order; empty if it required no
    /// authentication.
    pub methods: Vec<String>,
    /// The method that it accepted.
    pub method: Option<String>,
    /// The handle of the first file opened on a connection: the same for every connection, usually
    /// zeros.
    pub first_handle: Option<[u8; 4]>,
    /// The limits of a vector read.
    pub vector_limits: Option<VectorLimits>,
    /// The numbering of later handles, if known.
    pub numbering: Option<HandleNumbering>,
}

/// A server's numbering of handles: from the lowest number that no open file of the connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleNumbering {
    /// Least significant byte first: xrootd, on most machines.
    LittleEndian,
    /// Most significant byte first.
    BigEndian,
    /// Another scheme: handles cannot be predicted.
    Other,
}

impl HandleNumbering {
    /// The handle of this number; `None` if it cannot be predicted.
    pub(crate) fn handle(self, number: u32) -> Option<FileHandle> {
        match self {
            Self::LittleEndian => Some(FileHandle(number.to_le_bytes())),
            Self::BigEndian => Some(FileHandle(number.to_be_bytes())),
            Self::Other => None,
        }
    }
}

impl ServerProfile {
    /// The messages that may be sent ahead to this server.
    #[must_use]
    pub fn pipelining(&self) -> Pipelining {
        if self.proven { Pipelining::Full } else { Pipelining::Login }
    }

    /// Returns true for a manager: it knows the servers that have files, and has none itself.
    #[must_use]
    pub fn is_manager(&self) -> bool {
        self.flags & server::IS_MANAGER != 0
    }

    /// Returns true if the server supports pages with checksums.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        self.flags & server::PAGES != 0
    }

    /// Returns true if the server supports TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.flags & server::HAVE_TLS != 0
    }

    /// Returns true if the server requires TLS of every client.
    #[must_use]
    pub fn wants_tls(&self) -> bool {
        self.has_tls() && self.flags & (server::TLS_LOGIN | server::TLS_SESSION) != 0
    }

    pub(crate) fn expected_handle(&self) -> FileHandle {
        FileHandle(self.first_handle.unwrap_or_default())
    }

    pub(crate) fn learn_methods(&mut self, methods: &[SecurityMethod]) {
        self.methods = methods.iter().map(|method| method.name.clone()).collect();
        self.method = None;
    }
}
