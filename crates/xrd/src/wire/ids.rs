//! Ids of streams, open files and sessions. They are opaque to the end that receives them.

use std::fmt;

/// A stream id: it matches responses to requests. Chosen by the client, echoed by the server.
///
/// 0 belongs to the handshake and to unsolicited messages of the server; no request should use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub u16);

/// The handle of an open file, chosen by the server; valid on the connection on which it was
/// opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileHandle(pub [u8; 4]);

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileHandle({:08x})", u32::from_be_bytes(self.0))
    }
}

/// A session id, chosen by the server: needed to bind a further connection, or to end the session
/// from another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Debug for SessionId {
    /// Knowing the id is enough to end the session, so it is not printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(..)")
    }
}
