//! The table of faults.

use hither_xrd::wire::{ErrorCode, Redirect};

/// What a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultStage {
    /// A connection.
    Connection,
    /// Any request.
    Request,
    /// The request for version and abilities.
    Protocol,
    /// A login.
    Login,
    /// A question, such as for the limits of vectors.
    Query,
    /// An open.
    Open,
    /// A read of any kind.
    Read,
}

/// A byte of what one side sends on a connection, counted from 0: everything before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakPoint {
    /// Of what the client sends.
    ToServer(usize),
    /// Of what the server sends.
    ToClient(usize),
    /// Behind the answer to this request, counted from 0 on the connection.
    Answered(usize),
}

/// What a peer does wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// [`FaultStage::Connection`]: closes the connection there.
    Close(BreakPoint),
    /// [`FaultStage::Connection`]: resets the connection there.
    Reset(BreakPoint),
    /// [`FaultStage::Connection`]: sends and takes nothing more from there on, and keeps the connection.
    Stall(BreakPoint),
    /// [`FaultStage::Connection`]: says this instead of the protocol, and then nothing.
    Banner(&'static [u8]),
    /// [`FaultStage::Protocol`]: says these flags of itself.
    Flags(u32),
    /// [`FaultStage::Login`]: wants this proof. Whatever comes before it breaks the connection, as with xrootd.
    Proof(&'static str),
    /// [`FaultStage::Query`]: this text.
    Text(&'static str),

    /// Refuses.
    Refused(ErrorCode),
    /// Names another server.
    Elsewhere(Redirect),
    /// Names itself as another server.
    ToItself,
    /// Is to be asked again after so many seconds.
    Wait(u32),
    /// Says that the answer will come by itself within so many seconds, and sends it at once.
    Later(u32),
    /// Says that the answer will come by itself within so many seconds, which it does not.
    LaterNever(u32),
    /// Does not answer, but goes on with other requests.
    Unanswered,
    /// A message for the user comes first.
    Notice,
    /// The answer comes twice.
    Twice,
    /// The answer is to a stream on which nothing was asked.
    WrongStream,
    /// The answer has this status.
    Status(u16),
    /// The first frame of the answer states this length.
    Length(u32),
    /// This bit of the answer, frame included, is another than it should be.
    FlippedBit(usize),

    /// [`FaultStage::Open`]: files are named from this number on.
    Handles(u8),
    /// [`FaultStage::Open`]: says nothing of the file but its name.
    NoStatus,
    /// [`FaultStage::Open`]: states this size.
    Size(u64),

    /// [`FaultStage::Read`]: so many bytes are missing at the end.
    Short(usize),
    /// [`FaultStage::Read`]: so many bytes more.
    Long(usize),
    /// [`FaultStage::Read`]: in frames of so many bytes.
    Frames(usize),
    /// [`FaultStage::Read`]: the last frame says that more follows.
    NeverLast,
    /// [`FaultStage::Read`]: so many frames without data come first.
    Empty(usize),
    /// [`FaultStage::Read`]: the parts of a vector in the reverse of the order asked for.
    Reversed,
    /// [`FaultStage::Read`]: parts of a vector, or pages, say that they are from so many bytes further on.
    Shifted(u64),
    /// [`FaultStage::Read`]: parts of a vector say that they are of another file.
    OtherFile,
    /// [`FaultStage::Read`]: the last part of a vector is left out.
    LeftOut,
    /// [`FaultStage::Read`]: the first part of a vector comes twice.
    Repeated,
    /// [`FaultStage::Read`]: pages are damaged, every so many of the file's; also when they are asked for again, or not.
    Damaged {
        /// Every so many.
        every: u64,
        /// Also when they are asked for again.
        again: bool,
    },
}
