//! Vector reads through the cache cost what they cost past it.

use crate::cached::{cache, open};
use crate::rig::{content, scattered};
use hither_core::{Limits, Source};
use hither_netem::Link;
use hither_read::{Reader, ReaderConfig};
use hither_simulate::source::SimulatedSource;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A server that is known, by a path whose length is.
async fn source(link: Link, limits: Limits) -> SimulatedSource {
    let source = SimulatedSource::new(content(), link).with_limits(limits).with_max_connections(16);
    source.preconnect(2);
    tokio::time::sleep(link.rtt).await;
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[0..1], 1);
    while reader.next().await.is_some() {}
    drop(reader);
    source
}

/// Requests, and how long they took.
async fn past(source: &SimulatedSource, ranges: &[Range<u64>]) -> (usize, Duration) {
    let before = source.log().len();
    let started = Instant::now();
    let mut reader = Reader::new(source, None, ReaderConfig::default());
    reader.push(ranges, usize::MAX);
    while let Some(part) = reader.next().await {
        reader.release(part.unwrap().bytes.len() as u64);
    }
    (source.log().len() - before, started.elapsed())
}

async fn through(source: SimulatedSource, ranges: &[Range<u64>]) -> (usize, Duration) {
    let source = Arc::new(source);
    let file = open(&source, &cache(64 << 20));
    let before = source.log().len();
    let started = Instant::now();
    let found = file.read_ranges(ranges).await.unwrap();
    let content = content();
    assert!(found.iter().zip(ranges).all(|(bytes, range)| {
        let from = usize::try_from(range.start);
        let to = usize::try_from(range.end);
        bytes[..] == content[from.unwrap()..to.unwrap()]
    }));
    (source.log().len() - before, started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_cached_vector_read_is_as_cheap_as_a_direct_one() {
    let free = Limits { range_cost_bytes: 120, ..Limits::unlimited() };
    let common = Limits { max_ranges: 200, max_header_bytes: 3_900, ..free };
    let short = Limits { max_ranges: 20, ..free };
    let links = [(1, 1_000_000_000), (22, 100_000_000), (150, 100_000_000), (240, 1_000_000_000)];
    for (ms, rate) in links {
        let link = Link::new(Duration::from_millis(ms), Some(rate));
        for limits in [free, common, short] {
            for (n, len) in [(2, 20), (10, 300), (100, 20), (100, 3_000), (1000, 20), (1000, 2_000)]
            {
                let ranges = scattered(n, len);
                let past = past(&source(link, limits).await, &ranges).await;
                let through = through(source(link, limits).await, &ranges).await;
                let what = format!("{n} ranges of {len} bytes, {link:?}, {limits:?}");
                assert!(through.0 <= past.0, "{what}: {through:?}, past the cache {past:?}");
                let slack = link.rtt / 10;
                assert!(
                    through.1 <= past.1 + slack,
                    "{what}: {through:?}, past the cache {past:?}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_announced_together_comes_together_over_one_connection() {
    let source = SimulatedSource::new(content(), Link::G).with_max_connections(1);
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    let ranges = scattered(5, 1_000);
    reader.push_urgent(&ranges[..1], 1);
    reader.push(&ranges[1..], 1);
    let mut arrived = 0;
    while let Some(part) = reader.next().await {
        let bytes = part.unwrap().bytes.len();
        reader.release(bytes as u64);
        arrived += bytes;
        // The program wants the next one before the reader has gone on.
        if let Some(next) = ranges.get(arrived / 1_000) {
            reader.prioritize(std::slice::from_ref(next));
        }
    }
    assert_eq!((arrived, source.log().len()), (5_000, 2));
}
