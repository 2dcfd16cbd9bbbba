//! Server behaviours: all known responses of servers to range requests.

use super::fault::{Fault, FaultTrigger, Limit, OverLimit};
use std::ops::Range;

/// Maximum size of the ranges in one header, which most servers accept.
const TEXT: usize = 7_900;
/// Size of the text around a part, in bytes.
const FRAME: u64 = 120;

/// A behaviour.
#[derive(Debug, Clone)]
pub struct HttpBehaviour {
    /// Its description.
    pub name: &'static str,
    /// The faults with which a [`MockHttpServer`](super::MockHttpServer) has this behaviour.
    pub faults: Vec<(FaultTrigger, Fault)>,
    /// The limit on requests.
    pub bound: RequestBound,
}

/// A limit on requests to a server.
#[derive(Debug, Clone, Copy)]
pub enum RequestBound {
    /// Only the size of the header (`TEXT`).
    Header,
    /// Number of ranges in one request.
    Ranges(usize),
    /// Bytes of range text.
    Text(usize),
    /// Bytes of the file in one response.
    Answer(u64),
    /// Bytes of a body, including the text around parts.
    Body(u64),
    /// None: one request fetches the whole file.
    Whole,
}

impl RequestBound {
    /// The minimum number of requests for the disjoint ranges `wanted`.
    #[must_use]
    pub fn fewest(self, wanted: &[Range<u64>]) -> usize {
        let text: usize =
            wanted.iter().map(|it| format!("{}-{},", it.start, it.end - 1).len()).sum();
        let by_header = text.div_ceil(TEXT);
        let bytes: u64 = wanted.iter().map(|it| it.end - it.start).sum();
        let count = |requests: u64| usize::try_from(requests).unwrap_or(usize::MAX);
        match self {
            Self::Header => by_header,
            Self::Ranges(most) => wanted.len().div_ceil(most).max(by_header),
            Self::Text(most) => text.div_ceil(most),
            Self::Answer(most) => count(bytes.div_ceil(most)).max(by_header),
            Self::Body(most) => count((bytes + FRAME * wanted.len() as u64).div_ceil(most)),
            Self::Whole => 1,
        }
    }
}

fn most(limit: Limit, over: OverLimit) -> Fault {
    Fault::Most { limit, over }
}

/// All behaviours.
#[must_use]
pub fn behaviours() -> Vec<HttpBehaviour> {
    let always = |name, faults: Vec<Fault>, bound| {
        let faults = faults.into_iter().map(|fault| (FaultTrigger::Always, fault)).collect();
        HttpBehaviour { name, faults, bound }
    };
    let mut all: Vec<_> =
        forms().into_iter().map(|(name, faults, bound)| always(name, faults, bound)).collect();
    all.extend(limits().into_iter().map(|(name, fault, bound)| always(name, vec![fault], bound)));
    for (name, status) in [("turned away with 429", 429), ("turned away with 503", 503)] {
        // A server that is sometimes overloaded; rejected requests are retried.
        let busy = Fault::Status { status, retry_after: Some(0) };
        all.push(HttpBehaviour {
            name,
            faults: vec![(FaultTrigger::Every(8), busy)],
            bound: RequestBound::Header,
        });
    }
    all
}

/// Responses of unusual forms.
fn forms() -> Vec<(&'static str, Vec<Fault>, RequestBound)> {
    use RequestBound::{Header, Ranges, Whole};
    let mut forms = vec![
        ("parts as asked for", Vec::new(), Header),
        ("parts out of order", vec![Fault::Reversed], Header),
        (
            "parts with fields that nobody needs",
            vec![Fault::ExtraPartFields, Fault::NoETag],
            Header,
        ),
        ("no closing delimiter", vec![Fault::NoClosingDelimiter], Header),
        ("ranges that touch as one", vec![Fault::Coalesced(0)], Header),
        ("ranges near each other as one", vec![Fault::Coalesced(80)], Header),
        ("all ranges as one", vec![Fault::Merged], Header),
        // EOS, if no ranges overlap.
        (
            "ranges sorted and joined wrongly",
            vec![Fault::JoinedWrongly, Fault::LineFeeds, Fault::Boundary("EOSMULTIPARTBOUNDARY")],
            Header,
        ),
        ("line feeds alone", vec![Fault::LineFeeds], Header),
        ("a range with a blank unanswered", vec![Fault::BlanksUnanswered], Header),
        ("the first range alone", vec![Fault::FirstOnly], Ranges(1)),
        ("the whole file always", vec![Fault::Whole], Whole),
        ("the whole file in chunks", vec![Fault::Whole, Fault::Chunked(5_000)], Whole),
        ("connections that close after each answer", vec![Fault::CloseAfter], Header),
        ("bodies in small chunks", vec![Fault::Chunked(10)], Header),
        ("bodies in chunks", vec![Fault::Chunked(100_000)], Header),
    ];
    for boundary in ["a/b:c=d?e (f)'g',h+_-.", "123456", "--", "squid/5.7:0D3F;x"] {
        forms.push(("an odd boundary", vec![Fault::Boundary(boundary)], Header));
    }
    forms
}

/// Servers with a limit.
fn limits() -> Vec<(&'static str, Fault, RequestBound)> {
    let ranges = |name, ranges, over| {
        (name, most(Limit::Ranges(ranges), over), RequestBound::Ranges(ranges))
    };
    let header = |name, bytes, over| {
        (name, most(Limit::HeaderBytes(bytes), over), RequestBound::Text(bytes))
    };
    let answer = |name, bytes, over| {
        (name, most(Limit::AnswerBytes(bytes), over), RequestBound::Answer(bytes))
    };
    let mut limits = vec![
        // Object stores.
        ranges("the whole file for more than one range", 1, OverLimit::Whole),
        // Varnish.
        ranges("416 for more than one range", 1, OverLimit::Status(416)),
        ranges("400 for more than one range", 1, OverLimit::Status(400)),
        ranges("a dropped connection above 60 ranges", 60, OverLimit::Close),
        ranges("ranges left out above 33", 33, OverLimit::LeaveOut),
        header("431 above 2,000 bytes of header", 2_000, OverLimit::Status(431)),
        header("400 above 5,000 bytes of header", 5_000, OverLimit::Status(400)),
        header("a dropped connection above 1,000 bytes of header", 1_000, OverLimit::Close),
        header("413 above 2,500 bytes of header", 2_500, OverLimit::Status(413)),
        // Enough for two of the ranges, or one large one.
        (
            "431 above 40 bytes of header",
            most(Limit::HeaderBytes(40), OverLimit::Status(431)),
            RequestBound::Ranges(2),
        ),
        // The 2 GiB minus one byte of an XRootD vector read, scaled down.
        answer("500 above 10,000 bytes", 10_000, OverLimit::Status(500)),
        answer("400 above 10,000 bytes", 10_000, OverLimit::Status(400)),
        answer("an error in the body above 10,000 bytes", 10_000, OverLimit::Corrupt),
        answer("answers cut to 10,000 bytes", 10_000, OverLimit::Less),
        ("bodies that end after 30,000 bytes", Fault::Truncate(30_000), RequestBound::Body(30_000)),
        (
            "connections that close after 30,000 bytes",
            Fault::Close(super::ResponsePosition::Body(30_000)),
            RequestBound::Body(30_000),
        ),
    ];
    // Apache above 200 ranges, and others.
    for most in [5, 50, 200, 300] {
        limits.push(ranges("the whole file above a number of ranges", most, OverLimit::Whole));
    }
    for status in [400, 413, 416, 500, 502] {
        limits.push(ranges("a status above 60 ranges", 60, OverLimit::Status(status)));
    }
    // XRootD 5.5, scaled down.
    for most in [20, 128] {
        limits.push(ranges("an error in the body above some ranges", most, OverLimit::Corrupt));
    }
    limits
}
