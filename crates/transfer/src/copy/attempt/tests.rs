use super::*;
use crate::copy::queue::NextTask;
use crate::copy::tests::scripted::{
    CONTENT, Scripted, context, copy, entry, fails, failures, sends,
};
use crate::destination::Target;
use crate::options::CopyOptions;
use crate::server_actions::{MovedBytes, ThirdPartyMove, ThirdPartyMover};
use futures_core::future::BoxFuture;
use hither_core::error::Failure;
use hither_core::sync::lock;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;
use tokio::time::Instant;

fn error(kind: ErrorKind) -> Error {
    Error::new(kind, "it failed")
}

fn options(attempts: u32) -> CopyOptions {
    CopyOptions { attempts, ..CopyOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_attempted_again_after_longer_pauses_than_those_of_requests() {
    let storage = Scripted::new(vec![fails(error(ErrorKind::Unavailable)); 3], []);
    let shared = context(options(3));
    let began = Instant::now();
    copy(&shared, storage.item(Target::Discard)).await;
    assert_eq!(storage.requests(), [0..7, 0..7, 0..7]);
    assert_eq!(failures(&shared), [ErrorKind::Unavailable]);
    let notices = shared.results().summary().notices.clone();
    assert_eq!(notices, ["it failed: attempt 2 of 3", "it failed: attempt 3 of 3"]);
    assert!(began.elapsed() >= 2 * FILE_PAUSES * shared.resources.options.retry.min_pause);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_succeeds_leaves_no_failure() {
    let answers = [fails(error(ErrorKind::Timeout)), sends(CONTENT)];
    let storage = Scripted::new(answers, []);
    let shared = context(options(2));
    copy(&shared, storage.item(Target::Discard)).await;
    assert_eq!(failures(&shared), []);
    let summary = shared.results().summary();
    assert_eq!((summary.files, summary.bytes), (1, 7));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_no_attempt_can_change_is_final() {
    for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::Invalid] {
        let storage = Scripted::new([fails(error(kind))], []);
        let shared = context(options(3));
        let began = Instant::now();
        copy(&shared, storage.item(Target::Discard)).await;
        assert_eq!((storage.requests().len(), failures(&shared)), (1, vec![kind]));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

/// Gives a file up when it is woken, as the worker does that has waited for its turn.
struct Writer {
    file: Arc<FileCopy>,
    was_first: AtomicBool,
}

impl Wake for Writer {
    fn wake(self: Arc<Self>) {
        self.was_first.store(self.file.give_up(), Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_for_its_turn_is_not_the_first_to_report_a_failure() {
    let shared = context(options(1));
    shared.queue.found(Scripted::default().item(Target::Output)).await;
    let take = || shared.queue.take(shared.work_request(1), shared.concurrency.file_limits());
    let NextTask::Open(item) = take() else { panic!("no file") };
    begin(&shared, *item).await;
    let NextTask::Piece(file, _) = take() else { panic!("no piece") };
    let writer = Arc::new(Writer { file: Arc::clone(&file), was_first: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&writer));
    let mut turn = pin!(file.target().turn(4));
    assert!(turn.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    assert!(file.give_up());
    assert!(!writer.was_first.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_changed_is_copied_anew_as_it_is_now() {
    let answers = [fails(error(ErrorKind::Changed)), sends(b"new content")];
    let storage = Scripted::new(answers, [Ok(entry(11))]);
    let shared = context(options(1));
    copy(&shared, storage.item(Target::Discard)).await;
    assert_eq!((storage.requests(), failures(&shared)), (vec![0..7, 0..11], vec![]));
    let summary = shared.results().summary();
    assert_eq!((summary.files, summary.bytes), (1, 11));
    assert_eq!(summary.notices, ["it failed: copied again"]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_changes_twice_fails() {
    let changed = || fails(error(ErrorKind::Changed));
    let storage = Scripted::new([changed(), changed()], [Ok(entry(7))]);
    let shared = context(options(1));
    copy(&shared, storage.item(Target::Discard)).await;
    assert_eq!(storage.requests().len(), 2);
    assert_eq!(failures(&shared), [ErrorKind::Changed]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_no_file_any_more_fails_by_its_change() {
    let directory = DirEntry::new("file", FileKind::Directory, 0);
    let silent = DirEntry { size: None, ..entry(7) };
    for now in [Err(error(ErrorKind::NotFound)), Ok(directory), Ok(silent)] {
        let storage = Scripted::new([fails(error(ErrorKind::Changed))], [now.clone()]);
        let shared = context(options(1));
        copy(&shared, storage.item(Target::Discard)).await;
        assert_eq!(storage.requests().len(), 1, "{now:?}");
        assert_eq!(failures(&shared), [ErrorKind::Changed], "{now:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_range_of_a_file_and_the_only_version_of_a_target_are_not_copied_anew() {
    let storage = Scripted::new([fails(error(ErrorKind::Changed))], [Ok(entry(7))]);
    let shared = context(CopyOptions { expected: Some(entry(7)), ..options(1) });
    copy(&shared, storage.item(Target::Discard)).await;
    assert_eq!((storage.requests().len(), failures(&shared)), (1, vec![ErrorKind::Changed]));
}

/// Servers that move files with these results.
#[derive(Debug)]
struct Mover {
    results: Mutex<VecDeque<Result<()>>>,
    falls_back: bool,
}

impl ThirdPartyMover for Mover {
    fn move_file<'a>(&'a self, _: ThirdPartyMove<'a>, _: MovedBytes) -> BoxFuture<'a, Result<()>> {
        let result = lock(&self.results).pop_front().expect("no result is left");
        Box::pin(std::future::ready(result))
    }

    fn falls_back(&self, _: &Error) -> bool {
        self.falls_back
    }
}

/// A copy by servers, and the results of moves that are left after it.
async fn moved(
    results: impl IntoIterator<Item = Result<()>>,
    storage: &Scripted,
    target: Target,
    falls_back: bool,
) -> (Arc<CopyContext>, usize) {
    let results = Mutex::new(results.into_iter().collect());
    let mover = Arc::new(Mover { results, falls_back });
    let mut options = options(1);
    options.third_party = Some(Arc::<Mover>::clone(&mover));
    options.retry.staging_timeout = Duration::from_secs(12);
    let shared = context(options);
    copy(&shared, storage.item(target)).await;
    let left = lock(&mover.results).len();
    (shared, left)
}

fn refused() -> Result<()> {
    let after = Duration::from_secs(5);
    Err(error(ErrorKind::Unavailable).with_failure(Failure::Staging { after }))
}

#[tokio::test(start_paused = true)]
async fn a_move_that_servers_refuse_waits_for_its_turn() {
    let missing = || Err(error(ErrorKind::NotFound));
    // Before each move, and after the one that succeeds.
    let storage = Scripted::new([], [missing(), missing(), missing(), Ok(entry(7))]);
    let target = Target::Remote(Arc::new(storage.clone()), "to".to_owned());
    let began = Instant::now();
    let (shared, left) = moved([refused(), refused(), Ok(())], &storage, target, false).await;
    assert_eq!((left, failures(&shared)), (0, vec![]));
    let summary = shared.results().summary();
    assert_eq!((summary.files, summary.bytes, summary.notices.len()), (1, 7, 1));
    assert!(began.elapsed() >= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_move_that_servers_go_on_refusing_fails_at_its_deadline() {
    let storage = Scripted::default();
    let target = Target::Remote(Arc::new(storage.clone()), "to".to_owned());
    let began = Instant::now();
    let (shared, _) = moved([refused(), refused(), refused()], &storage, target, false).await;
    assert_eq!(failures(&shared), [ErrorKind::Unavailable]);
    assert!(began.elapsed() <= Duration::from_secs(12));
}

#[tokio::test(start_paused = true)]
async fn a_move_that_fails_is_not_tried_again() {
    let storage = Scripted::default();
    let target = Target::Remote(Arc::new(storage.clone()), "to".to_owned());
    let results = [Err(error(ErrorKind::PermissionDenied)), Ok(())];
    let (shared, left) = moved(results, &storage, target, false).await;
    assert_eq!((left, failures(&shared)), (1, vec![ErrorKind::PermissionDenied]));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_servers_cannot_move_goes_through_this_machine() {
    let storage = Scripted::new([sends(CONTENT)], []);
    let (shared, left) = moved([Ok(())], &storage, Target::Discard, true).await;
    assert_eq!((left, storage.requests(), failures(&shared)), (1, vec![0..7], vec![]));
    let notices = &shared.results().summary().notices;
    assert!(notices[0].starts_with("copied through this machine: "), "{notices:?}");
}
