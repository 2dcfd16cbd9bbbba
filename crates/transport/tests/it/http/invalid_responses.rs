//! Inconsistent responses: none of their bytes are delivered.

use crate::fixture::{
    LARGE, SMALL, THREE, expect_bytes, expect_error, patient, peer, read, source, with_connections,
};
use hither_core::{ErrorKind, Request, Source};
use hither_testkit::mock_http::lossy_http::{LossyAct, LossyHttpServer};
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition};

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
        let several = peer(LARGE, [(FaultTrigger::Always, fault.clone())]);
        expect_error(&what, &several, with_connections(1), ErrorKind::Protocol, 4).await;
        let single =
            peer(LARGE, [(FaultTrigger::Always, fault), (FaultTrigger::Always, Fault::FirstOnly)]);
        expect_error(&what, &single, with_connections(1), ErrorKind::Protocol, 4).await;
    }
}

#[tokio::test]
async fn a_response_that_goes_on_after_its_parts_is_not_read_to_its_end() {
    let part = "\r\n--b\r\nContent-Range: bytes 0-9/1000\r\n\r\n0123456789";
    let last = part.replace("0-9", "20-29").replace("0123456789", "abcdefghij");
    let after = format!("\r\n--b--\r\n{}", "x".repeat(200_000));
    for rest in [part.repeat(4_000), after] {
        let body: &'static str = format!("{part}{last}{rest}").leak();
        let fields = "Content-Type: multipart/byteranges; boundary=b\r\n";
        let respond = move |_: &str, _: &str, _| LossyAct::Respond(206, fields, body);
        let server = LossyHttpServer::start(respond).unwrap();
        let source = source(&server.url_of("/file"), with_connections(1));
        let request = Request { ranges: vec![0..10, 20..30], ..Request::default() };
        let error = source.fetch(request, Box::new(drop)).await.unwrap_err();
        assert!(error.to_string().contains("more bytes than the requested ranges"), "{error}");
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
