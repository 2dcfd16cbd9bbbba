//! Numbers that the protocol gives names to. They are those of `XProtocol.hh`, whose names are in the comments where
//! they differ.

use std::fmt;

/// The version of the protocol that is spoken: 5.2.0.
pub const PROTOCOL_VERSION: u32 = 0x520;

/// What is asked: the number of a request.
pub mod request_code {
    /// One step of authentication.
    pub const AUTH: u16 = 3000;
    /// A question about the server or a file.
    pub const QUERY: u16 = 3001;
    /// Change of access rights.
    pub const CHMOD: u16 = 3002;
    /// Close of a file.
    pub const CLOSE: u16 = 3003;
    /// Names in a directory.
    pub const DIRLIST: u16 = 3004;
    /// Version and abilities; the first request.
    pub const PROTOCOL: u16 = 3006;
    /// Begin of a session.
    pub const LOGIN: u16 = 3007;
    /// Creation of a directory.
    pub const MKDIR: u16 = 3008;
    /// Change of a name.
    pub const MV: u16 = 3009;
    /// Open of a file.
    pub const OPEN: u16 = 3010;
    /// Nothing but an answer.
    pub const PING: u16 = 3011;
    /// Bytes of a file.
    pub const READ: u16 = 3013;
    /// Removal of a file.
    pub const RM: u16 = 3014;
    /// Removal of a directory.
    pub const RMDIR: u16 = 3015;
    /// Writing out what was written to a file.
    pub const SYNC: u16 = 3016;
    /// Size, times and kind of a file.
    pub const STAT: u16 = 3017;
    /// A setting of the session.
    pub const SET: u16 = 3018;
    /// Bytes into a file.
    pub const WRITE: u16 = 3019;
    /// Extended attributes.
    pub const FATTR: u16 = 3020;
    /// Fetching files from tape, or giving them up.
    pub const PREPARE: u16 = 3021;
    /// The kinds of many files.
    pub const STATX: u16 = 3022;
    /// End of a session, usually another one.
    pub const ENDSESS: u16 = 3023;
    /// This connection becomes one more path of a session.
    pub const BIND: u16 = 3024;
    /// Many ranges of bytes.
    pub const READV: u16 = 3025;
    /// Bytes into a file, with checksums of pages.
    pub const PGWRITE: u16 = 3026;
    /// Which servers have a file.
    pub const LOCATE: u16 = 3027;
    /// Change of a file's size.
    pub const TRUNCATE: u16 = 3028;
    /// Bytes of a file, with checksums of pages.
    pub const PGREAD: u16 = 3030;
    /// The smallest number: `kXR_1stRequest`.
    pub const FIRST: u16 = 3000;

    /// The name of a request, for messages.
    #[must_use]
    pub fn name(code: u16) -> &'static str {
        match code {
            AUTH => "auth",
            QUERY => "query",
            CHMOD => "chmod",
            CLOSE => "close",
            DIRLIST => "dirlist",
            3005 => "gpfile",
            PROTOCOL => "protocol",
            LOGIN => "login",
            MKDIR => "mkdir",
            MV => "mv",
            OPEN => "open",
            PING => "ping",
            3012 => "chkpoint",
            READ => "read",
            RM => "rm",
            RMDIR => "rmdir",
            SYNC => "sync",
            STAT => "stat",
            SET => "set",
            WRITE => "write",
            FATTR => "fattr",
            PREPARE => "prepare",
            STATX => "statx",
            ENDSESS => "endsess",
            BIND => "bind",
            READV => "readv",
            PGWRITE => "pgwrite",
            LOCATE => "locate",
            TRUNCATE => "truncate",
            3029 => "sigver",
            PGREAD => "pgread",
            3031 => "writev",
            3032 => "clone",
            _ => "an unknown request",
        }
    }
}

/// How an answer is to be understood: its status.
pub mod status_code {
    /// The whole answer, or its last part.
    pub const OK: u16 = 0;
    /// A part of the answer; more follows for this stream.
    pub const OKSOFAR: u16 = 4000;
    /// Something the server says unasked, or an answer announced by [`WAITRESP`].
    pub const ATTN: u16 = 4001;
    /// Authentication takes another step.
    pub const AUTHMORE: u16 = 4002;
    /// A refusal.
    pub const ERROR: u16 = 4003;
    /// Another server is to be asked.
    pub const REDIRECT: u16 = 4004;
    /// The request is to be repeated after a while.
    pub const WAIT: u16 = 4005;
    /// The answer comes by itself after a while.
    pub const WAITRESP: u16 = 4006;
    /// An answer with a checksum, followed by data that its length doesn't count.
    pub const STATUS: u16 = 4007;
}

/// Why a server refuses, in the protocol's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! error_codes {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $constant: Self = Self($number);)*

            /// What the code says, in words.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($number => $name,)*
                    _ => "an unknown error",
                }
            }
        }
    };
}

error_codes! {
    /// An argument that makes no sense.
    ARG_INVALID = 3000, "invalid argument";
    /// An argument that isn't there.
    ARG_MISSING = 3001, "missing argument";
    /// Too long a path, or too many ranges.
    ARG_TOO_LONG = 3002, "argument too long";
    /// Somebody else has the file open.
    FILE_LOCKED = 3003, "file locked";
    /// No open file has that handle.
    FILE_NOT_OPEN = 3004, "file not open";
    /// The server's file system failed.
    FS_ERROR = 3005, "file system error";
    /// Not now, or not after what came before.
    INVALID_REQUEST = 3006, "invalid request";
    /// The server could not read or write.
    IO_ERROR = 3007, "I/O error";
    /// The server has no memory for it; also ranges that are too large.
    NO_MEMORY = 3008, "not enough memory";
    /// No room left.
    NO_SPACE = 3009, "no space left";
    /// The user may not.
    NOT_AUTHORIZED = 3010, "not authorized";
    /// There is no such thing.
    NOT_FOUND = 3011, "not found";
    /// The server is broken.
    SERVER_ERROR = 3012, "internal server error";
    /// The server cannot do this.
    UNSUPPORTED = 3013, "not supported";
    /// No server is there to do it.
    NO_SERVER = 3014, "no server available";
    /// Not a file.
    NOT_FILE = 3015, "not a file";
    /// A directory, where a file was expected.
    IS_DIRECTORY = 3016, "is a directory";
    /// Given up.
    CANCELLED = 3017, "cancelled";
    /// There is something of that name.
    IT_EXISTS = 3018, "already exists";
    /// Checksums differ, or there is none.
    CHECKSUM = 3019, "checksum error";
    /// It is being done.
    IN_PROGRESS = 3020, "in progress";
    /// The user has no room left.
    OVER_QUOTA = 3021, "over quota";
    /// A signed request whose signature is wrong, or an unsigned one that should have been signed.
    SIGNATURE = 3022, "signature verification failed";
    /// Not decryptable.
    DECRYPTION = 3023, "decryption failed";
    /// The server has too much to do.
    OVERLOADED = 3024, "server overloaded";
    /// Nothing can be written.
    READ_ONLY = 3025, "read-only file system";
    /// What came with the request is malformed.
    BAD_PAYLOAD = 3026, "bad payload";
    /// No attribute of that name.
    ATTRIBUTE_NOT_FOUND = 3027, "attribute not found";
    /// Only over TLS.
    TLS_REQUIRED = 3028, "TLS required";
    /// No further copy can be made.
    NO_REPLICAS = 3029, "no replicas";
    /// Authentication failed.
    AUTH_FAILED = 3030, "authentication failed";
    /// It cannot be done.
    IMPOSSIBLE = 3031, "impossible";
    /// It contradicts something else that goes on.
    CONFLICT = 3032, "conflict";
    /// Too many pages arrived damaged.
    TOO_MANY_ERRORS = 3033, "too many errors";
    /// It took too long.
    REQUEST_TIMED_OUT = 3034, "request timed out";
    /// A timer ran out.
    TIMER_EXPIRED = 3035, "timer expired";
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorCode({}, {})", self.0, self.name())
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}
