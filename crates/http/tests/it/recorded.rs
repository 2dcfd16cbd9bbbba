//! Responses recorded byte for byte from real servers over loopback, Debian 12 packages, stock
//! configuration.
//!
//! The file has 5,000 bytes; the one at `i` is `(7 i + i / 256) mod 256`, so that line ends and
//! dashes occur in it. Each test names the request.

use crate::parts::{self, Parts};
use hither_http::{
    ContentRangeError, MultipartError, RangeResponse, RangeResponseError, ResponseHead, Validator,
    classify,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::ops::Range;

const SIZE: u64 = 5_000;

fn file(range: &Range<u64>) -> Vec<u8> {
    range.clone().map(|i| (7 * i + i / 256).to_le_bytes()[0]).collect()
}

/// Status, header fields and body of a recorded answer.
fn split(recorded: &'static [u8]) -> (StatusCode, HeaderMap, &'static [u8]) {
    let end = recorded.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&recorded[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        let name: HeaderName = name.parse().unwrap();
        (name, value.trim().parse::<HeaderValue>().unwrap())
    });
    (status, headers.collect(), &recorded[end + 4..])
}

macro_rules! recorded {
    ($name:literal) => {
        split(include_bytes!(concat!("transcripts/", $name, ".http")))
    };
}

fn expect_parts(recorded: (StatusCode, HeaderMap, &[u8]), ranges: &[Range<u64>]) {
    let (status, headers, body) = recorded;
    let Ok(RangeResponse::Multipart { boundary }) = classify(status, &headers, ranges.len()) else {
        panic!("not a multipart answer: {headers:?}");
    };
    let parts = ranges.iter().map(|range| (range.clone(), Some(SIZE), file(range))).collect();
    let expected = Parts { parts, ended: true };
    let every: Vec<usize> = (0..body.len()).collect();
    assert_eq!(parts::read(&boundary, body, &[]).0, expected);
    assert_eq!(parts::read(&boundary, body, &every), (expected, Ok(())));
    for cut in 0..body.len() {
        assert_eq!(parts::read(&boundary, body, &[cut]).1, Ok(()), "cut at {cut}");
    }
    // Every prefix gives what it holds and says that more was promised.
    for length in 0..body.len() {
        let (found, ended) = parts::read(&boundary, &body[..length], &[]);
        let closing = [b"--", boundary.as_slice(), b"--"].concat();
        if body[..length].ends_with(&closing)
            || body[..length].ends_with(&[&closing[..], b"\r"].concat())
        {
            assert_eq!(ended, Ok(()));
            continue;
        }
        let Err(MultipartError::Truncated { complete, .. }) = ended else {
            panic!("prefix of {length} bytes ended with {ended:?}");
        };
        assert_eq!(complete, found.parts.len() as u64);
        assert!(found.parts.iter().zip(ranges).all(|(part, range)| part.2 == file(range)));
    }
}

/// `bytes=0-9,256-355,1000-1000,4990-4999`, five makes.
#[test]
fn ascending_ranges_come_as_asked() {
    let asked = [0..10, 256..356, 1000..1001, 4990..5000];
    expect_parts(recorded!("nginx-1.22-multi"), &asked);
    expect_parts(recorded!("apache-2.4-multi"), &asked);
    expect_parts(recorded!("caddy-2.6-multi"), &asked);
    expect_parts(recorded!("lighttpd-1.4-multi"), &asked);
    expect_parts(recorded!("xrootd-5.5-multi"), &asked);
}

/// `bytes=4990-4999,100-109,0-9,100-109`
#[test]
fn unordered_and_repeated_ranges_are_reported_as_they_come() {
    let asked = [4990..5000, 100..110, 0..10, 100..110];
    expect_parts(recorded!("nginx-1.22-unordered"), &asked);
}

fn expect_single(recorded: (StatusCode, HeaderMap, &[u8]), asked: usize, range: Range<u64>) {
    let (status, headers, body) = recorded;
    let single = RangeResponse::Single { range: range.clone(), total: Some(SIZE) };
    assert_eq!(classify(status, &headers, asked), Ok(single));
    assert_eq!(body, file(&range));
    assert_eq!(ResponseHead::of(status, &headers).size, Some(SIZE));
}

/// `bytes=0-9,10-29,25-39` at Apache; `bytes=0-9,9000-9009` at nginx; `bytes=0-9,-10` at XrdHttp,
/// which has no tails.
#[test]
fn several_ranges_may_be_answered_by_one() {
    expect_single(recorded!("apache-2.4-merged"), 3, 0..40);
    expect_single(recorded!("nginx-1.22-only-one-satisfiable"), 2, 0..10);
    expect_single(recorded!("xrootd-5.5-suffix-ignored"), 2, 0..10);
}

/// `bytes=9000-9009,9100-9109`; Apache doesn't tell the size.
#[test]
fn ranges_beyond_the_file_are_unsatisfied() {
    for ((status, headers, _), size) in [
        (recorded!("nginx-1.22-unsatisfied"), Some(SIZE)),
        (recorded!("caddy-2.6-unsatisfied"), Some(SIZE)),
        (recorded!("apache-2.4-unsatisfied"), None),
    ] {
        assert_eq!(classify(status, &headers, 2), Ok(RangeResponse::Unsatisfied { size }));
        assert_eq!(ResponseHead::of(status, &headers).size, size);
    }
}

/// `bytes=9000-9009`: the bytes that are promised never come.
#[test]
fn a_range_past_the_end_is_not_believed() {
    let (status, headers, body) = recorded!("xrootd-5.5-past-the-end");
    let past = ContentRangeError::PastTheEnd { last: 9009, total: SIZE };
    assert_eq!(classify(status, &headers, 1), Err(RangeResponseError::ContentRange(past)));
    assert_eq!(body, b"");
}

/// 1,200 ranges.
#[test]
fn too_long_a_header_asks_for_smaller_requests() {
    for (recorded, expected) in [
        (recorded!("nginx-1.22-header-too-large"), 400),
        (recorded!("lighttpd-1.4-header-too-large"), 431),
    ] {
        let status = StatusCode::from_u16(expected).unwrap();
        assert_eq!(
            classify(recorded.0, &recorded.1, 1_200),
            Ok(RangeResponse::TooLarge { status })
        );
    }
}

/// 1,100 ranges at a server that reads at most 1,024 and has promised the parts by then.
#[test]
fn an_error_written_into_the_body_is_recognised() {
    let (status, headers, body) = recorded!("xrootd-5.5-too-many");
    let Ok(RangeResponse::Multipart { boundary }) = classify(status, &headers, 1_100) else {
        panic!("not a multipart answer");
    };
    let (found, ended) = parts::read(&boundary, body, &[3, 50]);
    assert_eq!(found, Parts::default());
    let seen = "HTTP/1.1 500 Internal Server Error".to_owned();
    assert_eq!(ended, Err(MultipartError::ServerFailed { seen }));
}

#[test]
fn validators_are_strong_tags_or_dates() {
    let tag = |text: &'static str| Some(Validator::ETag(HeaderValue::from_static(text)));
    for ((status, headers, _), validator, software) in [
        (recorded!("nginx-1.22-multi"), tag("\"6b018732-1388\""), "nginx/1.22.1"),
        (recorded!("caddy-2.6-multi"), tag("\"toup823uw\""), "Caddy"),
        (recorded!("lighttpd-1.4-multi"), None, "lighttpd/1.4.69"),
        (recorded!("xrootd-5.5-multi"), None, "XrootD/v5.5.3"),
    ] {
        let facts = ResponseHead::of(status, &headers);
        assert_eq!(facts.validator, validator);
        assert_eq!(facts.server.as_deref(), Some(software));
    }
}
