use super::*;
use crate::copy::bandwidth_limiter::BandwidthLimiter;
use crate::copy::context::CopyContext;
use crate::copy::queue::Queue;
use crate::copy::resources::job_clock::JobClock;
use crate::copy::tests::memory::{Behaviour, MemoryServer};
use crate::copy::tests::scripted::{CONTENT, context, entry};
use crate::destination::Target;
use crate::file::item::CopyItem;
use crate::file::open::{OpenResult, open};
use crate::journal::Journal;
use crate::options::{CopyOptions, Verify};
use bytes::Bytes;

async fn opened(shared: &CopyContext, item: CopyItem) -> Arc<FileCopy> {
    match open(&shared.resources, item, None).await {
        Ok(OpenResult::File(file)) => file,
        Ok(OpenResult::Skipped(_)) => panic!("an existing file is replaced"),
        Err(error) => panic!("{error}"),
    }
}

/// A file with [`CONTENT`] that is uploaded to `server` in blocks of four bytes.
async fn uploading(shared: &CopyContext, server: &MemoryServer) -> Arc<FileCopy> {
    let item = CopyItem::new(server.path("from"), Some(entry(CONTENT.len())), server.target("f"));
    opened(shared, item).await
}

fn options() -> CopyOptions {
    let verify = Verify::Nothing;
    CopyOptions { verify, block_bytes: 4, budget_bytes: 4, ..CopyOptions::default() }
}

/// Writes the bytes of [`CONTENT`] from `start` to `end`.
async fn written(file: &Arc<FileCopy>, start: usize, end: usize) -> Result<()> {
    let pieces = vec![Bytes::from_static(&CONTENT[start..end])];
    let bytes = (end - start) as u64;
    file.hold(bytes);
    write(Arc::clone(file), WriteBatch { offset: start as u64, pieces, bytes }).await
}

#[tokio::test]
async fn the_journal_has_the_blocks_that_the_server_has_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = || Journal::open(folder.path(), "job", &mut Vec::new()).unwrap().unwrap();
    let begun = journal().begin("job", false, &mut Vec::new());
    let server = MemoryServer::new(Behaviour { token: Some("t"), ..Behaviour::default() }, &[]);
    server.fail("write f 4..7", ErrorKind::Unavailable);
    let shared = CopyContext::new("job", options(), Queue::new(64, 0), begun, Arc::default());
    let file = uploading(&shared, &server).await;
    assert!(written(&file, 0, 4).await.is_ok());
    assert_eq!(written(&file, 4, 7).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let key = file.key.clone();
    drop((file, shared));
    let known = journal().take(&key).unwrap();
    assert_eq!(known.part.as_deref(), Some("t"));
    assert_eq!(known.blocks.into_keys().collect::<Vec<_>>(), [0]);
}

#[tokio::test]
async fn bytes_free_their_memory_whether_they_are_written_or_not() {
    let server = MemoryServer::new(Behaviour::default(), &[]);
    server.fail("write f 4..7", ErrorKind::NoSpace);
    let shared = context(options());
    let file = uploading(&shared, &server).await;
    for (start, end, is_written) in [(0, 4, true), (4, 7, false)] {
        assert_eq!(written(&file, start, end).await.is_ok(), is_written);
        assert!(shared.resources.budget.has_room());
    }
    assert_eq!(file.blocks.written_bytes(), 4);
}

#[tokio::test]
async fn an_upload_that_was_abandoned_takes_no_more_bytes() {
    let server = MemoryServer::new(Behaviour::default(), &[]);
    let shared = context(options());
    let file = uploading(&shared, &server).await;
    file.abandon().await;
    assert_eq!(written(&file, 0, 4).await.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(server.requests(), ["put f", "abort f"]);
}

#[tokio::test]
async fn a_limited_copy_within_this_machine_stops_when_its_file_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let size = 3 * LIMITED_BYTES;
    std::fs::write(&from, vec![1; usize::try_from(size).unwrap()]).unwrap();
    let limiter = BandwidthLimiter::with_rate(1 << 30, Arc::new(JobClock::start()));
    for (bandwidth, copied) in [(Some(Arc::new(limiter)), LIMITED_BYTES), (None, size)] {
        let is_limited = bandwidth.is_some();
        let shared =
            context(CopyOptions { verify: Verify::Nothing, bandwidth, ..CopyOptions::default() });
        let server = MemoryServer::new(Behaviour::default(), &[]);
        let mut source = server.path("from");
        source.local = Some(from.clone());
        let entry = entry(usize::try_from(size).unwrap());
        let target = Target::Local(folder.path().join(format!("to{copied}")));
        let file = opened(&shared, CopyItem::new(source, Some(entry), target)).await;
        let piece = file.take(shared.work_request(1), true).unwrap();
        file.give_up();
        let result = copy_piece(&file, &piece).await;
        let cancelled = is_limited.then_some(ErrorKind::Cancelled);
        assert_eq!(result.err().map(|error| error.kind()), cancelled);
        assert_eq!(file.blocks.written_bytes(), copied);
    }
}
