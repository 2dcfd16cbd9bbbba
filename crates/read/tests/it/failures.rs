//! Requests that fail.

use crate::rig::{SIZE, check, config, connect, drain, far, read, scattered};
use hither_core::{Delivery, Error, ErrorKind, Failure, Limits};
use hither_read::{Reader, ReaderConfig};
use hither_simulate::source::{FIRST_VALIDATOR, Fault};
use std::time::Duration;

fn passing() -> Fault {
    let sent = Failure::Interrupted(Delivery::Sent);
    Fault::Fail(Error::new(ErrorKind::Unavailable, "try again").with_failure(sent))
}

fn failing(kind: ErrorKind) -> Fault {
    Fault::Fail(Error::new(kind, "no"))
}

#[tokio::test(start_paused = true)]
async fn bytes_received_before_a_broken_connection_are_kept() {
    let source = far().with_max_connections(1).with_fault(0, Fault::Cut { after: 1_234_567 });
    let whole = [0..SIZE as u64];
    assert_eq!(read(&source, &whole, ReaderConfig::default()).await, 1);
    let log = source.log();
    assert_eq!(log[1].request.ranges, [1_234_567..SIZE as u64]);
    assert_eq!(log.iter().map(|it| it.bytes).sum::<u64>(), SIZE as u64);
}

#[tokio::test(start_paused = true)]
async fn one_broken_connection_does_not_affect_the_others() {
    let source = far().with_max_connections(8).with_fault(3, Fault::Cut { after: 100 });
    connect(&source, 8).await;
    let ranges = scattered(800, 100);
    assert_eq!(read(&source, &ranges, ReaderConfig::default()).await, 1);
    let log = source.log();
    assert_eq!(log.len(), 9);
    assert_eq!(log.iter().map(|it| it.bytes).sum::<u64>(), 80_000);
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_without_a_byte_end_with_an_error() {
    for attempts in [1, 2, 4] {
        let mut source = far().with_max_connections(1);
        for nth in 0..10 {
            source = source.with_fault(nth, passing());
        }
        let mut reader = Reader::new(&source, None, config(1 << 20, attempts));
        reader.push(&[0..1_000], 1);
        let (pieces, result) = drain(&mut reader).await;
        assert!(pieces.is_empty());
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(source.log().len(), usize::try_from(attempts).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn progress_resets_the_count_of_failures() {
    let mut source = far().with_max_connections(1);
    for nth in [0, 1, 2, 4, 5, 6] {
        source = source.with_fault(nth, passing());
    }
    source = source.with_fault(3, Fault::Cut { after: 100 });
    assert_eq!(read(&source, &[0..1_000], ReaderConfig::default()).await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_few_bytes_of_many_are_no_progress() {
    let mut source = far().with_max_connections(1);
    for nth in 0..100 {
        source = source.with_fault(nth, Fault::Cut { after: 10 });
    }
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[0..1_000], 1);
    let (_, result) = drain(&mut reader).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(reader.retries(), 3);
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_returned_at_once() {
    for kind in [
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::Changed,
        ErrorKind::Protocol,
        ErrorKind::Timeout,
        ErrorKind::Corrupt,
    ] {
        let source = far().with_max_connections(1).with_fault(0, failing(kind));
        let mut reader = Reader::new(&source, None, ReaderConfig::default());
        reader.push(&[0..1_000], 1);
        let (_, result) = drain(&mut reader).await;
        assert_eq!(result.unwrap_err().kind(), kind);
        assert_eq!(source.log().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_end_of_a_response_shows_is_returned_after_its_bytes() {
    let changed = Error::new(ErrorKind::Changed, "the file is longer");
    let source = far().with_max_connections(1).with_fault(0, Fault::FailAtEnd(changed));
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[0..1_000], 1);
    let (pieces, result) = drain(&mut reader).await;
    check(&pieces, &[0..1_000]).unwrap();
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Changed);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_one_range_cannot_be_made_smaller() {
    let source = far().with_max_connections(1).with_fault(0, failing(ErrorKind::TooLarge));
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[0..1_000], 1);
    let (_, result) = drain(&mut reader).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(source.log().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn parts_before_a_final_error_are_returned() {
    let limits = Limits { max_ranges: 1, ..Limits::unlimited() };
    let source = far()
        .with_limits(limits)
        .with_max_connections(1)
        .with_fault(2, failing(ErrorKind::NotFound));
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    let ranges = scattered(5, 100);
    reader.push(&ranges, 1);
    let (pieces, result) = drain(&mut reader).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
    check(&pieces, &ranges[..2]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_request_carries_the_validator() {
    let changed = Fault::Change { validator: "\"second\"".to_owned() };
    let source = far().with_max_connections(1).with_fault(1, changed);
    let mut reader =
        Reader::new(&source, Some(FIRST_VALIDATOR.to_owned()), ReaderConfig::default());
    reader.push(&[0..1_000], 1);
    drain(&mut reader).await.1.unwrap();
    reader.push(&[1_000..2_000], 1);
    assert_eq!(drain(&mut reader).await.1.unwrap_err().kind(), ErrorKind::Changed);
    assert!(source.log().iter().all(|it| it.request.validator.as_deref() == Some(FIRST_VALIDATOR)));
}

#[tokio::test(start_paused = true)]
async fn ranges_beyond_the_end_are_corrupt() {
    let source = far();
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[SIZE as u64 - 10..SIZE as u64 + 10], 1);
    assert_eq!(drain(&mut reader).await.1.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_reader_cancels_its_requests() {
    let source = far().with_max_connections(4);
    let mut reader = Reader::new(&source, None, ReaderConfig::default());
    reader.push(&[0..SIZE as u64], usize::MAX);
    assert!(reader.next().await.unwrap().is_ok());
    drop(reader);
    let bytes: u64 = source.log().iter().map(|it| it.bytes).sum();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let log = source.log();
    assert!(log.len() <= 4 && log.iter().all(|it| it.end.is_none()), "{log:#?}");
    assert_eq!(log.iter().map(|it| it.bytes).sum::<u64>(), bytes);
    // The source is as good as new.
    read(&source, &[0..1_000], ReaderConfig::default()).await;
}
