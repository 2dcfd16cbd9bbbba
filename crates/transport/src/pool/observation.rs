//! The result of an exchange, and the evidence that it gives about the server.

use crate::location::Location;
use hither_core::ResponseMeta;
use hither_core::error::{Error, Result};
use hither_http::ServerHint;
use hither_http::metalink::MetalinkLinks;
use std::ops::Range;

/// The outcome of a successful exchange.
#[derive(Debug)]
pub(crate) enum ExchangeOutcome {
    /// Everything that was requested was delivered.
    Complete(ResponseMeta),
    /// The server redirects to this URL.
    Redirect(Location),
}

/// Evidence of how a server handles ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangeBehavior {
    /// The single requested range arrived.
    Ranges,
    /// Several ranges arrived, in some form.
    Several,
    /// One of several ranges arrived.
    OnlyOne,
    /// No range arrived, in a form that is used by servers without multiple ranges, and by others
    /// beyond a limit.
    PerhapsOne,
    /// The request was too large: fewer ranges or bytes may work.
    TooMany,
    /// Only the first bytes of the single range arrived, this many.
    Short(u64),
    /// The header was too long.
    TooLong,
    /// The server ignores ranges.
    NoRanges,
    /// The server rejects `QUERY`, whatever it announces.
    NoQuery,
    /// The server may accept a `QUERY` with fewer ranges.
    ShorterQuery,
}

/// The end of the file, or of what the server sends at once.
#[derive(Debug)]
pub(crate) struct PossibleEnd {
    pub(crate) at: u64,
    /// The error to report if the file continues.
    pub(crate) error: Error,
    /// The behaviour of the server, in this case.
    pub(crate) finding: RangeBehavior,
}

/// The result of an exchange, and what it showed.
#[derive(Debug)]
pub(crate) struct ExchangeResult {
    pub(crate) outcome: Result<ExchangeOutcome>,
    /// The connection can carry another request.
    pub(crate) reusable: bool,
    /// The connection had been closed before the request was sent.
    pub(crate) stale: bool,
    pub(crate) hint: Option<ServerHint>,
    /// The server announces support for lists of ranges in a `QUERY`.
    pub(crate) offers_query: bool,
    pub(crate) finding: Option<RangeBehavior>,
    /// The tail was requested by suffix and did not arrive for that reason.
    pub(crate) tail_refused: bool,
    /// The delivered ranges, ascending.
    pub(crate) delivered: Vec<Range<u64>>,
    /// Size of the file, if known.
    pub(crate) size: Option<u64>,
    /// Links to other replicas in the response.
    pub(crate) links: Option<MetalinkLinks>,
    /// The server is overloaded (429, 503).
    pub(crate) busy: bool,
    /// The server sent `Retry-After`.
    pub(crate) has_retry_after: bool,
    /// The error to report if a status that says nothing of ranges turns out to refuse several.
    pub(crate) refuses_several: Option<Error>,
    /// The size of the file, where the requested range goes beyond it and the server repeats that
    /// range without its bytes (XrdHttp 5.5).
    pub(crate) past_end_of: Option<u64>,
    /// The server has refused the range of the first byte, and not stated the size of the file.
    pub(crate) lacks_first_byte: bool,
    /// Where the response ended before its range did, while the size of the file is unknown. It is
    /// complete only if the file ends there, too.
    pub(crate) possible_end: Option<PossibleEnd>,
    /// The response has another entity tag than the request, and the size and date of the file as
    /// far as they are known.
    pub(crate) has_other_tag: bool,
}

impl ExchangeResult {
    /// A result without observations. The caller says whether the connection can be reused.
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
            has_retry_after: false,
            refuses_several: None,
            past_end_of: None,
            lacks_first_byte: false,
            possible_end: None,
            has_other_tag: false,
        }
    }

    /// A failed exchange, which leaves the connection in an unknown state.
    pub(crate) fn failed(error: Error) -> Self {
        Self::new(Err(error), false)
    }

    /// Returns true if the range was refused because the file ends at `at`.
    pub(crate) fn ends_file_at(&self, at: u64) -> bool {
        self.outcome.is_err() && self.size == Some(at)
    }

    pub(crate) fn with(mut self, finding: impl Into<Option<RangeBehavior>>) -> Self {
        self.finding = finding.into();
        self
    }
}
