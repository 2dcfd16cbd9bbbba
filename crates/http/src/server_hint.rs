//! Server hints: limits that servers of a known make are likely to accept, for the first request to
//! a server.
//!
//! No decision relies on a hint. Limits learned from the server's responses override it, because
//! limits are configurable and the name does not reveal a proxy in between. A hint saves a round
//! trip: the conservative start (200 ranges in 3,900 bytes) costs twice as many requests at an
//! nginx as it needs.
//!
//! Measured: over loopback with the packages of Debian 12 in their stock configuration, ranges of
//! eight-digit positions, by bisection for the last request with a complete response; the test's
//! header had no other long field. "Text" is the part after `bytes=`. Documented: stated by the
//! maker. Reported: by others, not verified here.

/// Assumptions about a server until its responses show otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerHint {
    /// The recognised make.
    pub software: &'static str,
    /// Maximum number of ranges in one request; `None` if only the header limits them.
    pub max_ranges: Option<usize>,
    /// Maximum number of bytes of range text in one request.
    pub max_header_bytes: usize,
    /// A response to several ranges has several parts; `None` if unknown.
    pub multi: Option<bool>,
    /// A tail (`bytes=-N`) is supported; `None` if unknown.
    pub tail: Option<bool>,
}

/// Ranges and text that every tested server accepts if it accepts several ranges at all.
const CAUTIOUS: ServerHint = ServerHint {
    software: "",
    max_ranges: Some(200),
    max_header_bytes: 3_900,
    multi: None,
    tail: None,
};

/// Maximum text, even where a server accepts a megabyte: the client has to send it within a few
/// windows.
const ENOUGH_HEADER_BYTES: usize = 64 * 1024;

/// The hint from the `Server` and `Via` fields of a response; `None` for an unknown make.
#[must_use]
pub fn server_hint(server: &str, via: Option<&str>) -> Option<ServerHint> {
    let server = server.to_ascii_lowercase();
    let via = via.unwrap_or_default().to_ascii_lowercase();
    // Proxies limit what arrives, so they come first. Varnish 7.1 answers 416 to more than one
    // range and accepts 32 kB of header (measured on an earlier occasion).
    if via.contains("varnish") || server.contains("varnish") {
        return Some(single("varnish"));
    }
    MAKES.iter().find(|(name, _)| server.contains(name)).map(|(_, hint)| hint(&server))
}

type Make = (&'static str, fn(&str) -> ServerHint);

const MAKES: &[Make] = &[
    // Its defaults. It announces its limits for a `QUERY` itself.
    ("hither/", |_| ServerHint {
        software: "hither",
        max_ranges: Some(20_000),
        max_header_bytes: ENOUGH_HEADER_BYTES,
        ..GOOD
    }),
    // Both before "nginx" and "apache", which their names may contain.
    ("openresty", |_| nginx("openresty")),
    ("nginx", |_| nginx("nginx")),
    // Documented: "doesn't support retrieving multiple ranges" (S3), "working as intended" (MinIO
    // issue 5285); Google and Azure reported. One range at a time.
    ("amazons3", |_| single("amazons3")),
    ("minio", |_| single("minio")),
    ("ceph object gateway", |_| single("ceph")),
    ("windows-azure-blob", |_| single("azure")),
    ("uploadserver", |_| single("google")),
    ("xrootd", xrootd),
    // Its pools (Netty) accept 8,192 bytes for the whole header block, including path and token
    // (source).
    ("dcache", |_| ServerHint {
        software: "dcache",
        max_header_bytes: 6_000,
        multi: Some(true),
        max_ranges: None,
        ..CAUTIOUS
    }),
    // 8,192 bytes by default for the whole header block (documented:
    // HttpConfiguration.requestHeaderSize).
    ("jetty", |_| ServerHint {
        software: "jetty",
        max_header_bytes: 6_000,
        multi: Some(true),
        max_ranges: None,
        ..CAUTIOUS
    }),
    // Measured, 1.4.69: 431 when the whole header block exceeds 8,192 bytes. Of more than ten
    // ranges it answers the first ten and does not mention the others. Merges ranges that touch.
    ("lighttpd", |_| ServerHint {
        software: "lighttpd",
        max_header_bytes: 7_400,
        max_ranges: Some(10),
        ..GOOD
    }),
    // Measured, 2.6: 431 when the header block exceeds 1 MiB (58,476 ranges). It is Go's net/http.
    ("caddy", |_| ServerHint {
        software: "caddy",
        max_header_bytes: ENOUGH_HEADER_BYTES,
        max_ranges: None,
        ..GOOD
    }),
    // Measured, 2.4.71: the whole file for the 201st range (MaxRanges), 400 beyond 8,178 bytes of
    // text (LimitRequestFieldSize 8190). Merges ranges that touch or overlap, even into a response
    // of one part.
    ("apache", |_| ServerHint {
        software: "apache",
        max_ranges: Some(200),
        max_header_bytes: 8_100,
        ..GOOD
    }),
];

/// Several ranges and tails are supported.
const GOOD: ServerHint = ServerHint { multi: Some(true), tail: Some(true), ..CAUTIOUS };

/// Measured, 1.22.1: 400 beyond 8,177 bytes of text, that is a header line of 8 KiB with its name
/// and line end (`large_client_header_buffers 4 8k`), whatever the other lines hold; any number of
/// ranges (`max_ranges`).
fn nginx(software: &'static str) -> ServerHint {
    ServerHint { software, max_ranges: None, max_header_bytes: 8_100, ..GOOD }
}

/// One range per request.
fn single(software: &'static str) -> ServerHint {
    ServerHint { software, max_ranges: Some(1), multi: Some(false), ..CAUTIOUS }
}

/// `XrootD/v5.5.3` is the name in Debian's package. Measured, 5.5.3: 1,024 ranges; beyond that it
/// writes an error into the body of a 206. A tail is ignored (alone: the whole file; among ranges:
/// only these are sent), and a range past the end of the file is announced and never sent. From
/// 5.6.2 on tails work (source). The header parser of all versions drops the connection when an
/// incomplete line of 16 KiB is waiting (source), which a slow link makes likely and loopback never
/// shows.
fn xrootd(server: &str) -> ServerHint {
    let version = server.split_once("xrootd/v").map(|(_, version)| version);
    let numbers: Option<Vec<u32>> =
        version.and_then(|version| version.split('.').map(|part| part.parse().ok()).collect());
    let tail = numbers.map(|numbers| numbers.as_slice() >= [5, 6, 2].as_slice());
    ServerHint {
        software: "xrootd",
        max_ranges: Some(1_000),
        max_header_bytes: 15_000,
        multi: Some(true),
        tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn software(server: &str) -> Option<&'static str> {
        server_hint(server, None).map(|hint| hint.software)
    }

    #[test]
    fn knows_the_makes_by_what_they_send() {
        for (server, make) in [
            ("nginx/1.22.1", "nginx"),
            ("nginx", "nginx"),
            ("openresty/1.25.3.1", "openresty"),
            ("Apache/2.4.71 (Debian)", "apache"),
            ("Caddy", "caddy"),
            ("lighttpd/1.4.69", "lighttpd"),
            ("XrootD/v5.5.3", "xrootd"),
            ("Jetty(12.0.9)", "jetty"),
            ("dCache/9.2.1", "dcache"),
            ("AmazonS3", "amazons3"),
            ("MinIO", "minio"),
            ("hither/0.1.0", "hither"),
            ("Ceph Object Gateway (squid)", "ceph"),
            ("Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0", "azure"),
        ] {
            assert_eq!(software(server), Some(make), "{server}");
        }
        assert_eq!(software("SimpleHTTP/0.6 Python/3.11.2"), None);
        assert_eq!(software(""), None);
    }

    #[test]
    fn a_cache_in_between_counts_more_than_the_origin() {
        let hint = server_hint("nginx/1.22.1", Some("1.1 varnish (Varnish/7.1)")).unwrap();
        assert_eq!((hint.software, hint.max_ranges, hint.multi), ("varnish", Some(1), Some(false)));
    }

    #[test]
    fn tails_are_expected_of_xrootd_from_5_6_2_on() {
        for (server, tail) in [
            ("XrootD/v5.5.3", Some(false)),
            ("XrootD/v5.6.2", Some(true)),
            ("XrootD/v6.0.0", Some(true)),
            ("XrootD/v5.6.1", Some(false)),
            ("XrootD/v5.7", Some(true)),
            ("XrootD/v5.7.0.1.2", Some(true)),
            ("XrootD", None),
            ("XrootD/vunknown", None),
        ] {
            assert_eq!(server_hint(server, None).unwrap().tail, tail, "{server}");
        }
    }
}
