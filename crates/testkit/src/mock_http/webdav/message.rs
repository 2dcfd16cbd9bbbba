//! Requests and responses of the mock server over HTTP.

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// The decoded path, without the query.
    pub(super) path: String,
    /// The query, encoded.
    pub(super) query: String,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A request with this head and an empty body; `None` if it is not HTTP.
    pub(super) fn parse(head: &[u8]) -> Option<Self> {
        let head = String::from_utf8_lossy(head).into_owned();
        let mut words = head.split(' ');
        let method = words.next()?.to_owned();
        let target = words.next()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decoded(path);
        let query = query.to_owned();
        Some(Self { method, path, query, head, body: Vec::new() })
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// A value of the query, decoded.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then(|| decoded(value))
        })
    }

    pub(super) fn is_change(&self) -> bool {
        matches!(&*self.method, "PUT" | "MOVE" | "COPY" | "DELETE" | "MKCOL")
    }

    /// The path of `Destination`.
    pub(super) fn destination(&self) -> String {
        let destination = self.field("destination").unwrap_or_default();
        decoded(&format!("/{}", destination.splitn(4, '/').nth(3).unwrap_or_default()))
    }

    /// The offset of a piece in a PUT, and the size of the whole file.
    pub(super) fn piece(&self) -> Option<(usize, usize)> {
        let range = self.field("content-range")?.strip_prefix("bytes ")?;
        let (first, rest) = range.split_once('-')?;
        Some((first.parse().ok()?, rest.split_once('/')?.1.parse().ok()?))
    }
}

pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = byte.and_then(|_| tail.get(2..)).unwrap_or(tail);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A path in URL encoding.
pub(super) fn encoded(path: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    path.bytes().map(encode).collect()
}

/// The end of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// At the length that the head states.
    Length,
    /// At the end of the connection: the head states no length.
    Close,
    /// At the end of the connection, after half of the stated length.
    Cut,
    /// Never, after half of the stated length.
    Stalled,
    /// Never, and nothing of the response is sent.
    Silent,
}

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) fields: String,
    pub(super) body: Vec<u8>,
    pub(super) end: BodyEnd,
}

impl Response {
    pub(super) fn new(status: u16, fields: String, body: Vec<u8>) -> Self {
        Self { status, fields, body, end: BodyEnd::Length }
    }

    /// No response, over a connection that stays open.
    pub(super) fn silent() -> Self {
        Self { end: BodyEnd::Silent, ..Self::plain(200) }
    }

    pub(super) fn plain(status: u16) -> Self {
        Self::new(status, String::new(), Vec::new())
    }

    pub(super) fn page(status: u16, kind: &str, body: &str) -> Self {
        Self::new(status, format!("Content-Type: {kind}\r\n"), body.as_bytes().to_vec())
    }

    pub(super) fn redirect(status: u16, path: &str) -> Self {
        Self::new(status, format!("Location: {path}\r\n"), Vec::new())
    }

    /// The bytes on the wire.
    pub(super) fn bytes(&self, method: &str) -> Vec<u8> {
        if self.end == BodyEnd::Silent {
            return Vec::new();
        }
        let is_bare = self.status == 204;
        let length = match self.end {
            _ if is_bare => String::new(),
            BodyEnd::Close => "Connection: close\r\n".to_owned(),
            _ => format!("Content-Length: {}\r\n", self.body.len()),
        };
        let head = format!("HTTP/1.1 {} Status\r\n{}{length}\r\n", self.status, self.fields);
        let mut bytes = head.into_bytes();
        if method != "HEAD" && !is_bare {
            let is_half = matches!(self.end, BodyEnd::Cut | BodyEnd::Stalled);
            let sent = if is_half { self.body.len() / 2 } else { self.body.len() };
            bytes.extend(self.body.iter().take(sent));
        }
        bytes
    }
}
