//! The figures of one request.

use http::Method;
use std::time::Duration;

/// The methods that are counted apart; all others are the last.
pub(crate) const METHODS: [&str; 12] = [
    "GET",
    "HEAD",
    "QUERY",
    "PROPFIND",
    "PUT",
    "DELETE",
    "MKCOL",
    "COPY",
    "MOVE",
    "PROPPATCH",
    "OPTIONS",
    "other",
];

/// A place in [`METHODS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodIndex(pub(crate) usize);

/// What kind of work a method is: their times are not to be thrown together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPhase {
    Read,
    Write,
    List,
}

impl MethodIndex {
    fn of(method: &Method) -> Self {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        Self(known.unwrap_or(METHODS.len() - 1))
    }

    pub(crate) fn work(self) -> RequestPhase {
        match METHODS.get(self.0) {
            Some(&("GET" | "HEAD" | "QUERY")) => RequestPhase::Read,
            Some(&("PUT" | "DELETE" | "MKCOL" | "COPY" | "MOVE" | "PROPPATCH")) => {
                RequestPhase::Write
            }
            _ => RequestPhase::List,
        }
    }
}

/// What a request has been, in numbers; see [`crate::monitoring::note`].
#[derive(Debug, Clone)]
pub(crate) struct RequestStats {
    pub(crate) method: MethodIndex,
    pub(crate) status: u16,
    pub(crate) ranges: Option<usize>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) head: Duration,
    pub(crate) whole: Duration,
    pub(crate) disk: Duration,
    pub(crate) client: Duration,
    pub(crate) complete: bool,
    /// The file that was asked for, where that is counted.
    pub(crate) file: Option<String>,
}

impl RequestStats {
    pub(crate) fn of(method: &Method) -> Self {
        Self {
            method: MethodIndex::of(method),
            status: 0,
            ranges: None,
            received: 0,
            sent: 0,
            head: Duration::ZERO,
            whole: Duration::ZERO,
            disk: Duration::ZERO,
            client: Duration::ZERO,
            complete: false,
            file: None,
        }
    }
}
