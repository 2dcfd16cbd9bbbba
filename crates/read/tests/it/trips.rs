//! Round trips.

use crate::rig::{SIZE, check, connect, drain, far, read, scattered};
use hither_core::Limits;
use hither_read::{Reader, ReaderConfig};
use std::time::Duration;

const RTT: Duration = Duration::from_millis(240);

#[tokio::test(start_paused = true)]
async fn any_number_of_ranges_takes_one_round_trip() {
    for connections in [1, 4, 16, 64] {
        let source = far().with_max_connections(connections);
        assert_eq!(read(&source, &scattered(1_000, 10), ReaderConfig::default()).await, 0);
        assert_eq!(source.round_trips(), 1, "{connections} connections");
        let log = source.log();
        assert!(log.len() <= connections, "{connections} connections: {} requests", log.len());
        // Connecting, and the answer.
        assert!(
            log.iter().all(|it| it.end == Some(RTT * 2)),
            "{connections} connections: {log:#?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn limits_make_requests_but_no_round_trips() {
    let limits = Limits { max_ranges: 100, ..Limits::unlimited() };
    let source = far().with_limits(limits).with_max_connections(16);
    connect(&source, 16).await;
    read(&source, &scattered(1_600, 100), ReaderConfig::default()).await;
    assert_eq!((source.round_trips(), source.log().len()), (1, 16));
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_connections_wait() {
    let limits = Limits { max_ranges: 10, ..Limits::unlimited() };
    let source = far().with_limits(limits).with_max_connections(4);
    connect(&source, 4).await;
    read(&source, &scattered(160, 100), ReaderConfig::default()).await;
    assert_eq!((source.round_trips(), source.log().len()), (4, 16));
    assert!(source.connections_opened() <= 4);
}

#[tokio::test(start_paused = true)]
async fn a_large_read_is_striped_over_connections() {
    let whole = [0..SIZE as u64];
    let source = far().with_max_connections(16);
    connect(&source, 16).await;
    read(&source, &whole, ReaderConfig::default()).await;
    let log = source.log();
    let largest = log.iter().map(|it| it.bytes).max().unwrap();
    assert_eq!((source.round_trips(), log.len()), (1, 16));
    assert!(largest <= SIZE as u64 / 16 + 1448, "{largest}");
}

#[tokio::test(start_paused = true)]
async fn the_callers_maximum_of_connections_is_kept() {
    let source = far();
    connect(&source, 1).await;
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[0..SIZE as u64], 3);
    let (pieces, result) = drain(&mut reader).await;
    result.unwrap();
    check(&pieces, &[0..SIZE as u64]).unwrap();
    assert_eq!((source.connections_opened(), source.log().len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn prefetches_do_not_wait_for_a_demand_read() {
    let limits = Limits { max_ranges: 1, ..Limits::unlimited() };
    for (connections, round_trips) in [(16, 1), (4, 2)] {
        let source = far().with_limits(limits).with_max_connections(connections);
        connect(&source, connections).await;
        let mut reader = Reader::new(&source, None, ReaderConfig::default());
        reader.push_urgent(&[14_000..28_000], 1);
        reader.push(&scattered(4, 14_000), 4);
        let (_, result) = drain(&mut reader).await;
        result.unwrap();
        assert_eq!((source.round_trips(), source.log().len()), (round_trips, 5), "{connections}");
    }
}

#[tokio::test(start_paused = true)]
async fn head_and_tail_come_in_one_request() {
    let source = far();
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push_tail(&[0..300], 13_000);
    let (pieces, result) = drain(&mut reader).await;
    result.unwrap();
    check(&pieces, &[0..300, SIZE as u64 - 13_000..SIZE as u64]).unwrap();
    assert_eq!((source.round_trips(), source.log().len()), (1, 1));
    assert_eq!(reader.response().size, Some(SIZE as u64));
}

#[tokio::test(start_paused = true)]
async fn ranges_pushed_while_reading_are_read() {
    let source = far().with_max_connections(2);
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[0..100_000], usize::MAX);
    let first = reader.next().await.unwrap().unwrap();
    reader.push(&[200_000..300_000], usize::MAX);
    let (mut pieces, result) = drain(&mut reader).await;
    result.unwrap();
    pieces.push((first.offset, first.bytes));
    check(&pieces, &[0..100_000, 200_000..300_000]).unwrap();
    assert!(reader.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_empty_read_sends_no_request() {
    let source = far();
    read(&source, &[], ReaderConfig::default()).await;
    read(&source, &[5..5, 9..9], ReaderConfig::default()).await;
    assert_eq!(source.log(), []);
}
