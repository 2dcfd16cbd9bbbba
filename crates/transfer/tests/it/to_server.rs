//! Uploads of small files in batches, to a storage that breaks off at given points.

use crate::local::{names_in, place};
use async_trait::async_trait;
use hither_core::storage::{
    PutOptions, StoredEntry, TreeEvent, TreeEvents, TreeFile, TreeRequest, TreeUpload, Upload,
};
use hither_core::{
    Delivery, DirEntry, Effect, Error, ErrorKind, Failure, FileKind, Listing, Result, Source,
    Storage,
};
use hither_transfer::{
    CopyOptions, CopyPath, CopyProgress, CopySummary, Destination, OverwritePolicy, copy,
};
use hither_transport::LocalStorage;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The end of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Good,
    /// The response is lost after all files were written.
    Lost,
    /// The connection breaks before any file was written.
    Broken,
    /// Results arrive for only this number of files.
    Short(usize),
    /// The storage does not accept uploads any more.
    Refused,
}

/// A folder that accepts uploads in batches, the first of which have the given endings.
#[derive(Debug)]
struct Taker {
    inner: LocalStorage,
    folder: PathBuf,
    endings: Mutex<Vec<Ending>>,
    uploads: AtomicUsize,
    /// Number of files that were sent.
    files: AtomicUsize,
    /// Stores names under other ones.
    renames: bool,
}

impl Taker {
    fn new(folder: &Path, endings: &[Ending]) -> Arc<Self> {
        let endings = endings.iter().rev().copied().collect();
        Arc::new(Self {
            inner: LocalStorage::new(folder, Arc::default()),
            folder: folder.to_owned(),
            endings: Mutex::new(endings),
            uploads: AtomicUsize::new(0),
            files: AtomicUsize::new(0),
            renames: false,
        })
    }

    /// The path under which a file or directory is stored.
    fn stored(&self, path: &str) -> String {
        if self.renames { path.replace('@', "-at-") } else { path.to_owned() }
    }

    fn place(self: &Arc<Self>) -> CopyPath {
        let storage = Arc::clone(self) as Arc<dyn Storage>;
        let path = "copy".to_owned();
        CopyPath { storage, path, local: None, is_directory: false, contents: false }
    }

    fn write(&self, directory: &str, upload: &TreeUpload) -> Result<StoredEntry> {
        let path = self.folder.join(directory).join(self.stored(&upload.relative));
        let is_new = fs::metadata(&path).is_err();
        let Some(content) = &upload.content else {
            fs::create_dir_all(&path).unwrap();
            let entry = DirEntry::new(&upload.relative, FileKind::Directory, 0);
            return Ok(StoredEntry { entry, is_new });
        };
        if !is_new && !upload.overwrite {
            return Err(Error::new(ErrorKind::AlreadyExists, "it is there"));
        }
        fs::write(&path, content).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(upload.modified.unwrap()).unwrap();
        Ok(StoredEntry { entry: self.entry(directory, &upload.relative).unwrap().entry, is_new })
    }

    fn entry(&self, directory: &str, relative: &str) -> Option<TreeFile> {
        let metadata =
            fs::metadata(self.folder.join(directory).join(self.stored(relative))).ok()?;
        let modified = metadata.modified().ok();
        let entry = DirEntry::new(relative, FileKind::File, metadata.len());
        let entry = DirEntry { modified, ..entry };
        Some(TreeFile { relative: relative.to_owned(), entry, mode: None })
    }
}

#[derive(Debug)]
struct Events(Vec<TreeEvent>);

#[async_trait]
impl TreeEvents for Events {
    async fn next(&mut self) -> Result<Vec<TreeEvent>> {
        Ok(std::mem::take(&mut self.0))
    }
}

#[async_trait]
impl Storage for Taker {
    fn name(&self) -> String {
        "http://taker".to_owned()
    }
    async fn stat(&self, path: &str) -> Result<DirEntry> {
        self.inner.stat(&self.stored(path)).await
    }
    async fn list(&self, path: &str) -> Result<Listing> {
        self.inner.list(&self.stored(path)).await
    }
    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        // Called to get the estimate of the link, also for directories.
        fs::write(self.folder.join("file"), b"").unwrap();
        self.inner.source("file")
    }
    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        self.inner.put(&self.stored(path), options).await
    }
    async fn make_directory(&self, path: &str) -> Result<()> {
        self.inner.make_directory(&self.stored(path)).await
    }
    fn has_trees(&self) -> bool {
        true
    }
    fn puts_trees(&self) -> bool {
        true
    }
    async fn tree(
        &self,
        directory: &str,
        request: TreeRequest,
    ) -> Result<Option<Box<dyn TreeEvents>>> {
        let TreeRequest::Entries(paths) = request else { return Ok(None) };
        let events = paths.into_iter().map(|path| match self.entry(directory, &path) {
            Some(file) => TreeEvent::File(file),
            None => TreeEvent::Failed(path, Error::new(ErrorKind::NotFound, "none")),
        });
        Ok(Some(Box::new(Events(events.collect()))))
    }
    async fn put_tree(
        &self,
        directory: &str,
        files: Vec<TreeUpload>,
    ) -> Result<Option<Vec<Result<StoredEntry>>>> {
        self.uploads.fetch_add(1, Ordering::Relaxed);
        let ending = self.endings.lock().unwrap().pop().unwrap_or(Ending::Good);
        let error = Error::new(ErrorKind::Unavailable, "the connection broke");
        let error = error.with_failure(Failure::Interrupted(Delivery::Sent));
        let error = error.with_effect(Effect::Change);
        if ending == Ending::Refused {
            return Ok(None);
        }
        if ending == Ending::Broken {
            return Err(error);
        }
        let count = files.iter().filter(|file| file.content.is_some()).count();
        self.files.fetch_add(count, Ordering::Relaxed);
        let mut results: Vec<_> = files.iter().map(|file| self.write(directory, file)).collect();
        match ending {
            Ending::Lost => return Err(error),
            Ending::Short(count) => results.truncate(count),
            _ => {}
        }
        Ok(Some(results))
    }
}

/// Forty files in four directories, and an empty directory.
fn tree(folder: &Path) -> CopyPath {
    let root = folder.join("tree");
    for number in 0..40 {
        let path = root.join(format!("d{}/e/{number}", number % 4));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![b'x'; number * 10]).unwrap();
    }
    fs::create_dir_all(root.join("empty/below")).unwrap();
    place(&root)
}

fn paths(root: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let mut waiting = vec![root.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = waiting.pop() {
        for name in names_in(&folder) {
            let path = folder.join(name);
            let content = fs::read(&path).ok();
            found.push((path.strip_prefix(root).unwrap().display().to_string(), content));
            waiting.extend(path.is_dir().then_some(path));
        }
    }
    found.sort();
    found
}

async fn sent(
    folder: &Path,
    existing: OverwritePolicy,
    endings: &[Ending],
) -> (CopySummary, Arc<Taker>) {
    let source = tree(folder);
    let there = folder.join("there");
    fs::create_dir_all(&there).unwrap();
    let taker = Taker::new(&there, endings);
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.existing = existing;
    options.journal = Some(folder.join("journal"));
    let progress = Arc::new(CopyProgress::default());
    let destination = Destination::Path(taker.place());
    let summary = copy(vec![source], destination, options, Arc::clone(&progress)).await.unwrap();
    let figures = progress.figures();
    assert_eq!((figures.files_found, figures.bytes_found), (40, 7800));
    assert_eq!(figures.bytes_done, summary.bytes);
    (summary, taker)
}

#[tokio::test]
async fn batches_that_break_off_are_sent_again() {
    use Ending::{Broken, Lost, Refused, Short};
    for endings in [
        &[][..],
        &[Lost, Lost],
        &[Broken, Lost, Broken],
        &[Short(0), Short(1), Short(3)],
        &[Refused],
        &[Lost, Refused, Refused],
    ] {
        let replace = OverwritePolicy::Replace;
        for existing in [replace, OverwritePolicy::Keep, OverwritePolicy::Refuse] {
            if endings.len() == 3 && endings[1] == Refused && existing != replace {
                // It is then unknown which client has created the existing files.
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let (summary, taker) = sent(folder.path(), existing, endings).await;
            let failures = &summary.failures;
            assert!(failures.is_empty(), "{endings:?}, {existing:?}: {failures:?}");
            assert_eq!((summary.files, summary.bytes, summary.files_skipped), (40, 7800, 0));
            assert_eq!(
                paths(&folder.path().join("tree")),
                paths(&folder.path().join("there/copy"))
            );
            if endings.is_empty() {
                assert_eq!(summary.directories, 11);
                assert_eq!(taker.files.load(Ordering::Relaxed), 40);
                assert_eq!(summary.bytes_resent, 0);
            }
        }
    }
}

#[tokio::test]
async fn a_batch_that_never_succeeds_fails_file_by_file_after_some_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let broken = [Ending::Broken; 1000];
    let (summary, taker) = sent(folder.path(), OverwritePolicy::Replace, &broken).await;
    let files = summary.failures.iter().filter(|failure| failure.source.contains("/e/")).count();
    assert_eq!((summary.files, files), (0, 40));
    let mut kinds = summary.failures.iter().map(|failure| failure.error.kind());
    assert!(kinds.all(|kind| kind == ErrorKind::Unavailable));
    assert!(taker.uploads.load(Ordering::Relaxed) <= 4 * 43, "{taker:?}");
}

#[tokio::test]
async fn files_that_were_there_before_are_not_taken_for_sent_ones() {
    for (existing, skipped, failed) in [
        (OverwritePolicy::Refuse, 0, 1),
        (OverwritePolicy::Keep, 1, 0),
        (OverwritePolicy::Replace, 0, 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there/copy/d0/e");
        fs::create_dir_all(&there).unwrap();
        fs::write(there.join("0"), b"another").unwrap();
        let source = CopyPath { contents: true, ..tree(folder.path()) };
        let taker = Taker::new(&folder.path().join("there"), &[Ending::Lost; 2]);
        let mut options = CopyOptions::default();
        (options.recursive, options.existing) = (true, existing);
        let destination = Destination::Path(taker.place());
        let summary = copy(vec![source], destination, options, Arc::default()).await.unwrap();
        let failures = &summary.failures;
        assert_eq!(
            (summary.files_skipped, failures.len() as u64),
            (skipped, failed),
            "{failures:?}"
        );
        assert_eq!(summary.files, 40 - skipped - failed, "{failures:?}");
    }
}

#[tokio::test]
async fn names_of_batches_that_the_server_stores_as_others_fail() {
    for name in ["me@home", "me@home/file", "d0/e/me@home"] {
        let folder = tempfile::tempdir().unwrap();
        let source = tree(folder.path());
        let path = folder.path().join("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"xxx").unwrap();
        let there = folder.path().join("there");
        fs::create_dir_all(&there).unwrap();
        let mut taker = Taker::new(&there, &[]);
        Arc::get_mut(&mut taker).unwrap().renames = true;
        let mut options = CopyOptions::default();
        options.recursive = true;
        let destination = Destination::Path(taker.place());
        let summary = copy(vec![source], destination, options, Arc::default()).await.unwrap();
        let failures = &summary.failures;
        assert_eq!(failures.len(), 1, "{name}: {failures:?}");
        assert_eq!(failures[0].error.kind(), ErrorKind::Invalid);
        assert!(failures[0].error.to_string().contains("another name"), "{failures:?}");
        assert_eq!(summary.files, 40 + u64::from(name == "me@home/file"));
        assert!(taker.uploads.load(Ordering::Relaxed) > 0);
    }
}
