//! Limits of servers, which are learned and respected.

use crate::fixture::{LARGE, content, peer, read, source, with_connections};
use hither_core::{ErrorKind, Source};
use hither_testkit::mock_http::{Fault, FaultTrigger, Limit, OverLimit};
use std::ops::Range;

/// Ranges of ten bytes that are never merged.
fn scattered(n: u64) -> Vec<Range<u64>> {
    (0..n).map(|i| i * 900..i * 900 + 10).collect()
}

#[tokio::test]
async fn a_limit_on_ranges_is_learned_and_respected() {
    expect_limit_found(&[20, 40]).await;
}

#[tokio::test]
async fn a_low_limit_on_ranges_is_learned_and_respected() {
    expect_limit_found(&[1, 7]).await;
}

async fn expect_limit_found(limits: &[usize]) {
    for over in [OverLimit::Status(400), OverLimit::Corrupt, OverLimit::Whole] {
        for &most in limits {
            let peer = peer(
                LARGE,
                [(FaultTrigger::Always, Fault::Most { limit: Limit::Ranges(most), over })],
            );
            let source = source(&peer.url(), with_connections(1));
            let ranges = scattered(100);
            let got = read(&source, &ranges).await.unwrap_or_else(|error| {
                panic!("{over:?} {most}: {error:?} after {} requests", peer.log().len())
            });
            got.is_exact(&content(LARGE), &ranges).unwrap();
            let requests = peer.log().len();
            assert!(requests <= 110, "{over:?} {most}: {requests} requests");
            // The learned limit is respected from the first request on.
            read(&source, &ranges).await.unwrap();
            let log = peer.log();
            let refused = log[requests..]
                .iter()
                .filter(|it| it.ranges.as_ref().is_some_and(|text| text.split(',').count() > most));
            assert!(refused.count() <= 1, "{over:?} {most}");
        }
    }
}

#[tokio::test]
async fn any_status_that_refuses_several_ranges_leads_to_fewer_per_request() {
    for status in [403, 404, 405, 406, 409, 422, 501, 505, 520] {
        for most in [1, 7] {
            let over = OverLimit::Status(status);
            let limit = Fault::Most { limit: Limit::Ranges(most), over };
            let peer = peer(LARGE, [(FaultTrigger::Always, limit)]);
            let source = source(&peer.url(), with_connections(1));
            let ranges = scattered(40);
            let got = read(&source, &ranges).await.unwrap_or_else(|error| {
                panic!("{status} {most}: {error:?} after {} requests", peer.log().len())
            });
            got.is_exact(&content(LARGE), &ranges).unwrap();
            assert!(peer.log().len() <= 50, "{status} {most}: {} requests", peer.log().len());
        }
    }
}

#[tokio::test]
async fn a_status_about_the_file_is_confirmed_at_unknown_servers_only() {
    let status = Fault::Status { status: 404, retry_after: None };
    for (software, requests) in [("store/1", 2), ("nginx/1.22.1", 1)] {
        let software = (FaultTrigger::Always, Fault::Server(software.to_owned()));
        let peer = peer(LARGE, [(FaultTrigger::Always, status.clone()), software]);
        let source = source(&peer.url(), with_connections(1));
        let before = source.limits();
        let error = read(&source, &scattered(40)).await.unwrap_err();
        assert_eq!((error.kind(), peer.log().len()), (ErrorKind::NotFound, requests));
        assert!(source.limits().max_ranges >= before.max_ranges);
    }
}

#[tokio::test]
async fn the_limits_of_known_server_software_are_used() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Server("nginx/1.22.1".to_owned()))]);
    let source = source(&peer.url(), with_connections(1));
    read(&source, &[0..1]).await.unwrap();
    let limits = source.limits();
    assert!(limits.max_ranges > 1_000 && limits.max_header_bytes > 7_000, "{limits:?}");
    let ranges = scattered(400);
    read(&source, &ranges).await.unwrap().is_exact(&content(LARGE), &ranges).unwrap();
    assert_eq!(peer.log().len(), 2);
}

#[tokio::test]
async fn success_raises_a_limit() {
    let peer = peer(LARGE, []);
    let source = source(&peer.url(), with_connections(1));
    let before = source.limits();
    let ranges = scattered(1_000);
    read(&source, &ranges).await.unwrap().is_exact(&content(LARGE), &ranges).unwrap();
    let after = source.limits();
    assert!(after.max_ranges > before.max_ranges, "{after:?}");
}

#[tokio::test]
async fn a_range_longer_than_a_response_is_split() {
    let ways = [400, 413, 500].map(OverLimit::Status);
    for over in ways.into_iter().chain([OverLimit::Corrupt, OverLimit::Close, OverLimit::Less]) {
        let limit = Fault::Most { limit: Limit::AnswerBytes(100_000), over };
        let peer = peer(LARGE, [(FaultTrigger::Always, limit)]);
        let source = source(&peer.url(), with_connections(1));
        for (range, most) in [(0..600_000, 24), (300_000..900_000, 12)] {
            let (ranges, before) = ([range], peer.log().len());
            let got = read(&source, &ranges).await;
            let got = got.unwrap_or_else(|error| panic!("{over:?}: {error:?}"));
            got.is_exact(&content(LARGE), &ranges).unwrap();
            let requests = peer.log().len() - before;
            assert!(requests <= most, "{over:?}: {requests} requests");
        }
    }
}

/// A server that is down, or a file that it cannot read, must not look like a limit.
#[tokio::test]
async fn a_rejection_of_short_ranges_as_well_is_no_limit() {
    let peer = peer(LARGE, []);
    let source = source(&peer.url(), with_connections(1));
    read(&source, &[0..50_000]).await.unwrap();
    peer.add_fault(FaultTrigger::Always, Fault::Status { status: 500, retry_after: None });
    let before = peer.log().len();
    let error = read(&source, &[100_000..700_000]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let requests = peer.log().len() - before;
    assert!(requests <= 8, "{requests} requests");
    peer.clear_faults();
    let before = peer.log().len();
    read(&source, &[100_000..700_000]).await.unwrap();
    assert_eq!(peer.log().len() - before, 1);
}

#[tokio::test]
async fn a_single_range_too_long_for_the_header_is_named_in_the_error() {
    let limit = Fault::Most { limit: Limit::HeaderBytes(10), over: OverLimit::Status(431) };
    let peer = peer(LARGE, [(FaultTrigger::Always, limit)]);
    let source = source(&peer.url(), with_connections(1));
    let error = read(&source, &[500_000..600_000]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("431"), "{error}");
    assert_eq!(peer.log().len(), 1);
    // Ranges with shorter texts are accepted.
    let got = read(&source, &[7..90, 200..300, 5_000..5_001]).await.unwrap();
    got.is_exact(&content(LARGE), &[7..90, 200..300]).unwrap();
}
