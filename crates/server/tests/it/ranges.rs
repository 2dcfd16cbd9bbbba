//! Ranges in all forms, and QUERY.

use crate::memory::on_each_backend;
use crate::rig::{Reply, Served};
use bytes::Bytes;
use hither_http::vector::frames::{FrameEvent, FrameReader};
use hither_http::vector::{FRAMES_TYPE, RANGES_TYPE, RangeList};
use hither_http::{MultipartReader, range_header};
use std::ops::Range;
use std::sync::OnceLock;

const SIZE: u64 = 3_000_000;

fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT
        .get_or_init(|| (0..SIZE).map(|n| u8::try_from((n * n / 11 + n) % 251).unwrap()).collect())
}

/// A server for each backend.
fn served() -> [Served; 2] {
    let servers = on_each_backend(|settings| settings.limits.header_bytes = 1 << 20);
    servers.iter().for_each(|served| served.file("file", content()));
    servers
}

fn slice(range: &Range<u64>) -> Vec<u8> {
    content()[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
}

/// Offsets and bytes of a multipart response, in its order.
fn parts(reply: &Reply) -> Vec<(u64, Vec<u8>)> {
    let kind = reply.field("content-type").unwrap();
    let (_, boundary) = kind.split_once("boundary=").unwrap();
    let mut parser = MultipartReader::new(boundary.as_bytes()).unwrap();
    let mut body = Bytes::from(reply.body.clone());
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    while let Some(event) = parser.next(&mut body).unwrap() {
        match event {
            hither_http::MultipartEvent::PartStart { range, total } => {
                assert_eq!(total, Some(SIZE));
                parts.push((range.start, Vec::new()));
            }
            hither_http::MultipartEvent::Data { bytes, .. } => {
                parts.last_mut().unwrap().1.extend(bytes)
            }
            _ => {}
        }
    }
    parser.finish().unwrap();
    parts
}

#[test]
fn one_range_is_one_part_of_the_file() {
    for served in served() {
        for (field, range) in [
            ("0-0", 0..1),
            ("100-1999999", 100..2_000_000),
            ("2999999-", 2_999_999..SIZE),
            ("-5", 2_999_995..SIZE),
            ("-99999999", 0..SIZE),
            ("10-99999999,5000000-", 10..SIZE),
        ] {
            let reply = served.get("/file", &[&format!("Range: bytes={field}")]);
            assert_eq!(reply.status, 206, "{field}");
            let place = format!("bytes {}-{}/{SIZE}", range.start, range.end - 1);
            assert_eq!(reply.field("content-range"), Some(&*place));
            assert!(reply.body == slice(&range), "{field}");
        }
        for field in ["3000000-", "-0", "9999999-10000000,4000000-"] {
            let reply = served.get("/file", &[&format!("Range: bytes={field}")]);
            assert_eq!(reply.status, 416, "{field}");
            assert_eq!(reply.field("content-range"), Some("bytes */3000000"));
        }
        for field in ["Range: bytes=5-4", "Range: rows=1-2", "Range: bytes=0-2999999,0-5"] {
            assert_eq!(served.get("/file", &[field]).status, 200, "{field}");
        }
    }
}

#[test]
fn twenty_thousand_ranges_come_in_the_order_of_the_request() {
    for served in served() {
        // In descending order, so that the order on disk differs from that of the response.
        let ranges: Vec<_> = (0..20_000).rev().map(|n| n * 150..n * 150 + 1 + n % 100).collect();
        let field = format!("Range: {}", range_header::format(&ranges, None).unwrap());
        let reply = served.get("/file", &[&field]);
        assert_eq!(reply.status, 206);
        assert_eq!(reply.field("content-length"), Some(&*reply.body.len().to_string()));
        let expected: Vec<_> = ranges.iter().map(|range| (range.start, slice(range))).collect();
        assert!(parts(&reply) == expected);
        let one_more = format!("{field},0-0");
        assert_eq!(served.get("/file", &[&one_more]).status, 416);
    }
}

#[test]
fn a_validator_guards_ranges() {
    for served in served() {
        let tag = served.etag("/file");
        let date = served.get("/file", &[]).field("last-modified").unwrap().to_owned();
        for own in [&tag, &date] {
            let reply = served.get("/file", &["Range: bytes=0-9", &format!("If-Range: {own}")]);
            assert_eq!(reply.status, 206, "{own}");
        }
        for other in ["\"other\"", "W/\"other\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            let reply = served.get("/file", &["Range: bytes=0-9", &format!("If-Range: {other}")]);
            assert_eq!((reply.status, reply.body.len() as u64), (200, SIZE), "{other}");
        }
    }
}

fn query(served: &Served, list: &RangeList, fields: &[&str]) -> Reply {
    let kind = format!("Content-Type: {RANGES_TYPE}");
    let fields: Vec<_> = fields.iter().copied().chain([&*kind]).collect();
    served.ask("QUERY", "/file", &fields, &list.encode())
}

/// Size of the file, and the offsets and bytes of a response in frames.
fn frames(reply: &Reply) -> (u64, Vec<(u64, Vec<u8>)>) {
    assert_eq!((reply.status, reply.field("content-type")), (200, Some(FRAMES_TYPE)));
    let (mut parser, mut body) = (FrameReader::default(), Bytes::from(reply.body.clone()));
    let Some(FrameEvent::Size(size)) = parser.next(&mut body).unwrap() else { panic!("no size") };
    let mut found = Vec::new();
    while let Some(event) = parser.next(&mut body).unwrap() {
        let FrameEvent::Data { offset, bytes } = event else { panic!("two sizes") };
        found.push((offset, bytes.to_vec()));
    }
    parser.finish().unwrap();
    (size, found)
}

#[test]
fn a_query_returns_every_byte_once_in_the_order_of_the_file() {
    for served in served() {
        let ranges = vec![2_000_000..2_600_000, 50..60, 0..10, 5..20, 2_999_990..9_000_000];
        let reply = query(&served, &RangeList { ranges, tail: 20 }, &[]);
        let (size, found) = frames(&reply);
        assert_eq!(size, SIZE);
        assert_eq!(reply.field("content-length"), Some(&*reply.body.len().to_string()));
        let mut at = Vec::new();
        for (offset, bytes) in found {
            let range = offset..offset + bytes.len() as u64;
            assert!(bytes == slice(&range), "{range:?}");
            match at.last_mut() {
                Some(Range { end, .. }) if *end == range.start => *end = range.end,
                _ => at.push(range),
            }
        }
        assert_eq!(at, [0..20, 50..60, 2_000_000..2_600_000, 2_999_980..SIZE]);
    }
}

#[test]
fn a_query_may_be_answered_in_parts() {
    for served in served() {
        let ranges = vec![100..110, 0..10, 100..110];
        let list = RangeList { ranges: ranges.clone(), tail: 0 };
        let reply = query(&served, &list, &["Accept: multipart/byteranges"]);
        assert_eq!(reply.status, 200);
        let expected: Vec<_> = ranges.iter().map(|range| (range.start, slice(range))).collect();
        assert_eq!(parts(&reply), expected);
    }
}

#[test]
fn ranges_beyond_the_end_are_cut() {
    for served in served() {
        let list = RangeList { ranges: vec![SIZE..SIZE + 10], tail: 0 };
        assert_eq!(frames(&query(&served, &list, &[])), (SIZE, vec![]));
        served.file("file", b"");
        let list = RangeList { ranges: vec![], tail: 10 };
        assert_eq!(frames(&query(&served, &list, &[])), (0, vec![]));
    }
}

#[test]
fn invalid_queries_are_rejected() {
    for served in served() {
        let list = RangeList { ranges: vec![0..10], tail: 0 };
        let body = list.encode();
        let status =
            |fields: &[&str], body: &[u8]| served.ask("QUERY", "/file", fields, body).status;
        let kind = format!("Content-Type: {RANGES_TYPE}");
        assert_eq!(status(&[], &body), 400);
        assert_eq!(status(&["Content-Type: text/plain"], &body), 415);
        assert_eq!(status(&[&kind, "Accept: text/html"], &body), 406);
        assert_eq!(status(&[&kind, "If-Match: \"other\""], &body), 412);
        assert_eq!(status(&[&kind], b"\0\x02"), 400);
        assert_eq!(status(&[&kind], &vec![0; 1_000_000]), 413);
        let many = RangeList { ranges: vec![0..1; 20_001], tail: 0 };
        assert_eq!(status(&[&kind], &many.encode()), 413);
        assert_eq!(served.ask("QUERY", "/", &[&kind], &body).status, 404);
        let tag = served.etag("/file");
        assert_eq!(status(&[&kind, &format!("If-Match: {tag}")], &body), 200);
    }
}
