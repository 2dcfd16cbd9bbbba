//! The table of faults.

/// Which requests a fault strikes, counted from 0 in the order of arrival on all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTrigger {
    /// Every one.
    Always,
    /// This one.
    Nth(usize),
    /// This one and all that follow.
    From(usize),
    /// All before this one.
    Before(usize),
    /// Every so many: the last of each such run.
    Every(usize),
    /// The first request for each path that has this text in it.
    FirstFor(&'static str),
}

impl FaultTrigger {
    /// Whether it includes a request for `target`; `is_first` tells whether that was never asked for before.
    pub(crate) fn includes(self, request: usize, target: &str, is_first: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Nth(nth) => request == nth,
            Self::From(first) => request >= first,
            Self::Before(end) => request < end,
            Self::FirstFor(text) => is_first && target.contains(text),
            Self::Every(run) => run > 0 && request % run == run - 1,
        }
    }
}

/// A place in an answer; one beyond its end is its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePosition {
    /// After so many bytes of all of it: 0 is before its head, a few are within it.
    Answer(usize),
    /// After so many bytes of its body.
    Body(usize),
    /// In the middle of the head of a part, counted from 0; the start of the body if there are no parts.
    PartHead(usize),
    /// In the middle of the data of a part, counted from 0.
    PartData(usize),
}

/// What a server limits in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Ranges.
    Ranges(usize),
    /// Bytes of the value of `Range`.
    HeaderBytes(usize),
    /// Bytes of the file in one answer.
    AnswerBytes(u64),
}

/// What a server does that is asked for more than it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    /// This status, 400 for example.
    Status(u16),
    /// 200 with the whole file, as Apache.
    Whole,
    /// 206, and in its body a second answer that says 500, as XRootD 5.5.
    Corrupt,
    /// The connection is closed without an answer.
    Close,
    /// The first ranges alone, as many as are taken.
    LeaveOut,
    /// As much as is taken, a range cut short where that ends.
    Less,
}

/// What a peer does wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Closes the connection there.
    Close(ResponsePosition),
    /// Resets the connection there.
    Reset(ResponsePosition),
    /// Sends nothing more from there on, and keeps the connection.
    Stall(ResponsePosition),
    /// Waits with the answer until so many requests have arrived in all.
    Hold(usize),
    /// A body of so many bytes at the most, in a message that is otherwise sound.
    Truncate(usize),
    /// A bit of the byte at this position of the file is another than it should be, in a single range.
    FlippedBit(u64),
    /// Every `Content-Range` is so many bytes too high.
    RangeShifted(u64),
    /// Every `Content-Range` lies beyond the size that it states.
    RangeBeyond,
    /// Every `Content-Range` states this size of the file.
    RangeTotal(u64),
    /// 206 without any `Content-Range`.
    NoContentRange,
    /// 200 with the whole file, whatever was asked.
    Whole,
    /// A single 206 with the first range alone.
    FirstOnly,
    /// A single 206 from the first byte asked for to the last.
    Merged,
    /// Ranges that leave no more than so many bytes between them are sent as one.
    Coalesced(u64),
    /// Ranges are sorted, and those that overlap or touch are joined with wrong arithmetic: one within another ends the
    /// joint one early, as in EOS.
    JoinedWrongly,
    /// Parts in the reverse of the order asked for.
    Reversed,
    /// Parts with fields that nobody needs, and odd letter cases.
    ExtraPartFields,
    /// No delimiter after the last part.
    NoClosingDelimiter,
    /// This boundary, in quotes in the head.
    Boundary(&'static str),
    /// Parts whose lines end in LF alone.
    LineFeeds,
    /// Bodies in chunks of this size, without a length.
    Chunked(usize),
    /// A `Range` with a blank in it is never answered.
    BlanksUnanswered,
    /// This entity tag, quotes included, and no regard for `If-Range`.
    ETag(String),
    /// Neither entity tag nor date.
    NoETag,
    /// This status and a few words.
    Status {
        /// The status.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// 401 to requests without this value of `Authorization`.
    Unless(String),
    /// 302 to this reference.
    Redirect(String),
    /// A head with a field of so many bytes.
    OversizeHead(usize),
    /// A banner of another protocol.
    Garbage,
    /// `Connection: close`, and closed.
    CloseAfter,
    /// Nobody can connect any more.
    NoMoreConnections,
    /// Takes no more than this in a request.
    Most {
        /// So much.
        limit: Limit,
        /// What happens beyond.
        over: OverLimit,
    },
    /// 416 to a request with a suffix range.
    SuffixRefused,
    /// Suffix ranges are passed over; 200 if there is no other.
    SuffixIgnored,
    /// Calls itself this.
    Server(String),
    /// A field of this name and value in every answer.
    Field(&'static str, String),
    /// This document, instead of the file, to whoever accepts `application/metalink4+xml`.
    Metalink(String),
}
