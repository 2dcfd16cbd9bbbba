//! The numbers that name streams, open files and sessions. They are opaque to whom they are given.

use std::fmt;

/// Which request an answer belongs to: chosen by the client, echoed by the server.
///
/// 0 is what the handshake and notices of the server carry; no request should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub u16);

/// An open file, by the server's choice; valid on the connection on which it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileHandle(pub [u8; 4]);

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileHandle({:08x})", u32::from_be_bytes(self.0))
    }
}

/// A session, by the server's choice: what a further connection is bound to, and what can be ended from another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Debug for SessionId {
    /// Who knows it can end the session, so it is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(..)")
    }
}
