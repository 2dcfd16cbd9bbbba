//! The statistics of one request.

use http::Method;
use std::time::Duration;

/// The methods counted separately; the last entry stands for all others.
pub(crate) const METHODS: [&str; 13] = [
    "GET",
    "HEAD",
    "QUERY",
    "PROPFIND",
    "POST",
    "PUT",
    "DELETE",
    "MKCOL",
    "COPY",
    "MOVE",
    "PROPPATCH",
    "OPTIONS",
    "other",
];

/// An index of [`METHODS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MethodIndex(pub(crate) usize);

/// The kind of work that a method does; each kind has its own histogram of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    List,
}

impl MethodIndex {
    fn of(method: &Method) -> Self {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        Self(known.unwrap_or(METHODS.len() - 1))
    }

    pub(crate) fn kind(self) -> RequestKind {
        match METHODS.get(self.0) {
            Some(&("GET" | "HEAD" | "QUERY")) => RequestKind::Read,
            Some(&("POST" | "PUT" | "DELETE" | "MKCOL" | "COPY" | "MOVE" | "PROPPATCH")) => {
                RequestKind::Write
            }
            _ => RequestKind::List,
        }
    }
}

/// The results of a request; see [`crate::monitoring::request_record`].
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
    /// The requested file, if files are counted.
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
