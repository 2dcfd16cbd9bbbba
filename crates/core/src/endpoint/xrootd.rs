//! XRootD parameters of a server: login, handles, and redirects to data servers.

use serde::{Deserialize, Serialize};

/// Parameters of an XRootD server with which a client logs in without querying them first. The
/// numbers are the protocol's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct XrootdEndpoint {
    /// Its protocol version.
    pub version: u32,
    /// Its capability flags.
    pub flags: u32,
    /// Authentication methods that it offers; empty if it requires none.
    pub methods: Vec<String>,
    /// The method that it accepted.
    pub method: Option<String>,
    /// The handle of the first file that is opened on a connection.
    pub first_handle: Option<[u8; 4]>,
    /// Maximum ranges in one vector read, and bytes in each, if it stated them.
    pub vector: Option<(usize, u32)>,
    /// The numbering of the files open on a connection, once it was seen.
    pub numbering: Option<HandleNumbering>,
    /// Redirects to other servers, the last used first.
    pub directions: Vec<LearnedRedirect>,
}

/// Numbering of the files open on a connection: each gets the lowest free number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HandleNumbering {
    /// The lowest byte first.
    LittleEndian,
    /// The highest byte first.
    BigEndian,
    /// Another numbering, not understood.
    Other,
}

/// Redirect of a manager to a data server, learned from an open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LearnedRedirect {
    /// The directory of the file.
    pub directory: String,
    /// The name or address of the server that has it, as it stands in a URL.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Number of files since the last hit that were found on another server.
    pub misses: u8,
}

/// Maximum number of stored methods, and letters in the name of one.
const MAX_METHODS: (usize, usize) = (16, 32);
/// Maximum number of stored redirects of a server.
pub const MAX_DIRECTIONS: usize = 64;
/// Maximum letters in a stored directory and host.
pub const MAX_DIRECTION: (usize, usize) = (1024, 255);

impl XrootdEndpoint {
    /// Drops implausible values.
    #[must_use]
    pub(super) fn clamped(mut self) -> Self {
        let (methods, letters) = MAX_METHODS;
        self.methods.retain(|name| name.len() <= letters);
        self.methods.truncate(methods);
        self.method = self.method.filter(|name| self.methods.contains(name));
        self.directions.retain(LearnedRedirect::is_plausible);
        self.directions.truncate(MAX_DIRECTIONS);
        self
    }
}

impl LearnedRedirect {
    /// Returns true if it is short enough to be stored, and names a server.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let (longest_directory, longest_host) = MAX_DIRECTION;
        self.directory.len() <= longest_directory
            && (1..=longest_host).contains(&self.host.len())
            && self.port != 0
    }
}
