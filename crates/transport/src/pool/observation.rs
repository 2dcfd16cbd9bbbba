//! The result of an exchange, and the evidence that it gives about the server.

use hither_core::ResponseMeta;
use hither_core::error::{Error, Result};
use hither_http::ServerHint;
use hither_http::metalink::MetalinkLinks;
use std::ops::Range;

/// How an exchange ended well.
#[derive(Debug)]
pub(crate) enum ExchangeOutcome {
    /// Everything asked for was delivered.
    Complete(ResponseMeta),
    /// The file is elsewhere.
    Redirect(String),
}

/// What an answer shows about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangeBehavior {
    /// It sends ranges: the one that was asked for came.
    Ranges,
    /// Several ranges came, in one way or another.
    Several,
    /// One range of several came.
    OnlyOne,
    /// No range came, in a way that servers have that never send several, and others beyond a limit.
    PerhapsOne,
    /// Fewer ranges, or fewer bytes, may be sent.
    TooMany,
    /// So many bytes of one range came, and no more.
    Short(u64),
    /// A shorter header may be taken.
    TooLong,
    /// It ignores ranges.
    NoRanges,
    /// It refuses a `QUERY`, whatever it says of itself.
    NoQuery,
    /// It may take one with fewer ranges.
    ShorterQuery,
}

/// How an exchange ended, and what it showed.
#[derive(Debug)]
pub(crate) struct ExchangeResult {
    pub(crate) outcome: Result<ExchangeOutcome>,
    /// The connection is at the start of the next answer.
    pub(crate) reusable: bool,
    /// It had been closed before the request came to it.
    pub(crate) stale: bool,
    pub(crate) hint: Option<ServerHint>,
    /// It says that it takes lists of ranges in a `QUERY`.
    pub(crate) offers_query: bool,
    pub(crate) finding: Option<RangeBehavior>,
    /// The end of the file was asked for by suffix and did not come for that.
    pub(crate) tail_refused: bool,
    /// What was handed on, ascending.
    pub(crate) delivered: Vec<Range<u64>>,
    /// Size of the file, if it was told.
    pub(crate) size: Option<u64>,
    /// Where else the file is, if the answer says so.
    pub(crate) links: Option<MetalinkLinks>,
    /// The server has too much to do (429, 503).
    pub(crate) busy: bool,
    /// It said for how long.
    pub(crate) said_when: bool,
}

impl ExchangeResult {
    /// Whether the connection is at the start of the next answer is for the caller to say.
    pub(crate) fn new(outcome: Result<ExchangeOutcome>, reusable: bool) -> Self {
        Self {
            outcome,
            reusable,
            stale: false,
            hint: None,
            offers_query: false,
            finding: None,
            tail_refused: false,
            delivered: Vec::new(),
            size: None,
            links: None,
            busy: false,
            said_when: false,
        }
    }

    /// Ended badly, with the connection in an unknown state.
    pub(crate) fn failed(error: Error) -> Self {
        Self::new(Err(error), false)
    }

    pub(crate) fn with(mut self, finding: impl Into<Option<RangeBehavior>>) -> Self {
        self.finding = finding.into();
        self
    }
}
