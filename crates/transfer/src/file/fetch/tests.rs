use super::*;
use crate::copy::context::CopyContext;
use crate::copy::tests::scripted::{
    CONTENT, Scripted, context, copy, entry, fails, failures, sends,
};
use crate::destination::Target;
use crate::options::CopyOptions;
use bytes::Bytes;
use hither_core::error::Delivery;
use std::ops::Range;
use tokio::time::Instant;

fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection was closed")
        .with_failure(Failure::Interrupted(Delivery::Sent))
}

/// Copies a file from a server with these answers. Returns the requests, and their time.
async fn fetched(
    answers: Vec<(Bytes, Option<Error>)>,
) -> (Arc<CopyContext>, Vec<Range<u64>>, Duration) {
    let storage = Scripted::new(answers, []);
    let shared = context(CopyOptions::default());
    let began = Instant::now();
    copy(&shared, storage.item(Target::Discard)).await;
    (shared, storage.requests(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn an_interruption_after_progress_costs_no_attempt_and_no_pause() {
    let pieces = CONTENT.chunks(1).map(|byte| (Bytes::from_static(byte), Some(broken())));
    let (shared, requests, took) = fetched(pieces.collect()).await;
    assert_eq!(requests, (0..7).map(|start| start..7).collect::<Vec<_>>());
    assert_eq!((failures(&shared), took), (vec![], Duration::ZERO));
    assert_eq!(shared.results().summary().files, 1);
}

#[tokio::test(start_paused = true)]
async fn interruptions_without_progress_are_final_after_all_attempts() {
    let (shared, requests, took) = fetched(vec![fails(broken()); 4]).await;
    assert_eq!((requests.len(), failures(&shared)), (4, vec![ErrorKind::Unavailable]));
    assert!(took >= 3 * shared.resources.options.retry.min_pause, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_response_that_ended_early_is_requested() {
    let (shared, requests, _) = fetched(vec![sends(b"con"), sends(b"tent")]).await;
    assert_eq!((requests, failures(&shared)), (vec![0..7, 3..7], vec![]));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_came_before_an_error_count_unless_it_is_a_change() {
    let all_and = |error| vec![(Bytes::from_static(CONTENT), Some(error)), sends(CONTENT)];
    let (shared, requests, _) = fetched(all_and(broken())).await;
    assert_eq!((requests, failures(&shared)), (vec![0..7], vec![]));

    let changed = Error::new(ErrorKind::Changed, "the file is longer");
    let storage = Scripted::new(all_and(changed), [Ok(entry(CONTENT.len()))]);
    let shared = context(CopyOptions::default());
    copy(&shared, storage.item(Target::Discard)).await;
    assert_eq!((storage.requests(), failures(&shared)), (vec![0..7, 0..7], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_nothing_fails_as_one_that_breaks_the_protocol() {
    let (shared, requests, _) = fetched(vec![sends(b""); 4]).await;
    assert_eq!((requests.len(), failures(&shared)), (4, vec![ErrorKind::Protocol]));
}

#[test]
fn the_time_for_which_reading_is_blocked_is_counted_once() {
    let at = Duration::from_secs;
    let mut times = PieceTimes::begin(at(0));
    // It stays blocked from the first second to the third.
    for (is_blocked, now) in [(true, 1), (true, 2), (false, 3), (false, 4), (true, 6), (false, 7)] {
        times.block(is_blocked, at(now));
    }
    assert_eq!((times.blocked, times.blocked_since), (at(3), None));
}
