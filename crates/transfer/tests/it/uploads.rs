//! Uploads: small files are checked at the server, and resumed files are verified.

use crate::local::{names_in, place};
use async_trait::async_trait;
use bytes::Bytes;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::{CommittedFile, PutOptions, Upload};
use hither_core::{DirEntry, Error, ErrorKind, Result, RetryPolicy, Source, Storage};
use hither_testkit::mock_http::webdav::{
    ChangeFault, MockWebDavServer, PlannedFault, ReadFault, StatedSizes, WebDavBehaviour,
    WebDavFault,
};
use hither_testkit::waiting::task_until;
use hither_transfer::{CopyOptions, CopyPath, CopySummary, Destination, copy, copy_range};
use hither_transport::{
    LocalSource, LocalStorage, Location, Network, TransportConfig, WebDavStorage,
};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::Handle;

const FILES: usize = 20;
const BYTES: usize = 1000;

/// A copy of small files to a WebDAV server.
async fn sent(server: &MockWebDavServer, files: usize) -> CopySummary {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..files {
        fs::write(tree.join(format!("file-{number}")), vec![b'x'; BYTES]).unwrap();
    }
    sent_as(server, &place(&tree), Some(folder.path().join("journal"))).await
}

/// Copies a tree by a job with this journal.
async fn sent_as(
    server: &MockWebDavServer,
    tree: &CopyPath,
    journal: Option<PathBuf>,
) -> CopySummary {
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    let root = Location::parse(&server.url_of("/d/")).unwrap();
    let storage = Arc::new(WebDavStorage::new(root, network));
    let path = "tree".to_owned();
    let target = CopyPath { storage, path, local: None, is_directory: false, contents: false };
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.journal = journal;
    let destination = Destination::Path(target);
    copy(vec![tree.clone()], destination, options, Arc::default()).await.unwrap()
}

#[tokio::test]
async fn small_uploads_are_seen_by_one_listing_or_a_few_questions() {
    for (files, looks) in [(FILES, 1), (2, 2), (1, 1)] {
        let server = MockWebDavServer::start(None).unwrap();
        let summary = sent(&server, files).await;
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        assert_eq!(summary.files, files as u64);
        let log = server.log();
        let last_change = log.iter().rposition(|(method, _)| method == "MOVE").unwrap();
        let after = log.len() - 1 - last_change;
        let counts = ["PUT", "MOVE"].map(|method| server.count(method));
        assert_eq!((counts, after), ([files, files], looks), "{log:?}");
    }
}

#[tokio::test]
async fn jobs_of_different_stores_share_no_partial_file() {
    // The first attempt fails, and the second resumes from its journal.
    let fault = WebDavFault::Status(400);
    let planned = PlannedFault { method: "PUT", nth: 0, times: 1, fault };
    let server = MockWebDavServer::behaving(WebDavBehaviour::default(), vec![planned]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tree = CopyPath { contents: true, ..place(&folder.path().join("tree")) };
    fs::create_dir(tree.local.as_ref().unwrap()).unwrap();
    fs::write(folder.path().join("tree/file"), vec![b'x'; BYTES]).unwrap();
    let stores = [Some("one"), Some("one"), Some("two"), None, None];
    for (attempt, store) in stores.into_iter().enumerate() {
        let summary = sent_as(&server, &tree, store.map(|store| folder.path().join(store))).await;
        let failures = summary.failures.len();
        assert_eq!(failures, usize::from(attempt == 0), "{:?}", summary.failures);
    }
    let log = server.log();
    let puts: Vec<_> = log.iter().filter(|it| it.0 == "PUT").map(|it| &*it.1).collect();
    assert_eq!((puts.len(), puts[0]), (stores.len(), puts[1]), "{puts:?}");
    let names: HashSet<_> = puts.iter().collect();
    assert_eq!(names.len(), stores.len() - 1, "{puts:?}");
}

#[tokio::test]
async fn small_uploads_whose_sizes_are_not_listed_are_asked_for_by_get() {
    for (sizes, failures) in [(StatedSizes::ByGet, 0), (StatedSizes::Never, FILES)] {
        let server = MockWebDavServer::start(None).unwrap();
        server.state_sizes(sizes);
        let summary = sent(&server, FILES).await;
        let kinds = summary.failures.iter().map(|failure| failure.error.kind());
        assert!(kinds.clone().all(|kind| kind == ErrorKind::Corrupt), "{:?}", summary.failures);
        assert_eq!((kinds.count(), server.count("GET")), (failures, FILES), "{sizes:?}");
        assert_eq!(summary.files, (FILES - failures) as u64, "{sizes:?}");
    }
}

#[tokio::test]
async fn small_uploads_that_are_stored_in_part_fail() {
    for files in [1, FILES] {
        let server = MockWebDavServer::start(Some(("PUT", ChangeFault::Half))).unwrap();
        let summary = sent(&server, files).await;
        assert_eq!((summary.files, summary.bytes, summary.failures.len()), (0, 0, files));
        for failure in &summary.failures {
            assert_eq!(failure.error.kind(), ErrorKind::Corrupt, "{}", failure.error);
        }
    }
}

#[tokio::test]
async fn a_test_of_names_leaves_no_file() {
    // Without MOVE the file is stored under its name: the third PUT, after those of `a`.
    let fault = WebDavFault::Change(ChangeFault::HalfLost);
    let lost = PlannedFault { method: "PUT", nth: 2, times: usize::MAX, fault };
    let behaviour = WebDavBehaviour { refuses_moves: Some(405), ..WebDavBehaviour::default() };
    let server = MockWebDavServer::behaving(behaviour, vec![lost]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "A"] {
        fs::write(folder.path().join(name), b"x").unwrap();
    }
    let tree = CopyPath { contents: true, ..place(folder.path()) };
    let summary = sent_as(&server, &tree, None).await;
    assert!(!summary.failures.is_empty());
    let paths = server.paths();
    assert!(paths.iter().all(|it| !it.contains(".hither-")), "{paths:?}: {:?}", server.log());
}

const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 16;

/// A folder that accepts a number of blocks, and then fails.
#[derive(Debug)]
struct Breaking {
    inner: LocalStorage,
    behaviour: BreakingBehaviour,
}

#[derive(Debug, Clone)]
struct BreakingBehaviour {
    folder: PathBuf,
    blocks: Arc<AtomicUsize>,
    has_checksums: bool,
    shows_parts: bool,
    /// Blocks that it accepts concurrently.
    parallel: usize,
    /// A block that is accepted last.
    last: Option<u64>,
}

#[derive(Debug)]
struct BreakingUpload {
    inner: Box<dyn Upload>,
    behaviour: BreakingBehaviour,
}

impl BreakingBehaviour {
    /// The folder `there` in `folder`, which accepts any number of blocks.
    fn lasting(folder: &Path) -> Self {
        let folder = folder.join("there");
        let blocks = Arc::new(AtomicUsize::new(usize::MAX));
        Self { folder, blocks, has_checksums: true, shows_parts: true, parallel: 4, last: None }
    }

    fn storage(self) -> Arc<Breaking> {
        let inner = LocalStorage::new(&self.folder, Arc::default());
        Arc::new(Breaking { inner, behaviour: self })
    }
}

impl BreakingUpload {
    fn part(&self) -> PathBuf {
        self.behaviour.folder.join(self.inner.token().unwrap())
    }
}

#[async_trait]
impl Upload for BreakingUpload {
    fn parallel(&self) -> usize {
        self.behaviour.parallel
    }
    fn token(&self) -> Option<String> {
        self.inner.token()
    }
    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let blocks = &self.behaviour.blocks;
        if self.behaviour.last == Some(offset) {
            assert!(task_until(|| blocks.load(Ordering::Acquire) == 0).await);
        }
        let left =
            blocks.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        left.map_err(|_| Error::new(ErrorKind::Unavailable, "the server is gone"))?;
        self.inner.write(offset, bytes).await
    }
    async fn written_checksum(&self, algorithm: Algorithm) -> Result<Option<Checksum>> {
        let bytes = fs::read(self.part()).unwrap();
        Ok(self.behaviour.has_checksums.then(|| Hasher::of(algorithm, &bytes)))
    }
    fn written_source(&self) -> Option<Arc<dyn Source>> {
        let open = || LocalSource::open(&self.part(), Arc::default()).unwrap();
        self.behaviour.shows_parts.then(|| Arc::new(open()) as Arc<dyn Source>)
    }
    async fn commit(self: Box<Self>, _: Option<Checksum>) -> Result<CommittedFile> {
        self.inner.commit(None).await
    }
    async fn abort(self: Box<Self>) -> Result<()> {
        self.inner.abort().await
    }
}

#[async_trait]
impl Storage for Breaking {
    fn name(&self) -> String {
        "http://breaking".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        self.inner.stat(path).await
    }
    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        self.inner.source(path)
    }
    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        let inner = self.inner.put(path, options).await?;
        Ok(Box::new(BreakingUpload { inner, behaviour: self.behaviour.clone() }))
    }
}

/// Uploads a file to `there`, up to a number of blocks.
async fn uploaded(
    folder: &Path,
    blocks: usize,
    has_checksums: bool,
    shows_parts: bool,
) -> CopySummary {
    let blocks = Arc::new(AtomicUsize::new(blocks));
    let lasting = BreakingBehaviour::lasting(folder);
    uploaded_to(folder, BreakingBehaviour { blocks, has_checksums, shows_parts, ..lasting }).await
}

/// Uploads a file to a folder with this behaviour.
async fn uploaded_to(folder: &Path, behaviour: BreakingBehaviour) -> CopySummary {
    let storage = behaviour.storage();
    let path = "file".to_owned();
    let target = CopyPath { storage, path, local: None, is_directory: false, contents: false };
    let mut options = CopyOptions::default();
    options.block_bytes = BLOCK as u64;
    options.journal = Some(folder.join("journal"));
    let source = place(&folder.join("file"));
    copy(vec![source], Destination::File(target), options, Arc::default()).await.unwrap()
}

#[tokio::test]
async fn blocks_that_a_server_lost_are_uploaded_again() {
    let content: Vec<u8> = (0..BLOCK * BLOCKS).map(|n| (n % 251).to_le_bytes()[0]).collect();
    for (is_lost, has_checksums, shows_parts) in [
        (true, true, true),
        (true, false, true),
        (false, true, true),
        (false, false, true),
        (false, false, false),
    ] {
        let case = (is_lost, has_checksums, shows_parts);
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::write(folder.path().join("file"), &content).unwrap();
        let first = uploaded(folder.path(), 10, has_checksums, shows_parts).await;
        assert_eq!(first.failures.len(), 1, "{case:?}");
        let part = names_in(&there).remove(0);
        if is_lost {
            // Blocks are sent concurrently, so it is not known which of them arrived.
            let part = there.join(part);
            let held = fs::read(&part).unwrap();
            let mut blocks = held.chunks(BLOCK).zip(content.chunks(BLOCK));
            let lost = blocks.position(|(held, sent)| held == sent).unwrap() * BLOCK;
            let part = fs::File::options().write(true).open(part).unwrap();
            part.write_all_at(&[0; BLOCK], lost as u64).unwrap();
        }
        let second = uploaded(folder.path(), usize::MAX, has_checksums, shows_parts).await;
        assert!(second.failures.is_empty(), "{case:?}: {:?}", second.failures);
        assert!(fs::read(there.join("file")).unwrap() == content, "{case:?}");
        let kept = 10 - usize::from(is_lost);
        assert_eq!(second.bytes_resumed, (kept * BLOCK) as u64, "{case:?}");
        let notices = second.notices.join("\n");
        assert_eq!(notices.contains("the server had lost 65536 bytes"), is_lost, "{notices}");
        let is_unknown = !has_checksums && !shows_parts;
        assert_eq!(notices.contains("are not verified"), is_unknown, "{case:?}: {notices}");
    }
}

#[tokio::test]
async fn an_upload_in_order_goes_on_beside_the_blocks_that_are_there() {
    let content: Vec<u8> = (0..BLOCK * BLOCKS).map(|n| (n % 251).to_le_bytes()[0]).collect();
    // Either the first blocks have arrived, or blocks other than the fourth.
    for (parallel, last) in [(1, None), (4, Some(3 * BLOCK as u64))] {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::write(folder.path().join("file"), &content).unwrap();
        let blocks = Arc::new(AtomicUsize::new(10));
        let lasting = BreakingBehaviour::lasting(folder.path());
        let first = BreakingBehaviour { blocks, parallel, last, ..lasting.clone() };
        let first = uploaded_to(folder.path(), first).await;
        assert_eq!(first.failures.len(), 1, "{parallel}");
        let held = fs::read(there.join(names_in(&there).remove(0))).unwrap();
        let is_there = |n: &usize| held[n * BLOCK..][..BLOCK] == content[n * BLOCK..][..BLOCK];
        let blocks: Vec<_> = (0..BLOCKS).filter(is_there).collect();
        assert_eq!((blocks.len(), blocks.contains(&3)), (10, last.is_none()), "{blocks:?}");
        let one = BreakingBehaviour { parallel: 1, ..lasting };
        let second = uploaded_to(folder.path(), one).await;
        assert!(second.failures.is_empty(), "{parallel}: {:?}", second.failures);
        assert!(fs::read(there.join("file")).unwrap() == content, "{parallel}");
        assert_eq!(second.bytes_resumed, 10 * BLOCK as u64, "{parallel}");
    }
}

#[tokio::test]
async fn a_range_is_uploaded_in_order_from_where_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    fs::create_dir(&there).unwrap();
    fs::write(folder.path().join("file"), vec![b'x'; BLOCK * BLOCKS]).unwrap();
    let source = place(&folder.path().join("file"));
    let entry = source.storage.stat("file").await.unwrap();
    let one = BreakingBehaviour { parallel: 1, ..BreakingBehaviour::lasting(folder.path()) };
    let storage: Arc<dyn Storage> = one.storage();
    let size = (BLOCK * BLOCKS) as u64;
    let begun = storage.put("file", PutOptions { size, ..PutOptions::default() }).await.unwrap();
    let token = begun.token().unwrap();
    let path = "file".to_owned();
    let target = CopyPath { storage, path, local: None, is_directory: false, contents: false };
    let mut options = CopyOptions::default();
    options.block_bytes = BLOCK as u64;
    let range = 4 * BLOCK as u64..9 * BLOCK as u64;
    let copying = copy_range(source, entry, range, target, token.clone(), options, Arc::default());
    let summary = copying.await.unwrap();
    assert!(summary.error().is_none(), "{:?}", summary.failures);
    let held = fs::read(there.join(token)).unwrap();
    let is_there = |n: usize| held[n * BLOCK..][..BLOCK].iter().all(|byte| *byte == b'x');
    assert!((0..BLOCKS).all(|n| is_there(n) == (4..9).contains(&n)));
}

#[tokio::test]
async fn an_upload_that_has_ended_begins_anew_with_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    fs::create_dir(&there).unwrap();
    fs::write(folder.path().join("file"), vec![b'x'; BLOCK * BLOCKS]).unwrap();
    uploaded(folder.path(), 10, true, true).await;
    for name in names_in(&there) {
        fs::remove_file(there.join(name)).unwrap();
    }
    let second = uploaded(folder.path(), usize::MAX, true, true).await;
    assert!(second.failures.is_empty(), "{:?}", second.failures);
    assert_eq!(second.bytes_resumed, 0);
    assert!(second.notices[0].contains("begun anew"), "{:?}", second.notices);
}

/// The blocks of an upload in order come from one download of the whole file. A block must not hold
/// the download while it waits for another block to be written.
#[tokio::test]
async fn a_file_from_a_server_without_ranges_is_uploaded_in_order() {
    let content: Vec<u8> = (0..BLOCK * (BLOCKS + 4)).map(|n| (n % 251).to_le_bytes()[0]).collect();
    let whole = PlannedFault {
        method: "GET",
        nth: 0,
        times: usize::MAX,
        fault: WebDavFault::Read(ReadFault::Whole),
    };
    let from = MockWebDavServer::behaving(WebDavBehaviour::default(), vec![whole]).unwrap();
    from.store("/d/file", &content);
    let to = MockWebDavServer::start(None).unwrap();
    let network = Network::new(TransportConfig::default(), Handle::current(), None);
    let at = |server: &MockWebDavServer| {
        let root = Location::parse(&server.url_of("/d/")).unwrap();
        let storage = Arc::new(WebDavStorage::new(root, Arc::clone(&network)));
        let path = "file".to_owned();
        CopyPath { storage, path, local: None, is_directory: false, contents: false }
    };
    let mut options = CopyOptions::default();
    options.block_bytes = BLOCK as u64;
    options.retry = RetryPolicy::once();
    let destination = Destination::File(at(&to));
    let summary = copy(vec![at(&from)], destination, options, Arc::default()).await.unwrap();
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    assert!(to.bytes("/d/file").unwrap() == content);
}
