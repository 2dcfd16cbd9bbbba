//! The table of faults.

/// Requests that a fault applies to, counted from 0 in the order of arrival on all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTrigger {
    /// Every request.
    Always,
    /// This request.
    Nth(usize),
    /// This request and all later ones.
    From(usize),
    /// All requests before this one.
    Before(usize),
    /// Every n-th request: the last of each n.
    Every(usize),
    /// The first request for each path with this text.
    FirstFor(&'static str),
    /// Every request for a path with this text.
    For(&'static str),
}

impl FaultTrigger {
    /// Returns true if the fault applies to a request for `target`; `is_first` is true if that path
    /// was never requested before.
    pub(crate) fn includes(self, request: usize, target: &str, is_first: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Nth(nth) => request == nth,
            Self::From(first) => request >= first,
            Self::Before(end) => request < end,
            Self::FirstFor(text) => is_first && target.contains(text),
            Self::For(text) => target.contains(text),
            Self::Every(run) => run > 0 && request % run == run - 1,
        }
    }
}

/// A position in a response; a position beyond its end is its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePosition {
    /// After this many bytes of the whole response: 0 is before its head, small numbers are in its
    /// head.
    Answer(usize),
    /// After this many bytes of its body.
    Body(usize),
    /// In the middle of the head of a part, counted from 0; at the start of the body if there are
    /// no parts.
    PartHead(usize),
    /// In the middle of the data of a part, counted from 0.
    PartData(usize),
}

/// A limit on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Number of ranges.
    Ranges(usize),
    /// Bytes of the value of `Range`.
    HeaderBytes(usize),
    /// Bytes of the file in one response.
    AnswerBytes(u64),
}

/// The response to a request beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    /// This status, for example 400.
    Status(u16),
    /// 200 with the whole file, as Apache.
    Whole,
    /// 206, with a second response in its body that says 500, as XRootD 5.5.
    Corrupt,
    /// The connection is closed without a response.
    Close,
    /// Only the first ranges, up to the limit.
    LeaveOut,
    /// Everything up to the limit, with a range cut short at its end.
    Less,
}

/// A fault of the server. Faults without a verb describe the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Closes the connection at this position.
    Close(ResponsePosition),
    /// Resets the connection at this position.
    Reset(ResponsePosition),
    /// Sends nothing more after this position, and keeps the connection open.
    Stall(ResponsePosition),
    /// Holds the response until this many requests have arrived in all.
    Hold(usize),
    /// A body of at most this many bytes, in an otherwise valid message.
    Truncate(usize),
    /// Flips a bit of the byte at this position of the file, in a single range.
    FlippedBit(u64),
    /// Every `Content-Range` is this many bytes too high.
    RangeShifted(u64),
    /// Every `Content-Range` lies beyond the size that it states.
    RangeBeyond,
    /// Every `Content-Range` states this size of the file.
    RangeTotal(u64),
    /// 206 without any `Content-Range`.
    NoContentRange,
    /// 200 with the whole file for every request.
    Whole,
    /// A single 206 with only the first range.
    FirstOnly,
    /// A single 206 from the first requested byte to the last.
    Merged,
    /// Merges ranges with at most this many bytes between them.
    Coalesced(u64),
    /// Sorts ranges, and joins those that overlap or touch with a wrong end: a range that contains
    /// another ends early, as in EOS.
    JoinedWrongly,
    /// Parts in the reverse of the requested order.
    Reversed,
    /// Parts with unneeded fields, and unusual upper and lower case.
    ExtraPartFields,
    /// No delimiter after the last part.
    NoClosingDelimiter,
    /// This boundary, in quotes in the header.
    Boundary(&'static str),
    /// Parts whose lines end in LF alone.
    LineFeeds,
    /// Chunked bodies with chunks of this size, without a length.
    Chunked(usize),
    /// Does not respond to a `Range` with a blank in it.
    BlanksUnanswered,
    /// This entity tag, including quotes, and no `If-Range`.
    ETag(String),
    /// Neither entity tag nor date.
    NoETag,
    /// The entity tag is sent as the date of the last change.
    Dated,
    /// This status and a short text.
    Status {
        /// The status.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// 401 to requests without this value of `Authorization`.
    Unless(String),
    /// 302 to this target.
    Redirect(String),
    /// A header with a field of this many bytes.
    OversizeHead(usize),
    /// A banner of another protocol.
    Garbage,
    /// `Connection: close`, then closes.
    CloseAfter,
    /// Accepts no further connections.
    NoMoreConnections,
    /// Limits a request.
    Most {
        /// The limit.
        limit: Limit,
        /// The response beyond it.
        over: OverLimit,
    },
    /// This status to a request with a suffix range.
    SuffixRefused(u16),
    /// Ignores suffix ranges; 200 if there is no other range.
    SuffixIgnored,
    /// Sends this `Server` field.
    Server(String),
    /// Adds a field of this name and value to every response.
    Field(&'static str, String),
    /// This document instead of the file, for clients that accept `application/metalink4+xml`.
    Metalink(String),
}
