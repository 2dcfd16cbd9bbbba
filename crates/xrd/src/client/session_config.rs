//! How a session begins, and what is remembered of a host for the next one.

use crate::client::Credential;
use crate::wire::{FileHandle, SecurityMethod, VectorLimits, server};

/// Whether the connection changes to TLS, which the driver does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// It does not (`root://`). A server that insists refuses, and the session says so.
    #[default]
    Never,
    /// If the server wants it. Nothing is sent ahead then: a server told that the client is able to may change to TLS
    /// after the login, and take whatever was sent ahead for a broken greeting.
    IfWanted,
    /// It must (`roots://`). The greeting of TLS is sent when the server has said that it is ready.
    Required,
    /// It must, and the greeting of TLS goes out right behind the first request: one round trip less. For servers that
    /// were seen to do TLS.
    RequiredAtOnce,
}

/// How much is sent before it is known how the server takes what was sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Pipelining {
    /// Nothing: handshake and protocol, login, authentication and requests each wait for the answer before.
    #[default]
    Steps,
    /// Handshake, protocol and login go together, and the rest waits. Every server takes that.
    Login,
    /// Everything: handshake, protocol, login, the authentication that the profile expects, and requests, of which those
    /// on a file name it by the handle that the server will give it. A server that wants another authentication breaks
    /// off the connection ([`SessionError::Mispredicted`](crate::client::SessionError::Mispredicted)).
    Flight,
}

/// How a session begins.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The user's name; the server sees 8 bytes of it. Empty: `hither`.
    pub user: String,
    /// The number of this process, for the server's log.
    pub process: u32,
    /// Words for the server at the login, as `a=b&c=d`; what a redirect said to append goes here.
    pub words: String,
    /// What there is to prove who one is.
    pub credentials: Vec<Credential>,
    /// Whether the connection changes to TLS.
    pub tls: TlsMode,
    /// How much is sent ahead. [`ServerProfile::pace`] says what suits.
    pub pace: Pipelining,
    /// What is known of the host.
    pub profile: ServerProfile,
}

impl SessionConfig {
    /// Of a session as this user, in clear, step by step, with nothing known of the host.
    #[must_use]
    pub fn new(user: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            process: 0,
            words: String::new(),
            credentials: Vec::new(),
            tls: TlsMode::default(),
            pace: Pipelining::default(),
            profile: ServerProfile::default(),
        }
    }
}

/// What was learned of a host: plain data, to be remembered between sessions. Nothing in it is secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerProfile {
    /// A login succeeded: the rest is what it took. Without it [`pace`](Self::pace) advises caution.
    pub proven: bool,
    /// The version that the server speaks, such as 0x511; 0 if unknown.
    pub version: u32,
    /// What it said of itself ([`server`]); 0 if unknown.
    pub flags: u32,
    /// The names of the methods that it offered, in its order; empty if it wanted no proof.
    pub methods: Vec<String>,
    /// The one that it accepted.
    pub method: Option<String>,
    /// The handle of the first file that was opened on a connection: the same for every connection, usually zeros.
    pub first_handle: Option<[u8; 4]>,
    /// What a vector read may hold.
    pub vector_limits: Option<VectorLimits>,
    /// How the handles of further files are made, if there were any.
    pub numbering: Option<HandleNumbering>,
}

/// How a server makes handles: from the lowest number that no open file of the connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleNumbering {
    /// The lowest byte first: xrootd, on most machines.
    LittleEndian,
    /// The highest byte first.
    BigEndian,
    /// Not so. They cannot be guessed.
    Other,
}

impl HandleNumbering {
    /// The handle of this number; none if it cannot be told.
    pub(crate) fn handle(self, number: u32) -> Option<FileHandle> {
        match self {
            Self::LittleEndian => Some(FileHandle(number.to_le_bytes())),
            Self::BigEndian => Some(FileHandle(number.to_be_bytes())),
            Self::Other => None,
        }
    }
}

impl ServerProfile {
    /// How much may be sent ahead to such a server.
    #[must_use]
    pub fn pace(&self) -> Pipelining {
        if self.proven { Pipelining::Flight } else { Pipelining::Login }
    }

    /// The server knows who has files, and has none itself.
    #[must_use]
    pub fn is_manager(&self) -> bool {
        self.flags & server::IS_MANAGER != 0
    }

    /// The server can read and write pages with checksums.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        self.flags & server::PAGES != 0
    }

    /// The server can do TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.flags & server::HAVE_TLS != 0
    }

    /// The server can do TLS, and wants it of everybody.
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
