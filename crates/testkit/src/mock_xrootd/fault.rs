//! The table of faults.

use hither_xrd::wire::{ErrorCode, Redirect};

/// The stage that a fault applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultStage {
    /// A connection.
    Connection,
    /// Any request.
    Request,
    /// The request for the protocol version and capabilities.
    Protocol,
    /// A login.
    Login,
    /// A query, for example for the limits of vectors.
    Query,
    /// An open.
    Open,
    /// A read of any kind.
    Read,
    /// A write.
    Write,
    /// A change of names: making a directory, removing, renaming.
    Change,
}

/// A byte in the stream of one side of a connection, counted from 0: all bytes before it are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakPoint {
    /// In the client's stream.
    ToServer(usize),
    /// In the server's stream.
    ToClient(usize),
    /// After the response to this request, counted from 0 on the connection.
    Answered(usize),
}

/// A fault of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// [`FaultStage::Connection`]: closes the connection at this point.
    Close(BreakPoint),
    /// [`FaultStage::Connection`]: resets the connection at this point.
    Reset(BreakPoint),
    /// [`FaultStage::Connection`]: sends and accepts no bytes after this point, and keeps the
    /// connection open.
    Stall(BreakPoint),
    /// [`FaultStage::Connection`]: sends this banner instead of the protocol, and nothing after it.
    Banner(&'static [u8]),
    /// [`FaultStage::Protocol`]: states these flags.
    Flags(u32),
    /// [`FaultStage::Login`]: requires this authentication. Any earlier request breaks the
    /// connection, as with xrootd.
    Proof(&'static str),
    /// [`FaultStage::Query`]: responds with this text.
    Text(&'static str),

    /// Responds with an error.
    Refused(ErrorCode),
    /// Redirects to another server.
    Elsewhere(Redirect),
    /// Redirects to its own address.
    ToItself,
    /// Makes the client wait for this many seconds and repeat the request.
    Wait(u32),
    /// Announces the response within this many seconds, and sends it immediately.
    Later(u32),
    /// Announces the response within this many seconds, and never sends it.
    LaterNever(u32),
    /// Does not respond, but serves other requests.
    Unanswered,
    /// Closes the connection instead of responding.
    Dropped,
    /// Sends a message to the user first.
    Notice,
    /// Sends the response twice.
    Twice,
    /// Sends the response on a stream without a request.
    WrongStream,
    /// Sends the response with this status.
    Status(u16),
    /// States this length in the first frame of the response.
    Length(u32),
    /// Flips this bit of the response, including the frame.
    FlippedBit(usize),

    /// [`FaultStage::Request`]: states that the file is not on disk.
    Offline,

    /// [`FaultStage::Change`]: carries out the change although another fault prevents or replaces
    /// the response. Without it, such a change is not carried out.
    Done,
    /// [`FaultStage::Change`]: reports success without carrying out the change.
    Undone,
    /// [`FaultStage::Change`]: after the change another client makes a file of the name that the
    /// request is about.
    MadeAgain,
    /// [`FaultStage::Change`]: another client removes what the request is about.
    Removed,

    /// [`FaultStage::Open`]: uses handles from this number on.
    Handles(u8),
    /// [`FaultStage::Open`]: omits the status of the file.
    NoStatus,
    /// [`FaultStage::Open`]: states this size.
    Size(u64),

    /// [`FaultStage::Read`], [`FaultStage::Write`]: omits this many bytes at the end.
    Short(usize),
    /// [`FaultStage::Read`]: adds this many bytes.
    Long(usize),
    /// [`FaultStage::Read`]: sends frames of this many bytes.
    Frames(usize),
    /// [`FaultStage::Read`]: states in the last frame that more follow.
    NeverLast,
    /// [`FaultStage::Read`]: sends this many frames without data first.
    Empty(usize),
    /// [`FaultStage::Read`]: sends the parts of a vector in the reverse of the requested order.
    Reversed,
    /// [`FaultStage::Read`]: states offsets of parts or pages that are this many bytes too high.
    Shifted(u64),
    /// [`FaultStage::Read`]: states another file's handle in parts of a vector.
    OtherFile,
    /// [`FaultStage::Read`]: omits the last part of a vector.
    LeftOut,
    /// [`FaultStage::Read`]: sends the first part of a vector twice.
    Repeated,
    /// [`FaultStage::Read`]: damages pages of the file.
    Damaged {
        /// Every n-th page.
        every: u64,
        /// True to also damage repeated requests for them.
        again: bool,
    },
}
