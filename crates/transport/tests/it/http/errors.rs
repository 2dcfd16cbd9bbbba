//! Status codes of responses without bytes of the file.

use crate::fixture::{
    LARGE, SMALL, THREE, content, expect_bytes, expect_error, network, peer, read, source,
    source_on, with_connections,
};
use hither_core::{ErrorKind, Request, Retry, Source};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};

fn peer_with(fault: Fault) -> MockHttpServer {
    peer(LARGE, [(FaultTrigger::Always, fault)])
}

fn status(status: u16) -> Fault {
    Fault::Status { status, retry_after: None }
}

#[tokio::test]
async fn each_status_has_its_error_kind_and_is_final() {
    // The second request shows that the response does not depend on the number of ranges.
    for (code, kind, requests) in [
        (401, ErrorKind::Unauthenticated, 1),
        (403, ErrorKind::PermissionDenied, 2),
        (404, ErrorKind::NotFound, 2),
        (410, ErrorKind::NotFound, 2),
        (418, ErrorKind::Protocol, 2),
        (501, ErrorKind::Unavailable, 2),
    ] {
        let peer = peer(LARGE, [(FaultTrigger::Always, status(code))]);
        expect_error(&code.to_string(), &peer, with_connections(1), kind, requests).await;
    }
}

#[tokio::test]
async fn a_final_status_with_a_short_body_leaves_the_connection_open() {
    for kind in ["text/plain", "text/html"] {
        let typed = Fault::Field("Content-Type", kind.to_owned());
        let faults = [(FaultTrigger::Before(6), status(404)), (FaultTrigger::Before(6), typed)];
        let peer = peer(LARGE, faults);
        let source = source(&peer.url(), with_connections(1));
        for _ in 0..3 {
            assert_eq!(read(&source, &THREE).await.unwrap_err().kind(), ErrorKind::NotFound);
        }
        read(&source, &THREE).await.unwrap().is_exact(&content(LARGE), &THREE).unwrap();
        assert_eq!((peer.log().len(), peer.connections()), (7, 1), "{kind}");
    }
}

#[tokio::test]
async fn the_reason_of_the_server_is_quoted() {
    for (kind, said) in [("text/plain; charset=utf-8", true), ("text/html", false)] {
        for code in [401, 403, 404, 418] {
            let typed = Fault::Field("Content-Type", kind.to_owned());
            let faults = [(FaultTrigger::Always, status(code)), (FaultTrigger::Always, typed)];
            let peer = peer(LARGE, faults);
            let error = read(&source(&peer.url(), with_connections(1)), &THREE).await.unwrap_err();
            let quoted = format!(", \"this is a {code}\"");
            assert_eq!(error.to_string().contains(&quoted), said, "{kind}: {error}");
        }
    }
}

#[tokio::test]
async fn a_temporary_error_is_retried() {
    for (code, retry_after) in
        [(500, None), (503, Some(0)), (429, None), (408, None), (425, None), (502, None)]
    {
        let peer =
            peer(LARGE, [(FaultTrigger::Nth(0), Fault::Status { status: code, retry_after })]);
        expect_bytes(&code.to_string(), &peer, with_connections(1), 2).await;
    }
}

#[tokio::test]
async fn a_permanent_error_ends_the_read() {
    expect_error("504", &peer_with(status(504)), with_connections(1), ErrorKind::Unavailable, 4)
        .await;
    for code in [408, 425, 429, 503] {
        let busy = peer_with(status(code));
        let error = read(&source(&busy.url(), with_connections(1)), &THREE).await.unwrap_err();
        assert!(matches!(error.retry(), Retry::Busy { .. }), "{error:?}");
        assert!(busy.log().len() > 1, "{:#?}", busy.log());
    }
}

#[tokio::test]
async fn a_retry_after_beyond_the_maximum_is_not_waited_for() {
    let fault = Fault::Status { status: 503, retry_after: Some(3600) };
    let peer = peer(LARGE, [(FaultTrigger::Always, fault)]);
    let error = read(&source(&peer.url(), with_connections(1)), &THREE).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::OtherServer));
    assert_eq!(peer.log().len(), 1);
}

#[tokio::test]
async fn a_request_too_large_once_is_made_smaller() {
    for code in [400, 413, 414, 431] {
        let peer = peer(LARGE, [(FaultTrigger::Nth(0), status(code))]);
        expect_bytes(&code.to_string(), &peer, with_connections(1), 4).await;
    }
}

#[tokio::test]
async fn a_request_that_stays_too_large_ends_with_an_error() {
    for code in [400, 413, 414, 431] {
        let peer = peer(LARGE, [(FaultTrigger::Always, status(code))]);
        let error = read(&source(&peer.url(), with_connections(1)), &THREE).await.unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::TooLarge | ErrorKind::Protocol), "{code}: {error:?}");
        assert!(peer.log().len() <= 4, "{code}: {:#?}", peer.log());
    }
}

#[tokio::test]
async fn ranges_beyond_the_end_mean_a_truncated_file() {
    let peer = peer(1_000, []);
    let source = source(&peer.url(), with_connections(1));
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
async fn a_server_that_rejects_several_ranges_with_416_gets_single_ranges() {
    let peer = peer(LARGE, [(FaultTrigger::Nth(0), status(416))]);
    expect_bytes("416", &peer, with_connections(1), 4).await;
}

#[tokio::test]
async fn a_416_without_a_size_shows_no_empty_file() {
    let first_byte = async |peer: &MockHttpServer| {
        let first = 0..1;
        let request = Request { ranges: vec![first], ..Request::default() };
        source(&peer.url(), with_connections(1)).fetch(request, Box::new(drop)).await
    };
    let requests = |peer: &MockHttpServer| -> Vec<_> {
        peer.log().into_iter().map(|it| (it.method, it.status)).collect()
    };
    let get = |status| ("GET".to_owned(), status);
    for size in [0, SMALL, LARGE] {
        // The size is that of the response to a request without a range.
        let server = peer(size, [(FaultTrigger::Nth(0), status(416))]);
        let answer = first_byte(&server).await.unwrap();
        assert_eq!(answer.size, Some(size as u64));
        assert_eq!(requests(&server), [get(416), get(200)]);
        let server = peer(size, [(FaultTrigger::Always, status(416))]);
        let error = first_byte(&server).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        assert!(error.to_string().contains("responded with 416"), "{error}");
        assert_eq!(requests(&server), [get(416), get(416)]);
    }
}

/// Storage with tape: other files are served while one is being staged, which takes as long as they
/// do.
#[tokio::test]
async fn a_file_that_is_being_staged_delays_no_other() {
    // A 503 with a shorter time means that the server is busy.
    for (code, seconds) in [(503, 5), (202, 1)] {
        let fault = Fault::Status { status: code, retry_after: Some(seconds) };
        let peer = peer(LARGE, [(FaultTrigger::For("tape"), fault)]);
        let network = network(with_connections(2));
        let tape = source_on(&network, &peer.url_of("/tape"));
        let others: Vec<_> =
            (0..50).map(|nth| source_on(&network, &peer.url_of(&format!("/disk{nth}")))).collect();
        let read_others = async {
            for other in &others {
                read(other, &THREE[..1]).await.unwrap();
            }
            peer.clear_faults();
        };
        let (late, ()) = tokio::join!(read(&tape, &THREE[..1]), read_others);
        late.unwrap().is_exact(&content(LARGE), &THREE[..1]).unwrap();
        let (late, soon): (Vec<_>, Vec<_>) =
            peer.log().into_iter().partition(|it| it.target == "/tape");
        assert!(soon.len() == 50 && soon.iter().all(|it| it.status == 206), "{code}: {soon:?}");
        let (last, refused) = late.split_last().unwrap();
        assert_eq!(last.status, 206, "{code}");
        assert!(!refused.is_empty() && refused.iter().all(|it| it.status == code), "{late:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_never_staged_is_waited_for_no_longer_than_requested() {
    let fault = Fault::Status { status: 202, retry_after: Some(3600) };
    let peer = peer(LARGE, [(FaultTrigger::Always, fault)]);
    let error = read(&source(&peer.url(), with_connections(1)), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(matches!(error.retry(), Retry::Later { .. }), "{error:?}");
    assert_eq!(peer.log().len(), 1);
}
