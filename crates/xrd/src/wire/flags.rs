//! Bit sets in requests and responses.

/// Options of open.
pub mod open {
    /// Replace an existing file (`kXR_delete`).
    pub const DELETE: u16 = 0x0002;
    /// Open even if the file is open elsewhere.
    pub const FORCE: u16 = 0x0004;
    /// Create; fail if the file exists.
    pub const NEW: u16 = 0x0008;
    /// For reading.
    pub const READ: u16 = 0x0010;
    /// For reading and writing.
    pub const UPDATE: u16 = 0x0020;
    /// Drop cached locations of the file.
    pub const REFRESH: u16 = 0x0080;
    /// Create missing directories.
    pub const MAKE_PATH: u16 = 0x0100;
    /// Return the status too.
    pub const STAT: u16 = 0x0400;
    /// Keep the file only if it is closed properly.
    pub const PERSIST_ON_CLOSE: u16 = 0x1000;
    /// Do not wait for the file to become available.
    pub const NO_WAIT: u16 = 0x2000;
    /// For writing only.
    pub const WRITE: u16 = 0x8000;
}

/// Options of locate.
pub mod locate {
    /// All replicas, however long it takes.
    pub const FORCE: u16 = 0x0004;
    /// Drop cached locations.
    pub const REFRESH: u16 = 0x0080;
    /// Host names instead of addresses.
    pub const NAMES: u16 = 0x0100;
    /// Only locations that are known at once.
    pub const NO_WAIT: u16 = 0x2000;
}

/// Options of dirlist.
pub mod dirlist {
    /// Return the status of each entry.
    pub const STAT: u8 = 2;
}

/// Options of prepare.
pub mod prepare {
    /// Cancel a request.
    pub const CANCEL: u8 = 1;
    /// Do not report failures.
    pub const NO_ERRORS: u8 = 4;
    /// Stage the files to disk.
    pub const STAGE: u8 = 8;
    /// Record that the files were used.
    pub const FRESH: u8 = 64;
    /// The extended option: the files are no longer needed on disk.
    pub const EVICT: u16 = 1;
}

/// Options of a client's protocol request.
pub mod protocol {
    /// Return the signing requirements.
    pub const SECURITY: u8 = 1;
    /// The connection may change to TLS if the server requires it.
    pub const ABLE_TLS: u8 = 2;
    /// The connection must change to TLS now.
    pub const WANT_TLS: u8 = 4;
    /// Return the requirements of a bind.
    pub const BIND: u8 = 8;
    /// The next request is a login.
    pub const EXPECT_LOGIN: u8 = 3;
}

/// Properties of a server, in its response to the protocol request.
pub mod server {
    /// It is a data server.
    pub const IS_SERVER: u32 = 0x0000_0001;
    /// It is a manager: it knows the servers that have files.
    pub const IS_MANAGER: u32 = 0x0000_0002;
    /// It supports pages with checksums.
    pub const PAGES: u32 = 0x0020_0000;
    /// It supports files that are kept only if closed properly.
    pub const PERSIST_ON_CLOSE: u32 = 0x0010_0000;
    /// TLS is needed from the login on.
    pub const TLS_LOGIN: u32 = 0x0400_0000;
    /// TLS is needed after the login.
    pub const TLS_SESSION: u32 = 0x0800_0000;
    /// The next byte from the client must be TLS.
    pub const GOTO_TLS: u32 = 0x4000_0000;
    /// It supports TLS.
    pub const HAVE_TLS: u32 = 0x8000_0000;
}

/// Abilities of a client, in its login.
pub mod ability {
    /// Redirects may be URLs.
    pub const FULL_URL: u8 = 1;
    /// Redirects may come while reading.
    pub const READ_REDIRECT: u8 = 4;
    /// Redirects may have flags.
    pub const REDIRECT_FLAGS: u8 = 128;
    /// In the byte of the version: responses may come later, after a "wait for it".
    pub const LATER_ANSWERS: u8 = 0x80;
    /// In the byte of the version: the one that knows TLS.
    pub const VERSION: u8 = 5;
}

/// Flags of a file's status.
pub mod stat {
    /// A directory.
    pub const DIRECTORY: u32 = 2;
    /// Neither a file nor a directory.
    pub const OTHER: u32 = 4;
    /// Not on disk: an open waits until it has been staged.
    pub const OFFLINE: u32 = 8;
    /// There is a backup, for example on tape.
    pub const BACKUP: u32 = 64;
}

/// Kinds of queries.
pub mod query {
    /// State of a prepare.
    pub const PREPARE: u16 = 2;
    /// Checksum of a file.
    pub const CHECKSUM: u16 = 3;
    /// Space available for a path.
    pub const SPACE: u16 = 5;
    /// Settings of the server.
    pub const CONFIG: u16 = 7;
    /// Information about a file.
    pub const FILE: u16 = 9;
}
