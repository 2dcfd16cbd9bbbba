//! Statuses that bring no bytes.

use crate::rig::{LARGE, THREE, expect_bytes, expect_error, peer, read, source, with_lanes};
use hither_core::{ErrorKind, Retry};
use hither_testkit::peer::{Fault, When};

fn status(status: u16) -> Fault {
    Fault::Status { status, retry_after: None }
}

#[tokio::test]
async fn each_refusal_has_its_kind_and_is_final() {
    for (code, kind) in [
        (401, ErrorKind::Unauthenticated),
        (403, ErrorKind::PermissionDenied),
        (404, ErrorKind::NotFound),
        (410, ErrorKind::NotFound),
        (418, ErrorKind::Protocol),
        (501, ErrorKind::Unavailable),
    ] {
        let peer = peer(LARGE, [(When::Always, status(code))]);
        expect_error(&code.to_string(), &peer, with_lanes(1), kind, 1).await;
    }
}

#[tokio::test]
async fn trouble_that_passes_is_waited_for() {
    for (code, retry_after) in [(500, None), (503, Some(0)), (429, Some(0)), (502, None)] {
        let peer = peer(LARGE, [(When::Nth(0), Fault::Status { status: code, retry_after })]);
        expect_bytes(&code.to_string(), &peer, with_lanes(1), 2).await;
    }
}

#[tokio::test]
async fn trouble_that_stays_is_given_up() {
    let peer = peer(LARGE, [(When::Always, Fault::Status { status: 503, retry_after: Some(0) })]);
    expect_error("503", &peer, with_lanes(1), ErrorKind::Unavailable, 4).await;
}

#[tokio::test]
async fn a_pause_beyond_patience_is_not_waited_for() {
    let fault = Fault::Status { status: 503, retry_after: Some(3600) };
    let peer = peer(LARGE, [(When::Always, fault)]);
    let error = read(&source(&peer.url(), with_lanes(1)), &THREE).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::OtherServer));
    assert_eq!(peer.log().len(), 1);
}

#[tokio::test]
async fn a_request_too_large_once_is_made_smaller() {
    for code in [400, 413, 414, 431] {
        let peer = peer(LARGE, [(When::Nth(0), status(code))]);
        expect_bytes(&code.to_string(), &peer, with_lanes(1), 4).await;
    }
}

#[tokio::test]
async fn a_request_that_stays_too_large_is_given_up() {
    for code in [400, 413, 414, 431] {
        let peer = peer(LARGE, [(When::Always, status(code))]);
        let error = read(&source(&peer.url(), with_lanes(1)), &THREE).await.unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::TooLarge | ErrorKind::Protocol), "{code}: {error:?}");
        assert!(peer.log().len() <= 4, "{code}: {:#?}", peer.log());
    }
}

#[tokio::test]
async fn ranges_beyond_the_end_mean_a_truncated_file() {
    let peer = peer(1_000, []);
    let source = source(&peer.url(), with_lanes(1));
    for ranges in
        [&[5_000..5_010][..], &[900..1_100], &[0..10, 5_000..5_010], &[10..20, 990..1_010]]
    {
        let error = read(&source, ranges).await.unwrap_err();
        let kind = error.kind();
        assert_eq!(kind, ErrorKind::Corrupt, "{ranges:?}: {error:?}");
    }
    assert!(peer.log().len() <= 12, "{:#?}", peer.log());
}

#[tokio::test]
async fn a_server_that_says_416_to_several_ranges_is_asked_for_one() {
    let peer = peer(LARGE, [(When::Nth(0), status(416))]);
    expect_bytes("416", &peer, with_lanes(1), 4).await;
}
