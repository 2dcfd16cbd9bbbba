//! Named numbers of the protocol. They are those of `XProtocol.hh`, whose names are in the comments
//! where they differ.

use std::fmt;

/// The version of the protocol that this crate implements: 5.2.0.
pub const PROTOCOL_VERSION: u32 = 0x520;

/// Request codes.
pub mod request_code {
    /// One step of authentication.
    pub const AUTH: u16 = 3000;
    /// Query about the server or a file.
    pub const QUERY: u16 = 3001;
    /// Change of access rights.
    pub const CHMOD: u16 = 3002;
    /// Close of a file.
    pub const CLOSE: u16 = 3003;
    /// Directory listing.
    pub const DIRLIST: u16 = 3004;
    /// Version and abilities; the first request.
    pub const PROTOCOL: u16 = 3006;
    /// Login.
    pub const LOGIN: u16 = 3007;
    /// Creation of a directory.
    pub const MKDIR: u16 = 3008;
    /// Rename.
    pub const MV: u16 = 3009;
    /// Open of a file.
    pub const OPEN: u16 = 3010;
    /// A request without effect, which gets a response.
    pub const PING: u16 = 3011;
    /// Read of a range.
    pub const READ: u16 = 3013;
    /// Removal of a file.
    pub const RM: u16 = 3014;
    /// Removal of a directory.
    pub const RMDIR: u16 = 3015;
    /// Sync of a written file.
    pub const SYNC: u16 = 3016;
    /// Size, times and kind of a file.
    pub const STAT: u16 = 3017;
    /// A setting of the session.
    pub const SET: u16 = 3018;
    /// Write of bytes.
    pub const WRITE: u16 = 3019;
    /// Extended attributes.
    pub const FATTR: u16 = 3020;
    /// Staging of files from tape, or their release.
    pub const PREPARE: u16 = 3021;
    /// The kinds of many files.
    pub const STATX: u16 = 3022;
    /// End of a session, usually another one.
    pub const ENDSESS: u16 = 3023;
    /// Binding of this connection to a session, as a further path.
    pub const BIND: u16 = 3024;
    /// Vector read.
    pub const READV: u16 = 3025;
    /// Write of bytes with page checksums.
    pub const PGWRITE: u16 = 3026;
    /// Replicas of a file.
    pub const LOCATE: u16 = 3027;
    /// Truncation of a file.
    pub const TRUNCATE: u16 = 3028;
    /// Read of bytes with page checksums.
    pub const PGREAD: u16 = 3030;
    /// The smallest request code: `kXR_1stRequest`.
    pub const FIRST: u16 = 3000;

    /// The name of a request code, for messages.
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

/// Status codes of responses.
pub mod status_code {
    /// The whole response, or its last part.
    pub const OK: u16 = 0;
    /// A part of the response; more follows for this stream.
    pub const OKSOFAR: u16 = 4000;
    /// An unsolicited message of the server, or a response announced by [`WAITRESP`].
    pub const ATTN: u16 = 4001;
    /// Authentication requires another step.
    pub const AUTHMORE: u16 = 4002;
    /// An error.
    pub const ERROR: u16 = 4003;
    /// A redirect to another server.
    pub const REDIRECT: u16 = 4004;
    /// Repeat the request after a while.
    pub const WAIT: u16 = 4005;
    /// The response follows later, unrequested.
    pub const WAITRESP: u16 = 4006;
    /// A response with a checksum, followed by data that its length does not count.
    pub const STATUS: u16 = 4007;
}

/// Error codes of servers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! error_codes {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $constant: Self = Self($number);)*

            /// The meaning of the code in words.
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
    /// An invalid argument.
    ARG_INVALID = 3000, "invalid argument";
    /// A missing argument.
    ARG_MISSING = 3001, "missing argument";
    /// The path is too long, or there are too many ranges.
    ARG_TOO_LONG = 3002, "argument too long";
    /// The file is open elsewhere.
    FILE_LOCKED = 3003, "file locked";
    /// No open file has that handle.
    FILE_NOT_OPEN = 3004, "file not open";
    /// The server's file system failed.
    FS_ERROR = 3005, "file system error";
    /// The request is not allowed in this state, or after earlier ones.
    INVALID_REQUEST = 3006, "invalid request";
    /// The server could not read or write.
    IO_ERROR = 3007, "I/O error";
    /// The server lacks memory; also for ranges that are too large.
    NO_MEMORY = 3008, "not enough memory";
    /// No space left.
    NO_SPACE = 3009, "no space left";
    /// The user is not authorized.
    NOT_AUTHORIZED = 3010, "not authorized";
    /// The file or directory does not exist.
    NOT_FOUND = 3011, "not found";
    /// The server has an internal error.
    SERVER_ERROR = 3012, "internal server error";
    /// The server does not support this.
    UNSUPPORTED = 3013, "not supported";
    /// No server is available.
    NO_SERVER = 3014, "no server available";
    /// The path is not a file.
    NOT_FILE = 3015, "not a file";
    /// A directory, where a file was expected.
    IS_DIRECTORY = 3016, "is a directory";
    /// The operation was cancelled.
    CANCELLED = 3017, "cancelled";
    /// The path exists already.
    IT_EXISTS = 3018, "already exists";
    /// Checksums differ, or the file has none.
    CHECKSUM = 3019, "checksum error";
    /// The operation is in progress.
    IN_PROGRESS = 3020, "in progress";
    /// The user's quota is exhausted.
    OVER_QUOTA = 3021, "over quota";
    /// A signed request has a wrong signature, or an unsigned one should have been signed.
    SIGNATURE = 3022, "signature verification failed";
    /// Decryption failed.
    DECRYPTION = 3023, "decryption failed";
    /// The server is overloaded.
    OVERLOADED = 3024, "server overloaded";
    /// The file system is read-only.
    READ_ONLY = 3025, "read-only file system";
    /// The payload of the request is malformed.
    BAD_PAYLOAD = 3026, "bad payload";
    /// No attribute has that name.
    ATTRIBUTE_NOT_FOUND = 3027, "attribute not found";
    /// TLS is required.
    TLS_REQUIRED = 3028, "TLS required";
    /// No further replica can be made.
    NO_REPLICAS = 3029, "no replicas";
    /// Authentication failed.
    AUTH_FAILED = 3030, "authentication failed";
    /// The operation is impossible.
    IMPOSSIBLE = 3031, "impossible";
    /// The operation conflicts with another one.
    CONFLICT = 3032, "conflict";
    /// Too many pages arrived damaged.
    TOO_MANY_ERRORS = 3033, "too many errors";
    /// The operation took too long.
    REQUEST_TIMED_OUT = 3034, "request timed out";
    /// A timer expired.
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
