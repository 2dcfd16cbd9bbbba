//! Limits of servers are found out and kept.

use crate::rig::{LARGE, content, peer, read, source, with_lanes};
use hither_core::Source;
use hither_testkit::peer::{Fault, Limit, OverLimit, When};
use std::ops::Range;

/// So many ranges of ten bytes that no plan merges.
fn scattered(n: u64) -> Vec<Range<u64>> {
    (0..n).map(|i| i * 900..i * 900 + 10).collect()
}

#[tokio::test]
async fn a_limit_on_ranges_is_found_and_kept() {
    expect_limit_found(&[20, 40]).await;
}

#[tokio::test]
async fn a_low_limit_on_ranges_is_found_and_kept() {
    expect_limit_found(&[1, 7]).await;
}

async fn expect_limit_found(limits: &[usize]) {
    for over in [OverLimit::Status(400), OverLimit::Corrupt, OverLimit::Whole] {
        for &most in limits {
            let peer =
                peer(LARGE, [(When::Always, Fault::Most { limit: Limit::Ranges(most), over })]);
            let source = source(&peer.url(), with_lanes(1));
            let ranges = scattered(100);
            let got = read(&source, &ranges).await.unwrap_or_else(|error| {
                panic!("{over:?} {most}: {error:?} after {} requests", peer.log().len())
            });
            got.is_exact(&content(LARGE), &ranges).unwrap();
            let requests = peer.log().len();
            assert!(requests <= 110, "{over:?} {most}: {requests} requests");
            // What was learned is used from the first request on.
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
async fn a_known_make_is_asked_by_its_own_limits() {
    let peer = peer(LARGE, [(When::Always, Fault::Server("nginx/1.22.1".to_owned()))]);
    let source = source(&peer.url(), with_lanes(1));
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
    let source = source(&peer.url(), with_lanes(1));
    let before = source.limits();
    let ranges = scattered(1_000);
    read(&source, &ranges).await.unwrap().is_exact(&content(LARGE), &ranges).unwrap();
    let after = source.limits();
    assert!(after.max_ranges > before.max_ranges, "{after:?}");
}
