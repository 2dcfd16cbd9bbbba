//! Bodies written in the dialects of several servers, cut at random, give exactly the bytes of the
//! file.

use crate::parts::{self, Parts};
use hither_http::{MultipartError, multipart};
use proptest::prelude::*;
use std::ops::Range;

/// How a server writes parts.
#[derive(Debug, Clone, Copy)]
struct Dialect {
    boundary: &'static str,
    preamble: &'static str,
    line_end: &'static str,
    /// Fields before and after the range, with `@` for the line end.
    before: &'static str,
    name: &'static str,
    after: &'static str,
    /// The range is stated twice.
    twice: bool,
    size_known: bool,
    closing: &'static str,
}

const NGINX: Dialect = Dialect {
    boundary: "00000000000000000001",
    preamble: "\r\n",
    line_end: "\r\n",
    before: "Content-Type: text/plain@",
    name: "Content-Range",
    after: "",
    twice: false,
    size_known: true,
    closing: "\r\n",
};

const DIALECTS: [Dialect; 7] = [
    NGINX,
    Dialect { boundary: "c2d52b6632e67af1", before: "", name: "Content-range", ..NGINX },
    Dialect { boundary: "34cb9eb5", preamble: "", before: "", after: "Content-Type: @", ..NGINX },
    Dialect { boundary: "123456", name: "Content-range", closing: "", ..NGINX },
    Dialect {
        boundary: "EOSMULTIPARTBOUNDARY",
        preamble: "\n",
        line_end: "\n",
        closing: "\n",
        ..NGINX
    },
    Dialect {
        boundary: "squid:x/y",
        preamble: "a preamble\r\n--not it\r\n",
        closing: "\r\nepilogue",
        ..NGINX
    },
    Dialect {
        boundary: "-",
        before: "X: y@\tfolded@",
        name: "content-range ",
        twice: true,
        size_known: false,
        ..NGINX
    },
];

fn write(dialect: &Dialect, size: u64, parts: &[Range<u64>]) -> Vec<u8> {
    let Dialect { boundary, line_end, .. } = dialect;
    let mut body = dialect.preamble.as_bytes().to_vec();
    for (index, range) in parts.iter().enumerate() {
        if index > 0 {
            body.extend(line_end.bytes());
        }
        let total = if dialect.size_known { size.to_string() } else { "*".to_owned() };
        let place = format!("bytes {}-{}/{total}", range.start, range.end - 1);
        let field = format!("{}: {place}@", dialect.name);
        let fields = field.repeat(if dialect.twice { 2 } else { 1 });
        let head = format!("--{boundary}@{}{fields}{}@", dialect.before, dialect.after);
        body.extend(head.replace('@', line_end).bytes());
        body.extend(file(range));
    }
    if !parts.is_empty() {
        body.extend(line_end.bytes());
    }
    body.extend(format!("--{boundary}--{}", dialect.closing).bytes());
    body
}

/// A file made of what a parser could stumble over: delimiters, line ends and fields.
fn file(range: &Range<u64>) -> Vec<u8> {
    let text = b"\r\n--123456--\r\n--00000000000000000001\nContent-Range: bytes 0-9/10\r\n\r\nHTTP/1.1 500\r\n--";
    range.clone().map(|at| text[usize::try_from(at).unwrap() % text.len()]).collect()
}

fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    let one = (0u64..4_000, 1u64..300).prop_map(|(start, length)| start..start + length);
    prop::collection::vec(one, 0..12)
}

proptest! {
    #[test]
    fn any_split_of_any_dialect_gives_exactly_the_bytes(
        dialect in prop::sample::select(&DIALECTS[..]),
        ranges in ranges(),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let size = 5_000;
        let body = write(&dialect, size, &ranges);
        let total = dialect.size_known.then_some(size);
        let parts = ranges.iter().map(|range| (range.clone(), total, file(range))).collect();
        let read = parts::read(dialect.boundary.as_bytes(), &body, &cuts);
        prop_assert_eq!(read, (Parts { parts, ended: true }, Ok(())));
    }

    #[test]
    fn a_prefix_gives_its_complete_parts_and_is_truncated(
        dialect in prop::sample::select(&DIALECTS[..]),
        ranges in ranges(),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
        length in any::<prop::sample::Index>(),
    ) {
        let body = write(&dialect, 5_000, &ranges);
        let closing = format!("--{}--{}", dialect.boundary, dialect.closing).len();
        let prefix = &body[..length.index(body.len() - closing + 1)];
        let (found, ended) = parts::read(dialect.boundary.as_bytes(), prefix, &cuts);
        prop_assert!(found.parts.len() <= ranges.len());
        for ((range, _, data), asked) in found.parts.iter().zip(&ranges) {
            prop_assert_eq!(range, asked);
            prop_assert_eq!(data, &file(asked));
        }
        let Err(MultipartError::Truncated { complete, .. }) = ended else {
            return Err(TestCaseError::fail(format!("ended with {ended:?}")));
        };
        prop_assert_eq!(complete, found.parts.len() as u64);
    }

    #[test]
    fn a_part_of_another_length_than_promised_is_found_out(
        dialect in prop::sample::select(&DIALECTS[..]),
        longer in any::<bool>(),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        // The part promises bytes 10..20, and one byte is added or taken away.
        let mut body = write(&dialect, 5_000, &[10..20, 30..40]);
        let data = file(&(10..20));
        let at = body.windows(10).position(|ten| ten == data).unwrap();
        if longer {
            body.insert(at, b'x');
        } else {
            body.remove(at);
        }
        let (found, ended) = parts::read(dialect.boundary.as_bytes(), &body, &cuts);
        prop_assert!(found.parts.len() <= 1);
        let refused = matches!(ended, Err(MultipartError::Delimiter { end: 20, .. }));
        prop_assert!(refused, "ended with {:?}", ended);
    }
}

#[test]
fn text_between_parts_is_bounded_per_part_not_per_body() {
    let ranges: Vec<Range<u64>> = (0..1_000).map(|index| index..index + 1).collect();
    let body = write(&NGINX, 5_000, &ranges);
    assert!(body.len() > 4 * multipart::MAX_HEADER_BYTES);
    assert_eq!(parts::read(NGINX.boundary.as_bytes(), &body, &[]).1, Ok(()));
}
