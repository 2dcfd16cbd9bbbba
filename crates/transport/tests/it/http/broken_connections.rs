//! Connections that break at every stage.

use crate::fixture::{
    LARGE, SMALL, THREE, content, expect_bytes, expect_error, peer, read, source, with_connections,
};
use hither_core::ErrorKind;
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition};

const STAGES: [ResponsePosition; 8] = [
    ResponsePosition::Answer(0),
    ResponsePosition::Answer(20),
    ResponsePosition::Body(0),
    ResponsePosition::PartHead(0),
    ResponsePosition::PartData(0),
    ResponsePosition::PartHead(1),
    ResponsePosition::PartHead(2),
    ResponsePosition::PartData(2),
];

#[tokio::test]
async fn a_connection_that_breaks_once_is_replaced() {
    for place in STAGES {
        for fault in [Fault::Close(place), Fault::Reset(place)] {
            let what = format!("{fault:?}");
            let peer = peer(LARGE, [(FaultTrigger::Nth(0), fault)]);
            expect_bytes(&what, &peer, with_connections(1), 2).await;
            assert_eq!(peer.connections(), 2, "{what}");
        }
    }
}

#[tokio::test]
async fn bytes_that_arrived_before_the_break_are_not_requested_again() {
    let peer = peer(LARGE, [(FaultTrigger::Nth(0), Fault::Close(ResponsePosition::PartData(2)))]);
    let source = source(&peer.url(), with_connections(1));
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
    assert_eq!(got.retries, 1);
    let asked: Vec<_> = peer.log().into_iter().filter_map(|it| it.ranges).collect();
    assert_eq!(asked, ["0-99,5000-5009,20000-28999", "24500-28999"]);
}

#[tokio::test]
async fn a_connection_that_always_breaks_ends_with_an_error() {
    for place in [
        ResponsePosition::Answer(0),
        ResponsePosition::Answer(20),
        ResponsePosition::Body(0),
        ResponsePosition::PartHead(0),
    ] {
        for fault in [Fault::Close(place), Fault::Reset(place)] {
            let what = format!("{fault:?}");
            let peer = peer(LARGE, [(FaultTrigger::Always, fault)]);
            // One more than the number of attempts: after two without a response, a request with
            // fewer ranges is tried.
            expect_error(&what, &peer, with_connections(1), ErrorKind::Unavailable, 5).await;
        }
    }
}

#[tokio::test]
async fn a_read_with_progress_does_not_fail() {
    // Every response breaks off, but each delivers some bytes of the file.
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Close(ResponsePosition::Body(1_000)))]);
    expect_bytes("a kilobyte each", &peer, with_connections(1), 12).await;
}

#[tokio::test]
async fn a_body_shorter_than_its_ranges_is_requested_again() {
    for most in [0, 50, 400] {
        let peer = peer(LARGE, [(FaultTrigger::Nth(0), Fault::Truncate(most))]);
        expect_bytes(&format!("{most} bytes"), &peer, with_connections(1), 2).await;
    }
}

#[tokio::test]
async fn bodies_that_are_always_empty_end_with_an_error() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Truncate(0))]);
    expect_error("empty", &peer, with_connections(1), ErrorKind::Protocol, 4).await;
}

#[tokio::test]
async fn a_whole_file_that_always_breaks_off_too_early_ends_with_an_error() {
    for size in [SMALL, LARGE] {
        let peer = peer(
            size,
            [
                (FaultTrigger::Always, Fault::Whole),
                (FaultTrigger::Always, Fault::Close(ResponsePosition::Body(10_000))),
            ],
        );
        let error =
            read(&source(&peer.url(), with_connections(1)), &[20_000..29_000]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{size}: {error:?}");
        assert!(peer.log().len() <= 8, "{size}: {} requests", peer.log().len());
    }
}
