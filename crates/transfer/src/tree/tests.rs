use super::*;
use crate::copy::tests::scripted::context;
use crate::options::{CopyOptions, OverwritePolicy};
use crate::tree::small_files::TreeBatch;
use crate::tree::{fetch_batch, send_batch};
use async_trait::async_trait;
use bytes::Bytes;
use hither_core::storage::{StoredEntry, TreeEvents, TreeRequest, TreeUpload};
use hither_core::sync::lock;
use hither_core::{Delivery, DirEntry, Failure, FileKind, Listing, Source, Storage};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

/// The events of a stream; after an error there are no others.
#[derive(Debug)]
struct Events(VecDeque<Result<Vec<TreeEvent>>>);

#[async_trait]
impl TreeEvents for Events {
    async fn next(&mut self) -> Result<Vec<TreeEvent>> {
        self.0.pop_front().unwrap_or_else(|| Ok(Vec::new()))
    }
}

/// The answers to a request for a tree: the events, or none where there are no streams.
type Stream = Result<Option<Vec<Result<Vec<TreeEvent>>>>>;
/// The answer to an upload: the results of its files.
type Stored = Result<Option<Vec<Result<StoredEntry>>>>;

/// A server that answers in this order.
#[derive(Debug, Default)]
struct Streams {
    streams: Mutex<VecDeque<Stream>>,
    stored: Mutex<VecDeque<Stored>>,
    /// The paths of each request for a tree.
    requested: Mutex<Vec<Vec<String>>>,
    /// The paths of each upload.
    sent: Mutex<Vec<Vec<String>>>,
}

impl Streams {
    fn new(
        streams: impl IntoIterator<Item = Stream>,
        stored: impl IntoIterator<Item = Stored>,
    ) -> Arc<Self> {
        let streams = Mutex::new(streams.into_iter().collect());
        let stored = Mutex::new(stored.into_iter().collect());
        Arc::new(Self { streams, stored, ..Self::default() })
    }

    fn requested(&self) -> Vec<Vec<String>> {
        lock(&self.requested).clone()
    }

    fn sent(&self) -> Vec<Vec<String>> {
        lock(&self.sent).clone()
    }
}

#[async_trait]
impl Storage for Streams {
    fn name(&self) -> String {
        "streams:".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        Err(Error::new(ErrorKind::NotFound, format!("{path} is not there")))
    }
    async fn list(&self, _: &str) -> Result<Listing> {
        Ok(Listing::default())
    }
    async fn make_directory(&self, _: &str) -> Result<()> {
        Ok(())
    }
    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, format!("{path} is requested by itself")))
    }
    fn has_trees(&self) -> bool {
        true
    }
    async fn tree(&self, _: &str, request: TreeRequest) -> Result<Option<Box<dyn TreeEvents>>> {
        let (TreeRequest::Contents(paths) | TreeRequest::Entries(paths)) = request else {
            return Ok(None);
        };
        lock(&self.requested).push(paths);
        let stream = lock(&self.streams).pop_front().expect("no stream is left")?;
        Ok(stream.map(|events| -> Box<dyn TreeEvents> { Box::new(Events(events.into())) }))
    }
    fn puts_trees(&self) -> bool {
        true
    }
    async fn put_tree(&self, _: &str, files: Vec<TreeUpload>) -> Stored {
        lock(&self.sent).push(files.into_iter().map(|file| file.relative).collect());
        lock(&self.stored).pop_front().expect("no answer is left")
    }
}

const CONTENT: &[u8] = b"content";

fn file(name: &str) -> TreeFile {
    let entry = DirEntry::new(format!("tree/{name}"), FileKind::File, CONTENT.len() as u64);
    TreeFile { relative: name.to_owned(), entry, mode: None }
}

fn content(name: &str) -> TreeEvent {
    TreeEvent::Content(file(name), vec![Bytes::from_static(CONTENT)])
}

fn error(kind: ErrorKind) -> Error {
    Error::new(kind, "it failed")
}

/// The error of a connection that breaks off after the request was sent.
fn broken() -> Error {
    error(ErrorKind::Unavailable).with_failure(Failure::Interrupted(Delivery::Sent))
}

/// The failed files of a copy, with the kinds of their errors, by name.
fn failed(shared: &CopyContext) -> Vec<(String, ErrorKind)> {
    let summary = shared.results().summary();
    let of = |it: &crate::CopyFailure| (it.source.clone(), it.error.kind());
    let mut failed: Vec<_> = summary.failures.iter().map(of).collect();
    failed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    failed
}

fn files_and_bytes(shared: &CopyContext) -> (u64, u64) {
    let summary = shared.results().summary();
    (summary.files, summary.bytes)
}

/// Fetches files of `server` into `folder`.
async fn fetched(server: &Arc<Streams>, folder: &Path, names: &[&str]) -> Arc<CopyContext> {
    let storage: Arc<dyn Storage> = Arc::<Streams>::clone(server);
    let path = "tree".to_owned();
    let source = CopyPath { storage, path, local: None, is_directory: true, contents: true };
    let options = CopyOptions::default();
    let root = TreeRoot::new(&source, &Target::Local(folder.to_owned()), &options);
    let shared = context(options);
    let files = names.iter().map(|name| file(name)).collect();
    fetch_batch::run(&shared, TreeBatch { root: Arc::new(root), files }).await;
    shared
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_breaks_off_is_requested_again_without_what_arrived() {
    let part = Ok(Some(vec![Ok(vec![content("b")]), Err(broken())]));
    let rest = Ok(Some(vec![Ok(vec![content("a"), content("c")])]));
    let server = Streams::new([part, rest], []);
    let folder = tempfile::tempdir().unwrap();
    let shared = fetched(&server, folder.path(), &["a", "b", "c"]).await;
    assert_eq!(server.requested(), [vec!["a", "b", "c"], vec!["a", "c"]]);
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (vec![], (3, 21)));
    for name in ["a", "b", "c"] {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), CONTENT);
    }
}

#[tokio::test(start_paused = true)]
async fn files_of_a_batch_fail_alone() {
    let events = vec![
        TreeEvent::Failed("a".to_owned(), error(ErrorKind::PermissionDenied)),
        TreeEvent::LeftOut("b".to_owned(), "it is a pipe".to_owned()),
        content("not requested"),
        TreeEvent::Directory("c".to_owned()),
        content("d"),
    ];
    let server = Streams::new([Ok(Some(vec![Ok(events)]))], []);
    let folder = tempfile::tempdir().unwrap();
    let shared = fetched(&server, folder.path(), &["a", "b", "c", "d"]).await;
    let expected = [
        ("streams:/tree/a".to_owned(), ErrorKind::PermissionDenied),
        ("streams:/tree/b".to_owned(), ErrorKind::Changed),
        ("streams:/tree/c".to_owned(), ErrorKind::Changed),
    ];
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (expected.into(), (1, 7)));
    let names = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_file_is_an_error_of_that_file() {
    let one = || Ok(Some(vec![Ok(vec![content("a")])]));
    let none = || Ok(Some(vec![]));
    let server = Streams::new([one(), none()], []);
    let folder = tempfile::tempdir().unwrap();
    let shared = fetched(&server, folder.path(), &["a", "b"]).await;
    assert_eq!(server.requested(), [vec!["a", "b"], vec!["b"]]);
    let expected = [("streams:/tree/b".to_owned(), ErrorKind::Protocol)];
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (expected.into(), (1, 7)));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_has_another_size_now_is_copied_as_it_is_now() {
    let entry = DirEntry { size: Some(3), ..file("a").entry };
    let grown = TreeFile { entry, ..file("a") };
    let event = TreeEvent::Content(grown, vec![Bytes::from_static(b"new")]);
    let server = Streams::new([Ok(Some(vec![Ok(vec![event])]))], []);
    let folder = tempfile::tempdir().unwrap();
    let shared = fetched(&server, folder.path(), &["a"]).await;
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (vec![], (1, 3)));
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"new");
}

/// Nothing is written behind a link at the target where the source has a directory.
#[tokio::test(start_paused = true)]
async fn a_directory_that_is_a_link_at_the_target_fails_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let elsewhere = folder.path().join("elsewhere");
    for made in [&target, &elsewhere] {
        std::fs::create_dir(made).unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, target.join("d")).unwrap();
    let shared = context(CopyOptions::default());
    let storage: Arc<dyn Storage> = Streams::new([], []);
    let path = "tree".to_owned();
    let source = CopyPath { storage, path, local: None, is_directory: true, contents: true };
    let root = TreeRoot::new(&source, &Target::Local(target), &CopyOptions::default());
    let root = Arc::new(root);
    let mut taken = TakenNames::default();
    for event in [
        TreeEvent::Directory("d".to_owned()),
        TreeEvent::File(file("d/a")),
        TreeEvent::Directory("d/e".to_owned()),
        TreeEvent::File(file("d/e/b")),
        TreeEvent::File(file("f")),
    ] {
        take(&shared, &root, event, &mut taken).await.unwrap();
    }
    assert_eq!(failed(&shared), [("streams:/tree/d".to_owned(), ErrorKind::AlreadyExists)]);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(shared.resources.progress.figures().files_found, 1, "f");
}

/// Sends files of `folder` to `server`, which keeps what it has.
async fn batch_sent(
    server: &Arc<Streams>,
    folder: &Path,
    files: Vec<TreeFile>,
) -> Arc<CopyContext> {
    let storage: Arc<dyn Storage> = Arc::<Streams>::clone(server);
    let target = Target::Remote(Arc::clone(&storage), "to".to_owned());
    let (path, local) = ("tree".to_owned(), Some(folder.to_owned()));
    let source = CopyPath { storage, path, local, is_directory: true, contents: true };
    let options = CopyOptions { existing: OverwritePolicy::Refuse, ..CopyOptions::default() };
    let root = TreeRoot::new(&source, &target, &options);
    let shared = context(options);
    send_batch::run(&shared, TreeBatch { root: Arc::new(root), files }).await;
    shared
}

/// Sends local files with these names and [`CONTENT`] to `server`.
async fn sent(server: &Arc<Streams>, folder: &Path, names: &[&str]) -> Arc<CopyContext> {
    for path in names.iter().map(|name| folder.join(name)) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, CONTENT).unwrap();
    }
    batch_sent(server, folder, names.iter().map(|name| file(name)).collect()).await
}

fn stored(name: &str) -> Result<StoredEntry> {
    Ok(StoredEntry { entry: file(name).entry, is_new: true })
}

#[tokio::test(start_paused = true)]
async fn files_without_a_result_are_sent_again() {
    let answers = [Ok(Some(vec![stored("d"), stored("d/a")])), Ok(Some(vec![stored("b")]))];
    let server = Streams::new([], answers);
    let folder = tempfile::tempdir().unwrap();
    let shared = sent(&server, folder.path(), &["d/a", "b"]).await;
    assert_eq!(server.sent(), [vec!["d", "d/a", "b"], vec!["b"]]);
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (vec![], (2, 14)));
}

#[tokio::test(start_paused = true)]
async fn a_file_fails_for_the_directory_that_could_not_be_made() {
    let refused = Err(error(ErrorKind::PermissionDenied));
    let missing = Err(error(ErrorKind::NotFound));
    let server = Streams::new([], [Ok(Some(vec![refused, missing, stored("b")]))]);
    let folder = tempfile::tempdir().unwrap();
    let shared = sent(&server, folder.path(), &["d/a", "b"]).await;
    let name = |path: &str| folder.path().join(path).display().to_string();
    let expected = [(name("d/a"), ErrorKind::PermissionDenied)];
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (expected.into(), (1, 7)));
    assert_eq!(server.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_an_interrupted_request_has_stored_is_no_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let own = |name: &str| {
        let modified = std::fs::metadata(folder.path().join(name)).unwrap().modified().ok();
        TreeFile { entry: DirEntry { modified, ..file(name).entry }, ..file(name) }
    };
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), CONTENT).unwrap();
    }
    let conflict = || Err(error(ErrorKind::AlreadyExists));
    let answers = [Err(broken()), Ok(Some(vec![conflict(), conflict()]))];
    // `b` has another time there.
    let entries = Ok(Some(vec![Ok(vec![TreeEvent::File(own("a")), TreeEvent::File(file("b"))])]));
    let server = Streams::new([entries], answers);
    let shared = batch_sent(&server, folder.path(), vec![own("a"), own("b")]).await;
    assert_eq!(
        (server.sent().len(), server.requested()),
        (2, vec![vec!["a".to_owned(), "b".to_owned()]])
    );
    let expected = [(folder.path().join("b").display().to_string(), ErrorKind::AlreadyExists)];
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (expected.into(), (1, 7)));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_the_first_request_is_a_failure() {
    let answers = [Ok(Some(vec![Err(error(ErrorKind::AlreadyExists)), stored("b")]))];
    let server = Streams::new([], answers);
    let folder = tempfile::tempdir().unwrap();
    let shared = sent(&server, folder.path(), &["a", "b"]).await;
    let name = |path: &str| folder.path().join(path).display().to_string();
    let expected = [(name("a"), ErrorKind::AlreadyExists)];
    assert_eq!((failed(&shared), files_and_bytes(&shared)), (expected.into(), (1, 7)));
    assert_eq!(server.requested(), Vec::<Vec<String>>::new());
}

#[tokio::test(start_paused = true)]
async fn files_are_queued_one_by_one_where_the_server_takes_no_streams() {
    let server = Streams::new([], [Ok(None)]);
    let folder = tempfile::tempdir().unwrap();
    let shared = sent(&server, folder.path(), &["d/a", "b"]).await;
    assert_eq!((server.sent().len(), failed(&shared)), (1, vec![]));
    let mut queued = Vec::new();
    while let Some((item, _)) = shared.next_small() {
        queued.push(item.path);
    }
    assert_eq!(queued, ["tree/d/a", "tree/b"]);
    assert_eq!(shared.results().summary().directories, 1);
}
