//! Inconsistent responses: none of their bytes are delivered, as far as they contradict each other.

use crate::fixture::{
    LARGE, SMALL, THREE, content, expect_bytes, expect_error, patient, peer, read, source,
    with_connections,
};
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Request, Source};
use hither_testkit::mock_http::lossy_http::{LossyAct, LossyHttpServer};
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition};
use std::ops::Range;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn ranges_that_were_not_requested_are_rejected() {
    for fault in [
        Fault::RangeShifted(1),
        Fault::RangeShifted(10_000),
        Fault::RangeBeyond,
        Fault::RangeTotal(10),
        Fault::NoContentRange,
    ] {
        let what = format!("{fault:?}");
        // At most two requests for several ranges, and four for one.
        let several = peer(LARGE, [(FaultTrigger::Always, fault.clone())]);
        expect_error(&what, &several, with_connections(1), ErrorKind::Protocol, 6).await;
        let single =
            peer(LARGE, [(FaultTrigger::Always, fault), (FaultTrigger::Always, Fault::FirstOnly)]);
        expect_error(&what, &single, with_connections(1), ErrorKind::Protocol, 6).await;
    }
}

#[tokio::test]
async fn a_response_that_goes_on_after_its_parts_is_not_read_to_its_end() {
    let parts = format!("{}{}", part(0, "0123456789"), part(20, "abcdefghij"));
    let later: String = (30..9_000).map(|at| part(at, "x")).collect();
    let after = format!("\r\n--b--\r\n{}", "x".repeat(200_000));
    for rest in [later, after] {
        let (_, error) = fetched(&[0..10, 20..30], &format!("{parts}{rest}")).await;
        let error = error.unwrap();
        assert!(error.to_string().contains("more bytes than the requested ranges"), "{error}");
    }
}

/// A part at `offset` of a file of 10,000 bytes, with a delimiter before it.
fn part(offset: u64, data: &str) -> String {
    labelled(offset..offset + data.len() as u64, data)
}

/// A part whose label has this range.
fn labelled(range: Range<u64>, data: &str) -> String {
    let Range { start, end } = range;
    format!("\r\n--b\r\nContent-Range: bytes {start}-{}/10000\r\n\r\n{data}", end - 1)
}

/// The bytes that a response with this multipart `body` delivers, and the error.
async fn fetched(ranges: &[Range<u64>], body: &str) -> (Vec<(u64, String)>, Option<Error>) {
    let body: &'static str = body.to_owned().leak();
    let fields = "Content-Type: multipart/byteranges; boundary=b\r\n";
    let respond = move |_: &str, _: &str, _| LossyAct::Respond(206, fields, body);
    let server = LossyHttpServer::start(respond).unwrap();
    let source = source(&server.url_of("/file"), with_connections(1));
    let delivered = Arc::new(Mutex::new(Vec::<(u64, String)>::new()));
    let into = Arc::clone(&delivered);
    let request = Request { ranges: ranges.to_vec(), ..Request::default() };
    let sink = move |part: hither_core::Part| {
        let text = String::from_utf8(part.bytes.to_vec()).unwrap();
        let mut delivered = lock(&into);
        match delivered.last_mut() {
            Some((offset, last)) if *offset + last.len() as u64 == part.offset => *last += &text,
            _ => delivered.push((part.offset, text)),
        }
    };
    let error = source.fetch(request, Box::new(sink)).await.err();
    (std::mem::take(&mut *lock(&delivered)), error)
}

#[tokio::test]
async fn a_part_that_contradicts_its_label_is_not_delivered() {
    let good = part(0, "0123456789");
    let first = [(0, "0123456789".to_owned())];
    let end = "\r\n--b--\r\n";
    for (what, range, data) in [
        ("the delimiter has the place of the last bytes", 20..30, "a"),
        ("the delimiter is within the part", 20..50, "busy"),
        ("the delimiter begins in the part", 20..30, "<busy>"),
        ("the part has more bytes than its label", 20..30, "abcdefghij!"),
        ("the part is empty", 20..29, ""),
    ] {
        let short = format!("{}{end}", labelled(range.clone(), data));
        let (delivered, error) = fetched(std::slice::from_ref(&range), &short).await;
        assert_eq!(delivered, [], "{what}");
        assert_eq!(error.unwrap().kind(), ErrorKind::Protocol, "{what}");
        // Another part of the response has its delimiter.
        let (delivered, error) = fetched(&[0..10, range], &format!("{good}{short}")).await;
        assert_eq!(delivered, first, "{what}");
        assert_eq!(error.unwrap().kind(), ErrorKind::Protocol, "{what}");
    }
    for closing in [end, "\r\n", ""] {
        let (delivered, error) = fetched(&[0..10], &format!("{good}{closing}")).await;
        assert_eq!((delivered, error.is_none()), (first.to_vec(), true), "{closing:?}");
    }
}

#[tokio::test]
async fn parts_that_contradict_each_other_are_not_used() {
    let zeros = "0".repeat(10);
    let end = "\r\n--b--\r\n";
    for (at, data) in [(0, "0123456789"), (9, "9"), (5, "5678901234")] {
        let body = format!("{}{}{end}", part(0, &zeros), part(at, data));
        let (delivered, error) = fetched(&[0..15], &body).await;
        assert_eq!((delivered, error.unwrap().kind()), (Vec::new(), ErrorKind::Protocol), "{at}");
        // The first part has been delivered: the read must not go on.
        let (_, error) = fetched(&[0..15, 100..110], &body).await;
        assert_eq!(error.unwrap().kind(), ErrorKind::Changed, "{at}");
    }
}

#[tokio::test]
async fn a_response_that_lacks_requested_bytes_is_an_error() {
    let body = format!("{}{}\r\n--b--\r\n", part(0, "0123456789"), part(20, "abcdefghij"));
    let (delivered, error) = fetched(&[0..30], &body).await;
    let error = error.unwrap();
    assert_eq!((delivered.len(), error.kind()), (2, ErrorKind::Protocol));
    assert!(error.to_string().contains("lacks 10 requested bytes"), "{error}");
}

#[tokio::test]
async fn bytes_of_a_response_without_a_length_that_ends_early_are_requested_again() {
    let ranges = [20_000..29_000];
    for size in [SMALL, LARGE] {
        let cut = [Fault::Chunked(1_000), Fault::Truncate(3_000)];
        let peer = peer(size, cut.map(|fault| (FaultTrigger::Nth(0), fault)));
        let source = source(&peer.url(), with_connections(1));
        read(&source, &ranges).await.unwrap().is_exact(&content(size), &ranges).unwrap();
        let asked: Vec<_> = peer.log().into_iter().filter_map(|it| it.ranges).collect();
        assert_eq!(asked, ["20000-28999", "20000-28999"]);
    }
}

#[tokio::test]
async fn a_response_that_is_not_http_is_rejected_at_once() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Garbage)]);
    expect_error("garbage", &peer, with_connections(1), ErrorKind::Protocol, 1).await;
}

#[tokio::test]
async fn an_endless_header_is_rejected() {
    let large = peer(LARGE, [(FaultTrigger::Always, Fault::OversizeHead(2_000_000))]);
    expect_error("2 MB", &large, with_connections(1), ErrorKind::Protocol, 1).await;
    let error = read(&source(&large.url(), with_connections(1)), &THREE).await.unwrap_err();
    assert!(error.to_string().contains("larger than 256 KiB"), "{error}");
    let bearable = peer(LARGE, [(FaultTrigger::Always, Fault::OversizeHead(10_000))]);
    expect_bytes("10 kB", &bearable, with_connections(1), 1).await;
}

#[tokio::test]
async fn ranges_that_were_not_requested_are_no_progress() {
    let peer = peer(
        LARGE,
        [
            (FaultTrigger::Always, Fault::RangeShifted(50_000)),
            (FaultTrigger::Always, Fault::Stall(ResponsePosition::PartData(1))),
        ],
    );
    expect_error("shifted", &peer, patient(1), ErrorKind::Timeout, 4).await;
}

#[tokio::test]
async fn a_coding_that_was_not_asked_for_is_rejected() {
    for (coding, is_rejected) in [
        ("gzip", true),
        ("GZIP", true),
        ("br", true),
        ("gzip, gzip", true),
        ("identity, gzip", true),
        ("x-foo", true),
        ("identity", false),
        ("", false),
    ] {
        let field = Fault::Field("Content-Encoding", coding.to_owned());
        for more in [None, Some(Fault::FirstOnly), Some(Fault::Whole)] {
            let what = format!("{coding:?} {more:?}");
            let peer = peer(SMALL, [(FaultTrigger::Always, field.clone())]);
            more.into_iter().for_each(|fault| peer.add_fault(FaultTrigger::Always, fault));
            let got = read(&source(&peer.url(), with_connections(1)), &THREE).await;
            match got {
                Ok(_) => assert!(!is_rejected, "{what}"),
                Err(error) => {
                    assert!(is_rejected, "{what}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Protocol, "{what}");
                }
            }
        }
    }
}
