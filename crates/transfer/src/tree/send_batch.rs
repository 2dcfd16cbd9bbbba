//! One batch of an upload: its files are read, sent in one request with their directories, and
//! recorded as done by the server's results.
//!
//! Workers read their batches while those of others are in transit. A result is final: the server
//! has the file on its disk. If a request breaks off, files without a result are sent again. If
//! existing files may not be replaced, the entries of those that conflict are requested.

use crate::copy::context::CopyContext;
use crate::copy::target_directory::Directories;
use crate::destination::Target;
use crate::file::existing::should_skip;
use crate::file::item::CopyItem;
use crate::file::target::partial_file;
use crate::file::version::FileVersion;
use crate::journal::Known;
use crate::options::OverwritePolicy;
use crate::tree::fetch_batch::panicked;
use crate::tree::small_files::{MAX_BYTES, TreeBatch, TreeRoot};
use bytes::Bytes;
use hither_core::retry::{self, Failed, Retryable};
use hither_core::storage::{
    MAX_SMALL_BYTES, MAX_TREE_PATHS, StoredEntry, TreeEvent, TreeFile, TreeRequest, TreeUpload,
    parent,
};
use hither_core::{Delivery, DirEntry, Error, ErrorKind, Failure, FileKind, Result, Storage};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::future::poll_fn;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::debug;

/// The number of times that a file is read until it does not change meanwhile.
const READS: usize = 3;

/// A batch that is sent.
struct BatchUpload<'a> {
    shared: &'a Arc<CopyContext>,
    root: &'a Arc<TreeRoot>,
    storage: &'a Arc<dyn Storage>,
    directory: &'a str,
    /// A request broke off: some files may be stored already.
    is_again: bool,
}

/// A part of a batch that was read.
#[derive(Default)]
struct ReadFiles {
    uploads: Vec<TreeUpload>,
    /// The files and directories of `uploads`. A directory that is sent only for its contents is
    /// marked.
    sent: Vec<(TreeFile, bool)>,
    bytes: u64,
    /// Files for the next request.
    later: Vec<TreeFile>,
    /// Files that have grown too large for a batch.
    large: Vec<TreeFile>,
    failed: Vec<(TreeFile, Error)>,
}

/// The entries at some paths, without those that do not exist.
type Entries = HashMap<String, Result<DirEntry>>;

/// Copies the files of a batch. Failures are recorded.
pub(crate) async fn run(shared: &Arc<CopyContext>, TreeBatch { root, files }: TreeBatch) {
    let Target::Remote(storage, directory) = &root.target else { return };
    let batch = BatchUpload { shared, root: &root, storage, directory, is_again: false };
    let waiting = batch.without_skipped(files).await;
    let mut requests = BatchRequests { batch, waiting };
    if let Err(error) =
        retry::run(&shared.resources.options.retry, &shared.resources.clock, &mut requests).await
    {
        for file in requests.waiting {
            shared.results().failed(root.name_of(&file.relative), error.clone());
        }
    }
}

/// The requests that send the files of a batch.
struct BatchRequests<'a> {
    batch: BatchUpload<'a>,
    /// Files without a result.
    waiting: Vec<TreeFile>,
}

impl Retryable for &mut BatchRequests<'_> {
    type Done = ();

    async fn attempt(&mut self) -> Result<(), Failed> {
        while !self.waiting.is_empty() {
            let before = self.waiting.len();
            let (left, ended) = self.batch.send(std::mem::take(&mut self.waiting)).await;
            self.waiting = left;
            if let Err(error) = ended {
                self.batch.is_again = true;
                debug!(files = self.waiting.len(), %error, "the batch broke off");
                // The results of the next request name the files that conflict.
                return Err(Failed::looking(error).after_progress(self.waiting.len() < before));
            }
        }
        Ok(())
    }
}

impl BatchUpload<'_> {
    /// The files that are to be copied.
    async fn without_skipped(&self, files: Vec<TreeFile>) -> Vec<TreeFile> {
        let Self { shared, root, .. } = self;
        let asks = matches!(
            shared.resources.options.existing,
            OverwritePolicy::Keep | OverwritePolicy::Update
        );
        let mut left = Vec::with_capacity(files.len());
        let mut unknown: Vec<(TreeFile, Option<Known>)> = Vec::new();
        for file in files {
            let target = root.target_of(&file.relative);
            let journal =
                shared.resources.journal.as_ref().filter(|_| file.entry.kind == FileKind::File);
            let known = journal.zip(target.ok()).and_then(|(it, target)| it.take(&target.name()));
            let is_done = known.as_ref().is_some_and(|known| known.done.is_some());
            if file.entry.kind == FileKind::File && (asks || is_done) {
                unknown.push((file, known));
            } else {
                left.push(file);
            }
        }
        if unknown.is_empty() {
            return left;
        }
        let paths = unknown.iter().map(|(file, _)| file.relative.clone()).collect();
        let mut entries = self.entries(paths).await;
        for (file, known) in unknown {
            let seen = match &mut entries {
                Ok(entries) => entries.remove(&file.relative).transpose(),
                Err(error) => Err(error.clone()),
            };
            match seen.and_then(|seen| self.is_skipped(&file, known.as_ref(), seen)) {
                Ok(true) => {
                    debug!(file = file.relative, "file skipped");
                    shared.results().skipped(file.entry.counted_bytes());
                }
                Ok(false) => left.push(file),
                Err(error) => shared.results().failed(root.name_of(&file.relative), error),
            }
        }
        left
    }

    fn is_skipped(
        &self,
        file: &TreeFile,
        known: Option<&Known>,
        seen: Option<DirEntry>,
    ) -> Result<bool> {
        let Some(seen) = seen else { return Ok(false) };
        let target = self.root.target_of(&file.relative)?;
        let version = FileVersion::of(&file.entry);
        let times = self.root.storage.file_times();
        should_skip(
            self.shared.resources.options.existing,
            &target,
            &version,
            times,
            known,
            &FileVersion::of(&seen),
        )
    }

    /// Requests the entries at some paths.
    async fn entries(&self, paths: Vec<String>) -> Result<Entries> {
        let attempt = || async {
            match self.ask(paths.clone()).await {
                // The directory is not there yet.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Entries::new()),
                entries => Ok(entries?),
            }
        };
        retry::run(&self.shared.resources.options.retry, &self.shared.resources.clock, attempt)
            .await
    }

    async fn ask(&self, paths: Vec<String>) -> Result<Entries> {
        let mut entries = Entries::new();
        let request = TreeRequest::Entries(paths);
        let Some(mut events) = self.storage.tree(self.directory, request).await? else {
            let what = format!("{}: the server sends no trees any more", self.root.target.name());
            return Err(Error::new(ErrorKind::Unsupported, what));
        };
        loop {
            let some = events.next().await?;
            if some.is_empty() {
                return Ok(entries);
            }
            for event in some {
                let (path, entry) = match event {
                    TreeEvent::File(file) | TreeEvent::Content(file, _) => {
                        (file.relative, Ok(file.entry))
                    }
                    TreeEvent::Failed(_, error) if error.kind() == ErrorKind::NotFound => continue,
                    TreeEvent::Failed(path, error) => (path, Err(error)),
                    TreeEvent::Directory(path) | TreeEvent::LeftOut(path, _) => {
                        let name = self.root.target_of(&path)?.name();
                        let what = format!("{name} is not a file, expected a file or nothing");
                        (path, Err(Error::new(ErrorKind::Invalid, what)))
                    }
                };
                entries.insert(path, entry);
            }
        }
    }

    /// Sends as many files as fit into a request. Returns the remaining files, and the reason if
    /// the request ended early.
    async fn send(&self, files: Vec<TreeFile>) -> (Vec<TreeFile>, Result<()>) {
        let shared = self.shared;
        let bytes = files.iter().map(|file| file.entry.counted_bytes()).sum();
        let began = Instant::now();
        poll_fn(|context| shared.resources.budget.poll_room(context)).await;
        shared.resources.progress.fetch.blocked(began.elapsed());
        // Before they are read, so that not all workers begin to.
        shared.resources.budget.hold(bytes);
        let sent = self.send_now(files).await;
        shared.resources.budget.release(bytes);
        sent
    }

    async fn send_now(&self, files: Vec<TreeFile>) -> (Vec<TreeFile>, Result<()>) {
        let Self { shared, root, .. } = self;
        let began = Instant::now();
        let tree = Arc::clone(root);
        let replace = shared.resources.options.existing.replaces();
        let read = match spawn_blocking(move || read_files(&tree, files, replace)).await {
            Ok(read) => read,
            Err(error) => {
                shared.results().failed(root.name_of(""), panicked(error));
                return (Vec::new(), Ok(()));
            }
        };
        shared.resources.progress.fetch.busy(began.elapsed());
        let ReadFiles { uploads, sent, bytes, mut later, large, failed } = read;
        for (file, error) in failed {
            shared.results().failed(root.name_of(&file.relative), error);
        }
        if !large.is_empty() {
            self.alone(large).await;
        }
        if uploads.is_empty() {
            return (later, Ok(()));
        }
        shared.results().note_arrived(bytes, if self.is_again { 0 } else { bytes });
        let began = Instant::now();
        let results = self.storage.put_tree(self.directory, uploads).await;
        shared.resources.progress.write.busy(began.elapsed());
        let (left, ended) = match results {
            Ok(Some(results)) => self.take(sent, results).await,
            Ok(None) => {
                later.extend(files_of(sent));
                self.alone(later).await;
                return (Vec::new(), Ok(()));
            }
            Err(error) => (files_of(sent), Err(error)),
        };
        later.extend(left);
        (later, ended)
    }

    /// Records the results of a request. Returns the files without a result.
    async fn take(
        &self,
        sent: Vec<(TreeFile, bool)>,
        results: Vec<Result<StoredEntry>>,
    ) -> (Vec<TreeFile>, Result<()>) {
        let Self { shared, root, .. } = self;
        let mut results = results.into_iter();
        let mut done = Vec::with_capacity(sent.len());
        let mut in_the_way = Vec::new();
        let mut not_made: HashMap<String, Error> = HashMap::new();
        let mut left = Vec::new();
        for (file, is_parent) in sent {
            let is_directory = file.entry.kind == FileKind::Directory;
            match results.next() {
                None => left.push((file, is_parent)),
                Some(Ok(stored)) if is_directory => {
                    shared.results().summary().directories += u64::from(stored.is_new);
                    root.note_name(shared.results(), &file);
                }
                Some(Ok(stored)) => done.push((file, stored.entry)),
                Some(Err(error)) if is_parent => {
                    not_made.insert(file.relative, error);
                }
                Some(Err(error)) if self.is_again && error.kind() == ErrorKind::AlreadyExists => {
                    in_the_way.push((file, error));
                }
                Some(Err(error)) => {
                    let mut parents = parents(&file.relative);
                    let is_missing = error.kind() == ErrorKind::NotFound;
                    let reason = parents.find_map(|it| not_made.get(it)).filter(|_| is_missing);
                    let error = reason.cloned().unwrap_or(error);
                    shared.results().failed(root.name_of(&file.relative), error);
                }
            }
        }
        if !in_the_way.is_empty() {
            self.look(in_the_way, &mut done).await;
        }
        self.done(&done);
        shared.results().confirm_unseen(false, shared.resources.journal.as_ref()).await;
        if left.is_empty() {
            return (Vec::new(), Ok(()));
        }
        let what = format!("{}: the server stopped within the upload", root.target.name());
        let error = Error::new(ErrorKind::Unavailable, what);
        (files_of(left), Err(error.with_failure(Failure::Interrupted(Delivery::Sent))))
    }

    /// Adds the files to `done` that conflict because an earlier request has written them.
    async fn look(&self, in_the_way: Vec<(TreeFile, Error)>, done: &mut Vec<(TreeFile, DirEntry)>) {
        let paths = in_the_way.iter().map(|(file, _)| file.relative.clone()).collect();
        let mut entries = self.entries(paths).await.unwrap_or_default();
        for (file, error) in in_the_way {
            let entry = entries.remove(&file.relative).and_then(Result::ok);
            let is_own = |it: &DirEntry| {
                it.size == file.entry.size
                    && it.modified.is_some()
                    && it.modified == file.entry.modified
            };
            match entry.filter(is_own) {
                Some(entry) => done.push((file, entry)),
                None => self.shared.results().failed(self.root.name_of(&file.relative), error),
            }
        }
    }

    /// Records files as done, each with its entry at the target.
    fn done(&self, files: &[(TreeFile, DirEntry)]) {
        let Self { shared, root, .. } = self;
        if let Some(journal) = &shared.resources.journal {
            let records = files.iter().filter_map(|(file, entry)| {
                let target = root.target_of(&file.relative).ok()?;
                Some((target.name(), FileVersion::of(&file.entry), FileVersion::of(entry)))
            });
            journal.done_together(records);
        }
        files.iter().for_each(|(file, _)| root.note_name(shared.results(), file));
        let mut tally = shared.results().summary();
        for (file, _) in files {
            tally.files += 1;
            tally.bytes += file.entry.counted_bytes();
            shared.resources.progress.done_bytes(file.entry.counted_bytes());
            shared.resources.progress.done_file();
        }
    }

    /// Makes directories, and queues files, one by one.
    async fn alone(&self, files: Vec<TreeFile>) {
        let Self { shared, root, .. } = self;
        let mut directories = Directories::new(root.target.clone());
        let mut items = Vec::with_capacity(files.len());
        for file in files {
            let name = root.name_of(&file.relative);
            let is_directory = file.entry.kind == FileKind::Directory;
            let path = if is_directory { &*file.relative } else { parent(&file.relative) };
            let ready = async { directories.of(path)?.make(shared.results()).await };
            match ready.await.and_then(|()| root.item(file)) {
                Err(error) => shared.results().failed(name, error),
                Ok(_) if is_directory => {}
                Ok(item) => items.push(CopyItem { is_small: shared.is_small(&item), ..item }),
            }
        }
        shared.queue.give_back(items);
    }
}

/// Files that were to be sent, without the directories that were sent for them.
fn files_of(sent: Vec<(TreeFile, bool)>) -> Vec<TreeFile> {
    sent.into_iter().filter(|(_, is_parent)| !is_parent).map(|(file, _)| file).collect()
}

/// The directories that a path is in, from the top.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(end, _)| path.get(..end))
}

/// Reads files, as many as fit into a request, each after the directories that it is in.
fn read_files(root: &TreeRoot, files: Vec<TreeFile>, overwrite: bool) -> ReadFiles {
    let mut read = ReadFiles::default();
    let mut parents_sent = HashSet::new();
    let upload = |file: &TreeFile, content| TreeUpload {
        relative: file.relative.clone(),
        content,
        modified: file.entry.modified,
        mode: file.mode,
        overwrite,
    };
    let mut files = files.into_iter();
    while let Some(mut file) = files.next() {
        if parents_sent.contains(&file.relative) {
            continue;
        }
        let missing: Vec<_> =
            parents(&file.relative).filter(|path| !parents_sent.contains(*path)).collect();
        if read.uploads.len() + missing.len() >= MAX_TREE_PATHS || read.bytes > MAX_BYTES {
            read.later.push(file);
            read.later.extend(files);
            break;
        }
        let missing: Vec<_> = missing.into_iter().map(str::to_owned).collect();
        let content = match (file.entry.kind, &root.local) {
            (FileKind::File, Some(local)) => {
                match read_file(&local.join(&file.relative), &mut file) {
                    Ok(Some(content)) => Some(content),
                    Ok(None) => {
                        read.large.push(file);
                        continue;
                    }
                    Err(error) => {
                        read.failed.push((file, error));
                        continue;
                    }
                }
            }
            _ => None,
        };
        for relative in missing {
            let entry = DirEntry::new(relative.clone(), FileKind::Directory, 0);
            let parent = TreeFile { relative: relative.clone(), entry, mode: None };
            read.uploads.push(upload(&parent, None));
            read.sent.push((parent, true));
            parents_sent.insert(relative);
        }
        read.bytes += content.as_ref().map_or(0, |content| content.len() as u64);
        read.uploads.push(upload(&file, content));
        read.sent.push((file, false));
    }
    read
}

/// Reads a file, and returns it with the entry of the version that was read; none if it has grown
/// too large.
fn read_file(path: &Path, file: &mut TreeFile) -> Result<Option<Bytes>> {
    let failed = |error| partial_file::failed("cannot read", path, error);
    for _ in 0..READS {
        let mut open = File::open(path).map_err(failed)?;
        let before = open.metadata().map_err(failed)?;
        let size = before.len();
        if size > MAX_SMALL_BYTES {
            return Ok(None);
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
        (&mut open).take(size + 1).read_to_end(&mut content).map_err(failed)?;
        let after = open.metadata().map_err(failed)?;
        let modified = after.modified().ok();
        if content.len() as u64 == size && after.len() == size && before.modified().ok() == modified
        {
            if (file.entry.size, file.entry.modified) != (Some(size), modified) {
                file.entry = DirEntry {
                    modified,
                    ..DirEntry::new(file.entry.path.clone(), FileKind::File, size)
                };
            }
            file.mode = Some(after.permissions().mode() & 0o777);
            return Ok(Some(content.into()));
        }
    }
    let what = format!("{} changed while it was copied", path.display());
    Err(Error::new(ErrorKind::Changed, what))
}
