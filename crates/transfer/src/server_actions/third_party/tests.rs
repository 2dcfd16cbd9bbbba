use super::*;
use crate::copy::tests::memory::{Behaviour, MemoryServer};
use crate::copy::tests::scripted::{CONTENT, context, entry};
use crate::options::CopyOptions;
use crate::server_actions::MovedBytes;
use futures_core::future::BoxFuture;
use hither_checksum::Algorithm;
use hither_core::sync::lock;
use hither_core::{Failure, FileKind};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

/// Two servers that move files.
#[derive(Debug, Default)]
struct Mover {
    /// The results of moves; each is a success when there are no more.
    results: Mutex<VecDeque<Result<()>>>,
    moves: AtomicU64,
    /// The reports of progress in each move.
    reports: &'static [u64],
    /// The content that the target has after a success, if the move changes it.
    arrives: Option<(MemoryServer, &'static [u8])>,
}

impl ThirdPartyMover for Mover {
    fn move_file<'a>(
        &'a self,
        file: ThirdPartyMove<'a>,
        moved: MovedBytes,
    ) -> BoxFuture<'a, Result<()>> {
        self.moves.fetch_add(1, Ordering::Relaxed);
        self.reports.iter().for_each(|bytes| moved(*bytes));
        let result = lock(&self.results).pop_front().unwrap_or(Ok(()));
        if let (Ok(()), Some((server, content))) = (&result, &self.arrives) {
            server.store(file.target_path, content);
        }
        Box::pin(std::future::ready(result))
    }

    fn falls_back(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Unsupported
    }
}

/// Servers that state tags and checksums: the source, and the target.
fn servers() -> [MemoryServer; 2] {
    let behaviour =
        || Behaviour { states_tags: true, states_checksums: true, ..Behaviour::default() };
    [MemoryServer::new(behaviour(), &[("f", CONTENT)]), MemoryServer::new(behaviour(), &[])]
}

/// Has `mover` move the file `f` from the first server to the second one.
async fn moved(
    shared: &CopyContext,
    [source, target]: &[MemoryServer; 2],
    mover: &Mover,
) -> Result<MoveResult> {
    let item = CopyItem::new(source.path("f"), Some(entry(CONTENT.len())), target.target("f"));
    run(shared, mover, &item).await
}

#[tokio::test]
async fn a_file_of_another_size_than_the_source_fails_and_stays() {
    let servers = servers();
    let arrives = Some((servers[1].clone(), &b"con"[..]));
    let mover = Mover { arrives, ..Mover::default() };
    let error = moved(&context(CopyOptions::default()), &servers, &mover).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().ends_with("and is left there"), "{error}");
    assert_eq!(servers[1].content("f").unwrap(), b"con");
}

#[tokio::test]
async fn a_file_that_is_listed_as_empty_is_looked_at_before_it_is_moved() {
    let [_, target] = servers();
    for (content, moved) in [(CONTENT, Err(ErrorKind::Corrupt)), (b"", Ok(MoveResult::Moved))] {
        let behaviour = Behaviour { stated_size: Some(0), ..Behaviour::default() };
        let source = MemoryServer::new(behaviour, &[("f", content)]);
        // The server that moves it believes the size, too.
        let arrives = Some((target.clone(), &b""[..]));
        let mover = Mover { arrives, ..Mover::default() };
        for listed in [None, Some(DirEntry::new("f", FileKind::File, 0))] {
            let item = CopyItem::new(source.path("f"), listed, target.target("f"));
            let result = run(&context(CopyOptions::default()), &mover, &item).await;
            assert_eq!(result.map_err(|error| error.kind()), moved);
        }
        assert_eq!(mover.moves.load(Ordering::Relaxed), 2);
    }
}

#[tokio::test]
async fn wrong_bytes_are_removed_only_if_the_move_has_put_them_there() {
    let before: [Option<&[u8]>; 3] = [None, Some(b"earlier"), Some(b"damaged")];
    for (before, is_left) in before.into_iter().zip([false, false, true]) {
        let servers = servers();
        before.into_iter().for_each(|before| servers[1].store("f", before));
        let arrives = Some((servers[1].clone(), &b"damaged"[..]));
        let verify = Verify::Algorithm(Algorithm::Adler32);
        let shared = context(CopyOptions { verify, ..CopyOptions::default() });
        let mover = Mover { arrives, ..Mover::default() };
        let error = moved(&shared, &servers, &mover).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.to_string().ends_with("and is left there"), is_left, "{error}");
        assert_eq!(servers[1].content("f").is_some(), is_left, "{before:?}");
    }
}

#[tokio::test]
async fn a_small_file_is_compared_if_it_looks_as_the_one_before() {
    // The servers confirm a move that they have not carried out.
    let servers = servers();
    servers[1].store("f", b"damaged");
    let shared = context(CopyOptions::default());
    let error = moved(&shared, &servers, &Mover::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    // What has arrived differs from it, and is not compared.
    servers[1].store("f", b"earlier");
    let arrives = Some((servers[1].clone(), &b"damaged"[..]));
    let mover = Mover { arrives, ..Mover::default() };
    assert_eq!(moved(&shared, &servers, &mover).await.unwrap(), MoveResult::Moved);
}

#[tokio::test(start_paused = true)]
async fn a_move_that_a_busy_server_refuses_waits_for_its_turn() {
    let servers = servers();
    let after = Duration::from_secs(5);
    let busy = || {
        let error = Error::new(ErrorKind::Unavailable, "it moves others");
        Err(error.with_failure(Failure::Staging { after }))
    };
    let arrives = Some((servers[1].clone(), CONTENT));
    let results = Mutex::new([busy(), busy()].into());
    let mover = Mover { results, arrives, ..Mover::default() };
    let shared = context(CopyOptions::default());
    assert_eq!(moved(&shared, &servers, &mover).await.unwrap(), MoveResult::Moved);
    assert_eq!(mover.moves.load(Ordering::Relaxed), 3);
    let notices = shared.results().summary().notices.clone();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].ends_with("moves no more files at a time: others wait"), "{notices:?}");
}

#[tokio::test]
async fn other_failures_are_final_or_lead_through_this_machine() {
    for (kind, expected) in [
        (ErrorKind::Unsupported, Ok(MoveResult::FallBack)),
        (ErrorKind::Unavailable, Err(ErrorKind::Unavailable)),
    ] {
        let results = Mutex::new([Err(Error::new(kind, "it failed"))].into());
        let mover = Mover { results, ..Mover::default() };
        let result = moved(&context(CopyOptions::default()), &servers(), &mover).await;
        assert_eq!(result.map_err(|error| error.kind()), expected);
        assert_eq!(mover.moves.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn moved_bytes_are_counted_once_and_those_of_a_failure_not() {
    let servers = servers();
    let arrives = Some((servers[1].clone(), CONTENT));
    let mover = Mover { reports: &[3, 3, 2, 900], arrives, ..Mover::default() };
    let shared = context(CopyOptions::default());
    moved(&shared, &servers, &mover).await.unwrap();
    assert_eq!(shared.resources.progress.bytes_moved_by_servers(), 7);
    let results = Mutex::new([Err(Error::new(ErrorKind::Timeout, "it failed"))].into());
    let mover = Mover { reports: &[3, 5], results, ..Mover::default() };
    moved(&shared, &servers, &mover).await.unwrap_err();
    assert_eq!(shared.resources.progress.figures().bytes_done, 7);
}
