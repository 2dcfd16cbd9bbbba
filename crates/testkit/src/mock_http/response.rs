//! A response, modified by the faults.

use super::File;
use super::fault::{Fault, Limit, OverLimit, ResponsePosition};
use super::request::ReceivedRequest;
use std::ops::Range;

const METALINK: &str = "application/metalink4+xml";
const BOUNDARY: &str = "3d6b6a416f9b5";

/// The bytes of a response, and the positions of its parts.
#[derive(Debug, Default)]
pub(super) struct MockResponse {
    pub(super) status: u16,
    pub(super) bytes: Vec<u8>,
    pub(super) payload_bytes: u64,
    /// The connection is closed after it.
    pub(super) close: bool,
    /// The ranges of the request contain a blank.
    pub(super) has_blanks: bool,
    head_len: usize,
    /// Positions of the heads of parts, in the body.
    heads: Vec<Range<usize>>,
    /// Positions of the data of parts, in the body.
    data: Vec<Range<usize>>,
}

impl MockResponse {
    /// The response to `question` with these faults.
    pub(super) fn new(question: &ReceivedRequest, file: &File, faults: &[Fault]) -> Self {
        let has_blanks =
            question.ranges.as_ref().is_some_and(|ranges| ranges.contains([' ', '\t']));
        Self { has_blanks, ..Writer { question, file, faults, reply: Self::default() }.write() }
    }

    /// A position in the response as a position in its bytes.
    pub(super) fn position(&self, place: ResponsePosition) -> usize {
        let middle = |spans: &[Range<usize>], nth: usize| {
            spans.get(nth).map_or(0, |span| usize::midpoint(span.start, span.end))
        };
        let at = match place {
            ResponsePosition::Answer(at) => at,
            ResponsePosition::Body(at) => self.head_len.saturating_add(at),
            ResponsePosition::PartHead(nth) => self.head_len + middle(&self.heads, nth),
            ResponsePosition::PartData(nth) => self.head_len + middle(&self.data, nth),
        };
        at.min(self.bytes.len())
    }
}

struct Writer<'a> {
    question: &'a ReceivedRequest,
    file: &'a File,
    faults: &'a [Fault],
    reply: MockResponse,
}

impl Writer<'_> {
    fn write(mut self) -> MockResponse {
        if self.has(&Fault::Garbage) {
            self.reply.bytes = b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n".to_vec();
            self.reply.close = true;
            return self.reply;
        }
        for fault in self.faults {
            match fault {
                Fault::Status { status, retry_after } => return self.words(*status, *retry_after),
                Fault::Unless(expected)
                    if self.question.authorization.as_ref() != Some(expected) =>
                {
                    return self.words(401, None);
                }
                Fault::Redirect(to) => return self.redirect(to),
                Fault::Metalink(document) if self.question.accepts(METALINK) => {
                    let body = document.clone().into_bytes();
                    let length = body.len();
                    let fields = format!("Content-Type: {METALINK}\r\n");
                    return self.finish_with_length(200, &fields, body, length);
                }
                _ => {}
            }
        }
        let size = self.file.bytes.len() as u64;
        let mut most = usize::MAX;
        match self.over_limit(size) {
            Some((_, OverLimit::Status(status))) => return self.words(status, None),
            Some((_, OverLimit::Corrupt)) => return self.corrupt(),
            Some((_, OverLimit::Whole)) => return self.whole(),
            Some((_, OverLimit::Close)) => {
                self.reply.close = true;
                return self.reply;
            }
            Some((Limit::Ranges(ranges), OverLimit::LeaveOut)) => most = ranges,
            Some((_, OverLimit::LeaveOut)) => most = 1,
            Some((Limit::AnswerBytes(_), OverLimit::Less)) | None => {}
            Some((_, OverLimit::Less)) => most = 1,
        }
        if self.question.ranges.is_none() || self.has(&Fault::Whole) || self.is_stale() {
            return self.whole();
        }
        if let Some(status) = self.suffix_refused() {
            return self.words(status, None);
        }
        let mut ranges = self.question.within(size, !self.has(&Fault::SuffixIgnored));
        ranges.truncate(most);
        self.shorten(&mut ranges);
        self.join(&mut ranges);
        match ranges.as_slice() {
            [] if self.has(&Fault::SuffixIgnored) && self.question.has_suffix() => self.whole(),
            [] => self.unsatisfied(size),
            [first, ..] if self.has(&Fault::FirstOnly) => self.single(first.clone()),
            [one] => self.single(one.clone()),
            several if self.has(&Fault::Merged) => {
                let start = several.iter().map(|range| range.start).min().unwrap_or(0);
                let end = several.iter().map(|range| range.end).max().unwrap_or(0);
                self.single(start..end)
            }
            several => self.multipart(several),
        }
    }

    /// The limit that the request exceeds, and the response to such requests.
    fn over_limit(&self, size: u64) -> Option<(Limit, OverLimit)> {
        let question = self.question;
        let bytes = || question.within(size, true).iter().map(|r| r.end - r.start).sum::<u64>();
        self.faults.iter().find_map(|fault| match fault {
            Fault::Most { limit, over } => {
                let exceeded = match limit {
                    Limit::Ranges(most) => question.ranges_asked() > *most,
                    Limit::HeaderBytes(most) => question.header_bytes() > *most,
                    // The response to a HEAD has no body.
                    Limit::AnswerBytes(most) => question.method != "HEAD" && bytes() > *most,
                };
                exceeded.then_some((*limit, *over))
            }
            _ => None,
        })
    }

    /// Shortens the ranges to the maximum number of bytes of a response.
    fn shorten(&self, ranges: &mut Vec<Range<u64>>) {
        let less = |fault: &Fault| match fault {
            Fault::Most { limit: Limit::AnswerBytes(most), over: OverLimit::Less } => Some(*most),
            _ => None,
        };
        let Some(mut left) = self.faults.iter().find_map(less) else { return };
        ranges.retain_mut(|range| {
            range.end = range.end.min(range.start.saturating_add(left));
            left -= range.end - range.start;
            range.start < range.end
        });
    }

    /// Joins ranges according to the faults.
    fn join(&self, ranges: &mut Vec<Range<u64>>) {
        let gap = self.faults.iter().find_map(|fault| match fault {
            Fault::Coalesced(gap) => Some(*gap),
            Fault::JoinedWrongly => Some(0),
            _ => None,
        });
        let Some(gap) = gap else { return };
        let wrongly = self.has(&Fault::JoinedWrongly);
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(gap) => {
                    last.end = if wrongly { range.end } else { last.end.max(range.end) };
                }
                _ => joined.push(range),
            }
        }
        *ranges = joined;
    }

    /// The status with which the server refuses the suffix range of this request.
    fn suffix_refused(&self) -> Option<u16> {
        let refused = |fault: &Fault| match fault {
            Fault::SuffixRefused(status) => Some(*status),
            _ => None,
        };
        self.faults.iter().find_map(refused).filter(|_| self.question.has_suffix())
    }

    fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }

    /// Returns true if `If-Range` names another version.
    fn is_stale(&self) -> bool {
        let tag = self.question.if_range.as_ref();
        tag.is_some_and(|tag| *tag != self.file.etag)
            && !self.faults.iter().any(|fault| matches!(fault, Fault::ETag(_)))
    }

    fn slice(&self, range: &Range<u64>) -> &[u8] {
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        self.file.bytes.get(index(range.start)..index(range.end)).unwrap_or_default()
    }

    fn content_range(&self, range: &Range<u64>) -> String {
        let mut range = range.clone();
        let mut total = self.file.bytes.len() as u64;
        for fault in self.faults {
            match fault {
                Fault::RangeShifted(by) => range = range.start + by..range.end + by,
                Fault::RangeBeyond => range = range.start + total..range.end + total,
                Fault::RangeTotal(other) => total = *other,
                _ => {}
            }
        }
        format!("bytes {}-{}/{total}", range.start, range.end.saturating_sub(1))
    }

    fn whole(mut self) -> MockResponse {
        self.reply.payload_bytes = self.file.bytes.len() as u64;
        let body = self.file.bytes.to_vec();
        self.reply.data.push(0..body.len());
        self.finish(200, "", body)
    }

    fn single(mut self, range: Range<u64>) -> MockResponse {
        let mut body = self.slice(&range).to_vec();
        for fault in self.faults {
            if let Fault::FlippedBit(at) = fault
                && range.contains(at)
                && let Some(byte) =
                    usize::try_from(at - range.start).ok().and_then(|at| body.get_mut(at))
            {
                *byte ^= 0x10;
            }
        }
        self.reply.payload_bytes = body.len() as u64;
        self.reply.data.push(0..body.len());
        let field = if self.has(&Fault::NoContentRange) {
            String::new()
        } else {
            format!("Content-Range: {}\r\n", self.content_range(&range))
        };
        self.finish(206, &field, body)
    }

    fn multipart(mut self, ranges: &[Range<u64>]) -> MockResponse {
        let mut body = Vec::new();
        let boundary = self.faults.iter().find_map(|fault| match fault {
            Fault::Boundary(boundary) => Some(*boundary),
            _ => None,
        });
        let boundary = boundary.unwrap_or(BOUNDARY);
        let mut ranges = ranges.to_vec();
        if self.has(&Fault::Reversed) {
            ranges.reverse();
        }
        for range in &ranges {
            let at = body.len();
            let place = self.content_range(range);
            let fields = if self.has(&Fault::ExtraPartFields) {
                format!(
                    "X-Served-By: peer; a=\"b: c\"\r\ncOnTeNt-RaNgE:   {place}  \r\nContent-Type: text/plain\r\n"
                )
            } else if self.has(&Fault::NoContentRange) {
                "Content-Type: application/octet-stream\r\n".to_owned()
            } else {
                format!("Content-Type: application/octet-stream\r\nContent-Range: {place}\r\n")
            };
            let head = format!("\r\n--{boundary}\r\n{fields}\r\n");
            body.extend(self.lines(head).into_bytes());
            let from = body.len();
            self.reply.heads.push(at..from);
            body.extend(self.slice(range));
            self.reply.data.push(from..body.len());
            self.reply.payload_bytes += range.end - range.start;
        }
        if !self.has(&Fault::NoClosingDelimiter) {
            body.extend(self.lines(format!("\r\n--{boundary}--\r\n")).into_bytes());
        }
        let quote = if boundary == BOUNDARY { "" } else { "\"" };
        let field =
            format!("Content-Type: multipart/byteranges; boundary={quote}{boundary}{quote}\r\n");
        self.finish(206, &field, body)
    }

    /// The text between parts, with the line ends of the faults.
    fn lines(&self, text: String) -> String {
        if self.has(&Fault::LineFeeds) { text.replace("\r\n", "\n") } else { text }
    }

    /// The response of XRootD 5.5 to too many ranges: the head of a valid response, then a response
    /// with status 500.
    fn corrupt(self) -> MockResponse {
        let head = "Content-Type: multipart/byteranges; boundary=123456\r\n";
        let mut body = b"HTTP/1.1 500 Internal Server Error\r\nConnection: Close\r\n".to_vec();
        body.extend(b"Server: XrootD/v5.5.3\r\nContent-Length: 24\r\n\r\nRead vector is too long");
        let promised = body.len() + 10_000;
        let mut reply = self.finish_with_length(206, head, body, promised);
        reply.close = true;
        reply
    }

    fn unsatisfied(self, size: u64) -> MockResponse {
        self.finish(416, &format!("Content-Range: bytes */{size}\r\n"), Vec::new())
    }

    fn redirect(self, to: &str) -> MockResponse {
        self.finish(302, &format!("Location: {to}\r\n"), b"elsewhere".to_vec())
    }

    fn words(self, status: u16, retry_after: Option<u64>) -> MockResponse {
        let field = retry_after.map_or_else(String::new, |s| format!("Retry-After: {s}\r\n"));
        self.finish(status, &field, format!("this is a {status}\n").into_bytes())
    }

    fn finish(self, status: u16, fields: &str, mut body: Vec<u8>) -> MockResponse {
        let most = self.faults.iter().find_map(|fault| match fault {
            Fault::Truncate(most) => Some(*most),
            _ => None,
        });
        body.truncate(most.unwrap_or(usize::MAX));
        let length = body.len();
        self.finish_with_length(status, fields, body, length)
    }

    fn finish_with_length(
        mut self,
        status: u16,
        fields: &str,
        mut body: Vec<u8>,
        length: usize,
    ) -> MockResponse {
        let mut head = format!("HTTP/1.1 {status} Word\r\n{fields}");
        match self.faults.iter().find_map(|fault| match fault {
            Fault::Chunked(size) => Some((*size).max(1)),
            _ => None,
        }) {
            Some(size) => {
                head.push_str("Transfer-Encoding: chunked\r\n");
                body = chunked(&body, size);
            }
            None => head.push_str(&format!("Content-Length: {length}\r\n")),
        }
        let mut etag = Some(self.file.etag.as_str());
        for fault in self.faults {
            match fault {
                Fault::ETag(other) => etag = Some(other),
                Fault::NoETag => etag = None,
                Fault::OversizeHead(bytes) => {
                    head.push_str(&format!("X-Filler: {}\r\n", "x".repeat(*bytes)));
                }
                Fault::Field(name, value) => head.push_str(&format!("{name}: {value}\r\n")),
                Fault::Server(name) => head.push_str(&format!("Server: {name}\r\n")),
                Fault::CloseAfter => {
                    self.reply.close = true;
                    head.push_str("Connection: close\r\n");
                }
                _ => {}
            }
        }
        if let Some(etag) = etag.filter(|_| status < 300) {
            let name = if self.has(&Fault::Dated) { "Last-Modified" } else { "ETag" };
            head.push_str(&format!("{name}: {etag}\r\n"));
        }
        head.push_str("\r\n");
        self.reply.status = status;
        self.reply.head_len = head.len();
        self.reply.bytes = head.into_bytes();
        if self.question.method == "HEAD" {
            self.reply.payload_bytes = 0;
        } else {
            self.reply.bytes.extend(body);
        }
        self.reply
    }
}

/// A body in chunks of `size` bytes (RFC 9112 section 7.1).
fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + body.len() / size * 12 + 8);
    for chunk in body.chunks(size) {
        out.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
    }
    out.extend(b"0\r\n\r\n");
    out
}
