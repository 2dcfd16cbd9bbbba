//! Sets of bits in requests and answers.

/// How a file is opened: `options` of open.
pub mod open {
    /// Replace a file that is there (`kXR_delete`).
    pub const DELETE: u16 = 0x0002;
    /// Even if somebody else has it open.
    pub const FORCE: u16 = 0x0004;
    /// Only if there is none.
    pub const NEW: u16 = 0x0008;
    /// For reading.
    pub const READ: u16 = 0x0010;
    /// For reading and writing.
    pub const UPDATE: u16 = 0x0020;
    /// The server may read in the background.
    pub const ASYNC: u16 = 0x0040;
    /// Forget what is known about where the file is.
    pub const REFRESH: u16 = 0x0080;
    /// Make the directories.
    pub const MAKE_PATH: u16 = 0x0100;
    /// For appending.
    pub const APPEND: u16 = 0x0200;
    /// Say what stat would say.
    pub const STAT: u16 = 0x0400;
    /// A copy for other servers is made.
    pub const REPLICA: u16 = 0x0800;
    /// Keep the file only if it is closed properly.
    pub const PERSIST_ON_CLOSE: u16 = 0x1000;
    /// Do not wait for the file to become available.
    pub const NO_WAIT: u16 = 0x2000;
    /// It will be read from the front.
    pub const SEQUENTIAL: u16 = 0x4000;
    /// For writing only.
    pub const WRITE: u16 = 0x8000;
}

/// Options of locate.
pub mod locate {
    /// Each host once.
    pub const UNIQUE: u16 = 0x0001;
    /// All of them, however long it takes.
    pub const FORCE: u16 = 0x0004;
    /// Forget what is known.
    pub const REFRESH: u16 = 0x0080;
    /// Names of hosts rather than addresses.
    pub const NAMES: u16 = 0x0100;
    /// Those that a directory should be listed from.
    pub const FOR_DIRLIST: u16 = 0x0400;
    /// What is known at once.
    pub const NO_WAIT: u16 = 0x2000;
}

/// Options of dirlist.
pub mod dirlist {
    /// Only what is not on tape alone.
    pub const ONLINE: u8 = 1;
    /// With what stat says of each.
    pub const STAT: u8 = 2;
    /// With checksums, and with what stat says.
    pub const CHECKSUM: u8 = 4;
}

/// Options of prepare.
pub mod prepare {
    /// Take back an earlier request.
    pub const CANCEL: u8 = 1;
    /// Say when it is done.
    pub const NOTIFY: u8 = 2;
    /// Don't say what failed.
    pub const NO_ERRORS: u8 = 4;
    /// Fetch the files to disk.
    pub const STAGE: u8 = 8;
    /// For writing.
    pub const WRITE_MODE: u8 = 16;
    /// Put them together.
    pub const COLOCATE: u8 = 32;
    /// Note that they were used.
    pub const FRESH: u8 = 64;
    /// The extended option: the files are no longer needed on disk.
    pub const EVICT: u16 = 1;
}

/// What a client says in its protocol request.
pub mod protocol {
    /// Say which requests have to be signed.
    pub const SECURITY: u8 = 1;
    /// The connection may change to TLS when the server wants it.
    pub const ABLE_TLS: u8 = 2;
    /// The connection must change to TLS now.
    pub const WANT_TLS: u8 = 4;
    /// Say what binding takes.
    pub const BIND: u8 = 8;
    /// What comes next, in `expect`: nothing in particular.
    pub const EXPECT_NONE: u8 = 0;
    /// A bind.
    pub const EXPECT_BIND: u8 = 1;
    /// A login.
    pub const EXPECT_LOGIN: u8 = 3;
}

/// What a server says of itself in its answer to the protocol request.
pub mod server {
    /// It has files.
    pub const IS_SERVER: u32 = 0x0000_0001;
    /// It knows who has files.
    pub const IS_MANAGER: u32 = 0x0000_0002;
    /// It can read and write pages with checksums.
    pub const PAGES: u32 = 0x0020_0000;
    /// It can keep files only if they are closed properly.
    pub const PERSIST_ON_CLOSE: u32 = 0x0010_0000;
    /// Further connections of a session need TLS.
    pub const TLS_DATA: u32 = 0x0100_0000;
    /// TLS is needed from the login on.
    pub const TLS_LOGIN: u32 = 0x0400_0000;
    /// TLS is needed after the login.
    pub const TLS_SESSION: u32 = 0x0800_0000;
    /// The next byte that the server reads is one of TLS.
    pub const GOTO_TLS: u32 = 0x4000_0000;
    /// The server can do TLS.
    pub const HAVE_TLS: u32 = 0x8000_0000;
}

/// What a client is able to do, in its login.
pub mod ability {
    /// Redirects may be URLs.
    pub const FULL_URL: u8 = 1;
    /// Redirects may come while reading.
    pub const READ_REDIRECT: u8 = 4;
    /// It has IPv4 and IPv6.
    pub const BOTH_ADDRESSES: u8 = 8;
    /// Redirects may have flags.
    pub const REDIRECT_FLAGS: u8 = 128;
    /// In the byte of the version: answers may come later, after a "wait for it".
    pub const LATER_ANSWERS: u8 = 0x80;
    /// In the byte of the version: the one that knows TLS.
    pub const VERSION: u8 = 5;
}

/// What a file is, as stat says it.
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
    /// Not there to stay before it is closed.
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
    /// Take back a checksum's computation.
    pub const CHECKSUM_CANCEL: u16 = 6;
    /// Settings of the server.
    pub const CONFIG: u16 = 7;
    /// Something of an open file.
    pub const VISA: u16 = 8;
    /// Something of a file.
    pub const FILE: u16 = 9;
    /// Something of the file system.
    pub const FILE_SYSTEM: u16 = 10;
    /// What only this server understands.
    pub const OPAQUE: u16 = 16;
    /// The same, of a path.
    pub const OPAQUE_PATH: u16 = 32;
    /// The same, of an open file.
    pub const OPAQUE_HANDLE: u16 = 64;
}
