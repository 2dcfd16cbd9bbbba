//! Unusual but valid responses: each delivers its bytes.

use crate::fixture::{
    LARGE, SMALL, THREE, content, expect_bytes, network, peer, read, source, source_on,
    with_connections,
};
use hither_core::{ErrorKind, RangeSupport, Request, Source};
use hither_testkit::mock_http::{Fault, FaultTrigger, ResponsePosition};
use hither_transport::TransportConfig;

#[tokio::test]
async fn every_form_of_a_valid_response_is_understood() {
    for fault in [
        Fault::Merged,
        Fault::Reversed,
        Fault::ExtraPartFields,
        Fault::NoClosingDelimiter,
        Fault::NoETag,
        Fault::CloseAfter,
        Fault::Server("nginx/1.22.1".to_owned()),
    ] {
        let peer = peer(LARGE, [(FaultTrigger::Always, fault.clone())]);
        // One request per connection.
        expect_bytes(&format!("{fault:?}"), &peer, with_connections(2), 2).await;
    }
}

#[tokio::test]
async fn all_faults_of_form_at_once() {
    let peer = peer(
        LARGE,
        [
            (FaultTrigger::Always, Fault::Reversed),
            (FaultTrigger::Always, Fault::ExtraPartFields),
            (FaultTrigger::Always, Fault::NoClosingDelimiter),
            (FaultTrigger::Always, Fault::NoETag),
            (FaultTrigger::Always, Fault::CloseAfter),
        ],
    );
    expect_bytes("all", &peer, with_connections(1), 1).await;
}

#[tokio::test]
async fn a_small_file_that_is_sent_whole_is_accepted() {
    let peer = peer(SMALL, [(FaultTrigger::Always, Fault::Whole)]);
    expect_bytes("small", &peer, with_connections(1), 1).await;
}

#[tokio::test]
async fn a_large_file_that_is_sent_whole_is_read_as_far_as_needed() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Whole)]);
    let network = network(with_connections(4));
    let source = source_on(&network, &peer.url());
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
    assert_eq!(source.endpoint().ranges, RangeSupport::Whole);
    assert_eq!(source.max_connections(), 1);
    // Requests before it is known: one request per connection with several ranges, then requests
    // with single ranges.
    let first = peer.log().len();
    assert!(first <= 6, "{first}");
    // Received bytes are kept: there are no further requests until more of the file is read.
    let again = read(&source, &THREE).await.unwrap();
    again.is_exact(&content(LARGE), &THREE).unwrap();
    let ranges = [10..20, LARGE as u64 - 5..LARGE as u64];
    read(&source, &ranges).await.unwrap().is_exact(&content(LARGE), &ranges).unwrap();
    assert_eq!(peer.log().len(), first, "{:#?}", peer.log());
    assert_eq!(network.counters().totals().whole_files, 1);
    // None of them is delivered as one of a file of another size.
    let other = Request { ranges: vec![10..20], size: Some(20), ..Request::default() };
    let delivered = Box::new(|_| panic!("the kept file is another one"));
    let error = source.fetch(other, delivered).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
}

#[tokio::test]
async fn a_page_that_is_kept_is_not_delivered_for_a_file() {
    let faults = [
        Fault::Whole,
        Fault::Chunked(50),
        Fault::Truncate(50),
        Fault::Field("Content-Type", "text/html; charset=utf-8".to_owned()),
    ];
    let peer = peer(LARGE, faults.map(|fault| (FaultTrigger::Nth(0), fault)));
    let source = source(&peer.url(), with_connections(1));
    let request = Request { ranges: vec![0..10], ..Request::default() };
    source.fetch(request.clone(), Box::new(drop)).await.unwrap();
    let of_file = Request { refuses_pages: true, ..request };
    let delivered = Box::new(|_| panic!("a byte of the page is delivered"));
    let error = source.fetch(of_file, delivered).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.to_string().contains("an HTML page in place of the file"), "{error}");
    assert_eq!(peer.log().len(), 1);
}

#[tokio::test]
async fn a_download_of_a_file_does_not_go_on_with_a_page() {
    let peer = peer(
        LARGE,
        [
            (FaultTrigger::Always, Fault::Whole),
            (FaultTrigger::Always, Fault::NoETag),
            (FaultTrigger::Always, Fault::Chunked(7_000)),
            (FaultTrigger::Nth(0), Fault::Close(ResponsePosition::Body(50_000))),
            (FaultTrigger::From(1), Fault::Field("Content-Type", "text/html".to_owned())),
        ],
    );
    let source = source(&peer.url(), with_connections(1));
    let error = read(&source, &[0..LARGE as u64]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
}

#[tokio::test]
async fn a_server_of_single_ranges_gets_requests_for_single_ranges() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::FirstOnly)]);
    let source = source(&peer.url(), with_connections(1));
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
    assert_eq!(source.endpoint().ranges, RangeSupport::Single);
    // The first range arrived in response to the request for all three.
    let asked: Vec<_> = peer.log().into_iter().filter_map(|it| it.ranges).collect();
    assert_eq!(asked, ["0-99,5000-5009,20000-28999", "5000-5009", "20000-28999"]);
}

#[tokio::test]
async fn bytes_take_one_request_if_nothing_is_wrong() {
    let peer = peer(LARGE, []);
    let network = network(with_connections(1));
    let source = source_on(&network, &peer.url());
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
    assert_eq!(got.answer.size, Some(LARGE as u64));
    assert_eq!(got.answer.validator.as_deref(), Some("\"first\""));
    assert_eq!((got.retries, got.answer.unasked_bytes), (0, 0));
    let totals = network.counters().totals();
    assert_eq!((totals.requests, totals.round_trips, totals.connections), (1, 1, 1));
    assert_eq!((totals.bytes_requested, totals.bytes_payload), (9_110, 9_110));
    assert_eq!((peer.log().len(), peer.connections(), peer.round_trips()), (1, 1, 1));
}

#[tokio::test]
async fn connections_are_used_again() {
    let peer = peer(LARGE, []);
    let source = source(&peer.url(), with_connections(1));
    for _ in 0..5 {
        read(&source, &THREE).await.unwrap();
    }
    assert_eq!((peer.log().len(), peer.connections()), (5, 1));
}

#[tokio::test]
async fn stale_connections_are_replaced() {
    let close = Fault::Close(ResponsePosition::Answer(usize::MAX));
    let peer = peer(LARGE, [(FaultTrigger::Always, close)]);
    let source = source(&peer.url(), TransportConfig::default());
    for _ in 0..20 {
        let got = read(&source, &THREE).await.unwrap();
        got.is_exact(&content(LARGE), &THREE).unwrap();
    }
}

#[tokio::test]
async fn connections_work_in_parallel() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Hold(2))]);
    let network = network(with_connections(2));
    let source = source_on(&network, &peer.url());
    let got = read(&source, &[0..100_000]).await.unwrap();
    got.is_exact(&content(LARGE), &[0..100_000]).unwrap();
    assert_eq!((peer.round_trips(), network.counters().totals().round_trips), (1, 1));
    assert_eq!((peer.log().len(), peer.connections()), (2, 2));
}

#[tokio::test]
async fn a_server_that_only_announces_query_is_read_with_get() {
    let offer = ("accept-query", "\"application/vnd.hither.ranges.v1\"".to_owned());
    let peer = peer(
        LARGE,
        [
            (FaultTrigger::Always, Fault::Field(offer.0, offer.1)),
            (FaultTrigger::Nth(1), Fault::Status { status: 405, retry_after: None }),
        ],
    );
    let network = network(with_connections(1));
    let source = source_on(&network, &peer.url());
    read(&source, &[0..10]).await.unwrap();
    assert_eq!(source.endpoint().query, Some(true));
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
    assert_eq!(source.endpoint().query, Some(false));
    let methods: Vec<_> = peer.log().into_iter().map(|logged| logged.method).collect();
    assert_eq!(methods, ["GET", "QUERY", "GET"]);
}
