//! Servers that take one range per request: which gaps are read over, and what is kept of them.

use crate::cached::{cache, open};
use crate::rig::{content, read, scattered};
use hither_core::{Limits, Source, range};
use hither_netem::Link;
use hither_read::ReaderConfig;
use hither_simulate::source::SimulatedSource;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// An object store that has answered once, so that the path is known.
async fn store(rtt_ms: u64, mbit: u64) -> SimulatedSource {
    let link = Link::new(Duration::from_millis(rtt_ms), Some(mbit * 1_000_000));
    let limits = Limits { max_ranges: 1, range_cost_bytes: 500, ..Limits::unlimited() };
    let source = SimulatedSource::new(content(), link).with_limits(limits);
    read(&source, &[0..1], ReaderConfig::default()).await;
    source
}

fn exact() -> ReaderConfig {
    let mut config = ReaderConfig::default();
    config.exact = true;
    config
}

/// Requests, bytes and time of a read.
async fn cost(
    source: &SimulatedSource,
    ranges: &[Range<u64>],
    config: ReaderConfig,
) -> (usize, u64, Duration) {
    let before = source.log().len();
    let started = Instant::now();
    read(source, ranges, config).await;
    let log = source.log().split_off(before);
    (log.len(), log.iter().map(|it| it.bytes).sum(), started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn thousands_of_pieces_close_together_take_a_request_for_each_connection() {
    let pieces = scattered(4_884, 100);
    let span = pieces.last().unwrap().end;
    let source = store(22, 100).await;
    let (requests, bytes, time) = cost(&source, &pieces, ReaderConfig::default()).await;
    assert!(requests <= 64, "{requests} requests");
    // Connections take over from each other in the end, so some bytes come twice.
    assert!(bytes <= span + span / 10, "{bytes} bytes of {span}");
    let (requests, bytes, alone) = cost(&store(22, 100).await, &pieces, exact()).await;
    assert_eq!((requests, bytes), (4_884, 488_400));
    assert!(time < alone / 3, "{time:?} with gaps, {alone:?} without");
}

#[tokio::test(start_paused = true)]
async fn gaps_of_54_kb_are_read_over_only_where_a_request_costs_more() {
    let pieces = scattered(72, 1_400);
    assert!((53_000..55_000).contains(&(pieces[1].start - pieces[0].end)));
    let (requests, bytes, _) = cost(&store(22, 100).await, &pieces, ReaderConfig::default()).await;
    assert_eq!((requests, bytes), (72, 72 * 1_400));
    let (requests, bytes, _) =
        cost(&store(22, 1_000).await, &pieces, ReaderConfig::default()).await;
    assert!(requests < 72, "{requests}");
    assert_eq!(bytes, pieces.last().unwrap().end);
}

#[tokio::test(start_paused = true)]
async fn a_server_of_many_ranges_is_asked_for_them_as_before() {
    let link = Link::new(Duration::from_millis(22), Some(1_000_000_000));
    let limits = Limits { max_ranges: 200, range_cost_bytes: 120, ..Limits::unlimited() };
    let source = SimulatedSource::new(content(), link).with_limits(limits);
    read(&source, &[0..1], ReaderConfig::default()).await;
    assert_eq!(source.limits(), limits);
    let pieces = scattered(4_884, 100);
    let (_, bytes, _) = cost(&source, &pieces, ReaderConfig::default()).await;
    assert_eq!(bytes, range::total_bytes(&pieces));
}

#[tokio::test(start_paused = true)]
async fn a_vector_read_through_the_cache_reads_over_gaps_once() {
    let pieces = scattered(500, 1_000);
    let source = Arc::new(store(22, 1_000).await);
    let cache = cache(64 << 20);
    let file = open(&source, &cache);
    let before = source.log().len();
    let found = file.read_ranges(&pieces).await.unwrap();
    let content = content();
    for (bytes, piece) in found.iter().zip(&pieces) {
        let start = usize::try_from(piece.start).unwrap();
        assert_eq!(bytes[..], content[start..start + bytes.len()]);
    }
    let requests = source.log().len() - before;
    assert!(requests <= 80, "{requests} requests for 500 pieces");
    let before = source.log().len();
    file.read_ranges(&pieces).await.unwrap();
    assert_eq!(source.log().len(), before, "all of it is kept");
}
