//! The tail of a file of unknown size.

use crate::fixture::{LARGE, content, peer, read_with, source, with_connections};
use hither_core::{ErrorKind, Source};
use hither_testkit::mock_http::{Fault, FaultTrigger, Limit, OverLimit, ResponsePosition};

const HEAD: std::ops::Range<u64> = 0..300;
const TAIL: u64 = 13_000;

async fn expect_head_and_tail<const N: usize>(
    size: usize,
    faults: [(FaultTrigger, Fault); N],
    requests: usize,
) {
    let what = format!("{size} {faults:?}");
    let peer = peer(size, faults);
    let source = source(&peer.url(), with_connections(1));
    let got = read_with(&source, &[HEAD], TAIL, None)
        .await
        .unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let size = size as u64;
    let wanted = [0..HEAD.end.min(size), size.saturating_sub(TAIL)..size];
    got.is_exact(&content(usize::try_from(size).unwrap()), &wanted)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(got.answer.size, Some(size), "{what}");
    let sent = peer.log().len();
    assert!(sent <= requests, "{what}: {sent} requests");
    // A method that the server does not support is not tried again.
    let before = sent;
    read_with(&source, &[HEAD], TAIL, None).await.unwrap();
    assert!(peer.log().len() - before < requests.max(2), "{what}: {:#?}", peer.log());
    assert!(source.endpoint().suffix || requests > 1, "{what}");
}

#[tokio::test]
async fn head_and_tail_come_in_one_request() {
    for size in [LARGE, 20_000, 13_100, 13_000, 500, 300, 10, 1] {
        expect_head_and_tail(size, [], 1).await;
    }
}

#[tokio::test]
async fn a_server_without_suffix_ranges_costs_a_head_request_and_one_per_range() {
    expect_head_and_tail(LARGE, [(FaultTrigger::Always, Fault::SuffixRefused(416))], 4).await;
    expect_head_and_tail(LARGE, [(FaultTrigger::Always, Fault::SuffixIgnored)], 4).await;
}

#[tokio::test]
async fn a_server_that_fails_at_suffix_ranges_is_asked_by_position() {
    for size in [LARGE, 300] {
        expect_head_and_tail(size, [(FaultTrigger::Always, Fault::SuffixRefused(500))], 5).await;
    }
}

#[tokio::test]
async fn the_tail_is_read_from_a_server_of_single_ranges() {
    expect_head_and_tail(LARGE, [(FaultTrigger::Always, Fault::FirstOnly)], 6).await;
    let one = Fault::Most { limit: Limit::Ranges(1), over: OverLimit::Status(400) };
    expect_head_and_tail(LARGE, [(FaultTrigger::Always, one)], 6).await;
}

#[tokio::test]
async fn the_tail_is_read_from_a_server_without_ranges() {
    expect_head_and_tail(20_000, [(FaultTrigger::Always, Fault::Whole)], 4).await;
    expect_head_and_tail(LARGE, [(FaultTrigger::Always, Fault::Whole)], 6).await;
}

#[tokio::test]
async fn a_server_that_merges_head_and_tail_delivers_both() {
    expect_head_and_tail(LARGE, [(FaultTrigger::Always, Fault::Merged)], 1).await;
}

#[tokio::test]
async fn an_empty_file_has_no_tail() {
    let peer = peer(0, []);
    let source = source(&peer.url(), with_connections(1));
    if let Ok(got) = read_with(&source, &[HEAD], TAIL, None).await {
        assert_eq!(got.answer.size, Some(0));
    }
    assert!(peer.log().len() <= 4, "{:#?}", peer.log());
}

#[tokio::test]
async fn a_tail_that_always_breaks_off_ends_with_an_error() {
    let peer = peer(LARGE, [(FaultTrigger::Always, Fault::Close(ResponsePosition::PartData(1)))]);
    let source = source(&peer.url(), with_connections(1));
    let error = read_with(&source, &[HEAD], TAIL, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(peer.log().len() <= 4, "{} requests", peer.log().len());
}

#[tokio::test]
async fn the_tail_is_read_from_a_server_that_fails_above_some_bytes() {
    let most = Fault::Most { limit: Limit::AnswerBytes(9_000), over: OverLimit::Status(500) };
    let peer = peer(LARGE, [(FaultTrigger::Always, most)]);
    let source = source(&peer.url(), with_connections(1));
    let got = read_with(&source, &[HEAD], TAIL, None).await.unwrap();
    // The first failure may be an accident; after the second, requests are smaller.
    assert_eq!(got.retries, 1, "{:#?}", peer.log());
    let size = LARGE as u64;
    got.is_exact(&content(LARGE), &[HEAD, size - TAIL..size]).unwrap();
}
