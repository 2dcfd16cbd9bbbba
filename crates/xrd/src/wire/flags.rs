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
    /// The server may read in the background.
    pub const ASYNC: u16 = 0x0040;
    /// Drop cached locations of the file.
    pub const REFRESH: u16 = 0x0080;
    /// Create missing directories.
    pub const MAKE_PATH: u16 = 0x0100;
    /// For appending.
    pub const APPEND: u16 = 0x0200;
    /// Return the status too.
    pub const STAT: u16 = 0x0400;
    /// Open for replication to other servers.
    pub const REPLICA: u16 = 0x0800;
    /// Keep the file only if it is closed properly.
    pub const PERSIST_ON_CLOSE: u16 = 0x1000;
    /// Do not wait for the file to become available.
    pub const NO_WAIT: u16 = 0x2000;
    /// The file will be read sequentially.
    pub const SEQUENTIAL: u16 = 0x4000;
    /// For writing only.
    pub const WRITE: u16 = 0x8000;
}

/// Options of locate.
pub mod locate {
    /// Each host once.
    pub const UNIQUE: u16 = 0x0001;
    /// All replicas, however long it takes.
    pub const FORCE: u16 = 0x0004;
    /// Drop cached locations.
    pub const REFRESH: u16 = 0x0080;
    /// Host names instead of addresses.
    pub const NAMES: u16 = 0x0100;
    /// Servers that a directory should be listed from.
    pub const FOR_DIRLIST: u16 = 0x0400;
    /// Only locations that are known at once.
    pub const NO_WAIT: u16 = 0x2000;
}

/// Options of dirlist.
pub mod dirlist {
    /// Only entries that are on disk.
    pub const ONLINE: u8 = 1;
    /// Return the status of each entry.
    pub const STAT: u8 = 2;
    /// Return checksums and the status of each entry.
    pub const CHECKSUM: u8 = 4;
}

/// Options of prepare.
pub mod prepare {
    /// Cancel an earlier request.
    pub const CANCEL: u8 = 1;
    /// Notify on completion.
    pub const NOTIFY: u8 = 2;
    /// Do not report failures.
    pub const NO_ERRORS: u8 = 4;
    /// Stage the files to disk.
    pub const STAGE: u8 = 8;
    /// For writing.
    pub const WRITE_MODE: u8 = 16;
    /// Place the files together.
    pub const COLOCATE: u8 = 32;
    /// Record that the files were used.
    pub const FRESH: u8 = 64;
    /// The extended option: the files are no longer needed on disk.
    pub const EVICT: u16 = 1;
}

/// Options of a client's protocol request.
pub mod protocol {
    /// Return the signing requirements.
    pub const SECURITY: u8 = 1;
    /// The connection may change to TLS when the server wants it.
    pub const ABLE_TLS: u8 = 2;
    /// The connection must change to TLS now.
    pub const WANT_TLS: u8 = 4;
    /// Return the requirements of a bind.
    pub const BIND: u8 = 8;
    /// The next request, in `expect`: unspecified.
    pub const EXPECT_NONE: u8 = 0;
    /// A bind.
    pub const EXPECT_BIND: u8 = 1;
    /// A login.
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
    /// Further connections of a session need TLS.
    pub const TLS_DATA: u32 = 0x0100_0000;
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
    /// It has IPv4 and IPv6.
    pub const BOTH_ADDRESSES: u8 = 8;
    /// Redirects may have flags.
    pub const REDIRECT_FLAGS: u8 = 128;
    /// In the byte of the version: responses may come later, after a "wait for it".
    pub const LATER_ANSWERS: u8 = 0x80;
    /// In the byte of the version: the one that knows TLS.
    pub const VERSION: u8 = 5;
}

/// Flags of a file's status.
pub mod stat {
    /// It may be executed or searched.
    pub const EXECUTABLE: u32 = 1;
    /// A directory.
    pub const DIRECTORY: u32 = 2;
    /// Neither a file nor a directory.
    pub const OTHER: u32 = 4;
    /// On tape, not on disk.
    pub const OFFLINE: u32 = 8;
    /// It may be read.
    pub const READABLE: u32 = 16;
    /// It may be written.
    pub const WRITABLE: u32 = 32;
    /// Removed unless closed properly.
    pub const PENDING: u32 = 64;
    /// There is a copy on tape.
    pub const BACKED_UP: u32 = 128;
}

/// Kinds of queries.
pub mod query {
    /// Statistics of the server.
    pub const STATISTICS: u16 = 1;
    /// State of a prepare.
    pub const PREPARE: u16 = 2;
    /// Checksum of a file.
    pub const CHECKSUM: u16 = 3;
    /// Extended attributes.
    pub const ATTRIBUTES: u16 = 4;
    /// Space behind a path.
    pub const SPACE: u16 = 5;
    /// Cancel the computation of a checksum.
    pub const CHECKSUM_CANCEL: u16 = 6;
    /// Settings of the server.
    pub const CONFIG: u16 = 7;
    /// Information about an open file.
    pub const VISA: u16 = 8;
    /// Information about a file.
    pub const FILE: u16 = 9;
    /// Information about the file system.
    pub const FILE_SYSTEM: u16 = 10;
    /// An opaque query, defined by the server.
    pub const OPAQUE: u16 = 16;
    /// The same, about a path.
    pub const OPAQUE_PATH: u16 = 32;
    /// The same, about an open file.
    pub const OPAQUE_HANDLE: u16 = 64;
}
