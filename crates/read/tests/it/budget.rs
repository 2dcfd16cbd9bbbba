//! The bound on memory.

use crate::rig::{check, config, far, read, scattered};
use hither_core::Limits;
use hither_read::Reader;

#[tokio::test(start_paused = true)]
async fn a_budget_of_one_byte_reads_one_request_at_a_time() {
    let limits = Limits { max_ranges: 10, ..Limits::unlimited() };
    let source = far().with_limits(limits).with_max_connections(8);
    read(&source, &scattered(100, 50), config(1, 4)).await;
    let log = source.log();
    assert_eq!((source.round_trips(), log.len()), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn requested_and_held_bytes_stay_within_the_budget() {
    const BUDGET: u64 = 2_500;
    let limits = Limits { max_ranges: 1, ..Limits::unlimited() };
    let source = far().with_limits(limits).with_max_connections(16);
    let mut reader = Reader::new(&source, None, config(BUDGET, 4));
    let ranges = scattered(40, 1_000);
    reader.push(&ranges, usize::MAX);
    let mut held = Vec::new();
    let mut released = 0;
    while let Some(part) = reader.next().await {
        let part = part.unwrap();
        held.push((part.offset, part.bytes));
        let asked = source.log().len() as u64 * 1_000;
        assert!(asked - released <= BUDGET, "{asked} asked for, {released} released");
        // The consumer keeps a part for itself until the next one comes.
        if held.len() > 1 {
            let size = held[held.len() - 2].1.len() as u64;
            reader.release(size);
            released += size;
        }
    }
    check(&held, &ranges).unwrap();
}

#[tokio::test(start_paused = true)]
async fn memory_that_is_never_released_slows_a_reader_but_does_not_stop_it() {
    let limits = Limits { max_ranges: 1, ..Limits::unlimited() };
    let source = far().with_limits(limits);
    let mut reader = Reader::new(&source, None, config(1_000, 4));
    let ranges = scattered(10, 1_000);
    reader.push(&ranges, usize::MAX);
    let mut held = Vec::new();
    while let Some(part) = reader.next().await {
        let part = part.unwrap();
        held.push((part.offset, part.bytes));
    }
    check(&held, &ranges).unwrap();
    assert_eq!(source.round_trips(), 10);
}
