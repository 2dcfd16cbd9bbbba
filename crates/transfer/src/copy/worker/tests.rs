use super::*;
use crate::copy::tests::memory::{Behaviour, MemoryServer};
use crate::copy::tests::scripted::{CONTENT, Scripted, context, failures};
use crate::destination::Target;
use crate::file::item::CopyItem;
use crate::options::CopyOptions;
use hither_core::{DirEntry, FileKind};

/// Copies eight files from a server that takes a second for each request. Returns the most requests
/// at a time, and the number of all.
async fn copied(options: CopyOptions) -> (usize, u64) {
    let files: Vec<_> = (0..8).map(|number| number.to_string()).collect();
    let stored: Vec<_> = files.iter().map(|path| (&**path, CONTENT)).collect();
    let delay = Duration::from_secs(1);
    let server = MemoryServer::new(Behaviour { delay, ..Behaviour::default() }, &stored);
    let shared = context(options);
    for path in &files {
        let entry = DirEntry::new(path, FileKind::File, CONTENT.len() as u64);
        shared.found(CopyItem::new(server.path(path), Some(entry), Target::Discard)).await;
    }
    run_all(&shared).await;
    assert_eq!((failures(&shared), shared.results().summary().files), (vec![], 8));
    (server.most_reading(), server.requests().len() as u64)
}

/// Files of seven bytes are large ones, which workers copy.
fn large() -> CopyOptions {
    CopyOptions { block_bytes: 4, ..CopyOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn large_files_are_copied_by_as_many_workers_as_are_set() {
    for workers in [1, 3] {
        let options = large();
        options.control.set_workers(workers);
        assert_eq!(copied(options).await.0, workers);
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_small_files_are_copied_at_a_time_than_the_user_allows() {
    for transfers in [1, 3] {
        let options = CopyOptions { transfers: Some(transfers), ..CopyOptions::default() };
        assert_eq!(copied(options).await.0, transfers);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_above_a_lowered_limit_takes_no_more_pieces() {
    let options = large();
    let control = Arc::clone(&options.control);
    control.set_workers(4);
    let lower = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        control.set_workers(1);
    };
    let began = Instant::now();
    let ((most, requests), ()) = futures_util::future::join(copied(options), lower).await;
    // Four requests in the first second, and then one after the other.
    assert_eq!((most, began.elapsed().as_secs()), (4, 1 + requests - 4));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_worker_ends_the_copy_with_an_error() {
    let shared = context(large());
    // Without an answer the server of the test panics.
    shared.found(Scripted::new([], []).item(Target::Discard)).await;
    run_all(&shared).await;
    assert_eq!(failures(&shared), [ErrorKind::Local]);
    let error = shared.results().summary().failures[0].error.to_string();
    assert!(error.contains("a worker of the copy panicked"), "{error}");
}
