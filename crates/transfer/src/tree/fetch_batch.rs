//! One batch: its files are requested together, written as they arrive, synced together, and
//! renamed.
//!
//! Files arrive while others are written by a thread that may block. At most one write of a batch
//! is in progress, and the memory of the files that wait for it counts in the job's budget.

use crate::copy::context::CopyContext;
use crate::destination::Target;
use crate::file::existing::{local_version, should_skip};
use crate::file::target::partial_file::{self, PartialFile};
use crate::file::version::FileVersion;
use crate::tree::small_files::{TreeBatch, TreeRoot};
use bytes::Bytes;
use hither_core::retry::{self, Failed, Retryable};
use hither_core::storage::{TreeEvent, TreeEvents, TreeFile, TreeRequest};
use hither_core::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tracing::debug;

/// The smallest write, in bytes, and in files.
const WRITE_BYTES: u64 = 1 << 20;
const WRITE_FILES: usize = 64;

/// A file that is written under its hidden name.
#[derive(Debug)]
struct Written {
    file: TreeFile,
    part: PartialFile,
}

/// A file that has arrived.
type Arrived = (TreeFile, Vec<Bytes>);
/// The files that were written, and those that could not be.
type WriteResult = (Vec<Written>, Vec<(TreeFile, Error)>);

/// A batch on its way.
struct BatchFetch<'a> {
    shared: &'a Arc<CopyContext>,
    root: &'a Arc<TreeRoot>,
    /// Files that have not come, by their path in the tree.
    missing: HashMap<String, TreeFile>,
    arrived: Vec<Arrived>,
    arrived_bytes: u64,
    writing: Option<(JoinHandle<WriteResult>, u64)>,
    written: Vec<Written>,
}

/// Copies the files of a batch. Failures are recorded.
pub(crate) async fn run(shared: &Arc<CopyContext>, batch: TreeBatch) {
    let TreeBatch { root, files } = batch;
    let files = without_skipped(shared, &root, files).await;
    if files.is_empty() {
        return;
    }
    let order: Vec<String> = files.iter().map(|file| file.relative.clone()).collect();
    let missing = files.into_iter().map(|file| (file.relative.clone(), file)).collect();
    let mut fetch = BatchFetch {
        shared,
        root: &root,
        missing,
        arrived: Vec::new(),
        arrived_bytes: 0,
        writing: None,
        written: Vec::new(),
    };
    let fetched = match root.local {
        Some(_) => fetch.copy(&order).await,
        None => {
            let requests = BatchRequests { batch: &mut fetch, order: &order };
            retry::run(&shared.resources.options.retry, &shared.resources.clock, requests).await
        }
    };
    fetch.settle().await;
    fetch.finish().await;
    if let Err(error) = fetched {
        for file in fetch.missing.into_values() {
            shared.results().failed(root.name_of(&file.relative), error.clone());
        }
    }
}

/// The files that are to be copied.
async fn without_skipped(
    shared: &Arc<CopyContext>,
    root: &Arc<TreeRoot>,
    files: Vec<TreeFile>,
) -> Vec<TreeFile> {
    let context = Arc::clone(shared);
    let tree = Arc::clone(root);
    let looked = spawn_blocking(move || {
        let mut left = Vec::with_capacity(files.len());
        for file in files {
            match is_skipped(&context, &tree, &file) {
                Ok(false) => left.push(file),
                Ok(true) => {
                    debug!(file = file.relative, "file skipped");
                    context.results().skipped(file.entry.counted_bytes());
                }
                Err(error) => context.results().failed(tree.name_of(&file.relative), error),
            }
        }
        left
    });
    looked.await.unwrap_or_else(|error| {
        shared.results().failed(root.name_of(""), panicked(error));
        Vec::new()
    })
}

fn is_skipped(shared: &CopyContext, root: &TreeRoot, file: &TreeFile) -> Result<bool> {
    let target = root.target_of(&file.relative)?;
    let Target::Local(path) = &target else { return Ok(false) };
    let known = shared.resources.journal.as_ref().and_then(|journal| journal.take(&target.name()));
    let version = FileVersion::of(&file.entry);
    let Some(seen) = local_version(path)? else { return Ok(false) };
    let times = root.storage.file_times();
    should_skip(shared.resources.options.existing, &target, &version, times, known.as_ref(), &seen)
}

/// The requests for the files of a batch, in this order, until all have come or failed.
struct BatchRequests<'a, 'b> {
    batch: &'a mut BatchFetch<'b>,
    order: &'a [String],
}

impl Retryable for BatchRequests<'_, '_> {
    type Done = ();

    async fn attempt(&mut self) -> Result<(), Failed> {
        let Self { batch, order } = self;
        while !batch.missing.is_empty() {
            let left = batch.missing.len();
            let paths = order.iter().filter(|path| batch.missing.contains_key(*path)).cloned();
            let request = TreeRequest::Contents(paths.collect());
            let received = match batch.root.storage.tree(&batch.root.directory, request).await {
                Ok(Some(mut events)) => batch.follow(&mut *events).await,
                Ok(None) => Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("{}: the server sends no trees any more", batch.root.name_of("")),
                )),
                Err(error) => Err(error),
            };
            let error = match received {
                Ok(()) if batch.missing.len() < left => continue,
                Ok(()) => Error::new(
                    ErrorKind::Protocol,
                    format!("{}: the tree lacks files", batch.root.name_of("")),
                ),
                Err(error) => error,
            };
            debug!(missing = batch.missing.len(), %error, "the batch broke off");
            return Err(Failed::from(error).after_progress(batch.missing.len() < left));
        }
        Ok(())
    }
}

impl BatchFetch<'_> {
    /// Copies the files of a tree on this machine.
    async fn copy(&mut self, order: &[String]) -> Result<()> {
        for paths in order.chunks(WRITE_FILES) {
            let files = paths.iter().filter_map(|path| self.missing.remove(path));
            let files: Vec<_> = files.map(|file| (file, Vec::new())).collect();
            self.written().await;
            let bytes = files.iter().map(|(file, _)| file.entry.counted_bytes()).sum();
            self.shared.results().note_arrived(bytes, bytes);
            self.start_writing(files, 0);
        }
        Ok(())
    }

    async fn follow(&mut self, events: &mut dyn TreeEvents) -> Result<()> {
        loop {
            // While the memory budget is used up, the connection is not read, and the waiting files
            // are written.
            if !self.shared.resources.budget.has_room() {
                self.settle().await;
                self.shared.resources.budget.room().await;
            }
            let some = events.next().await?;
            if some.is_empty() {
                return Ok(());
            }
            for event in some {
                self.take(event);
            }
            if self.arrived_bytes >= WRITE_BYTES || self.arrived.len() >= WRITE_FILES {
                self.write().await;
            }
        }
    }

    fn take(&mut self, event: TreeEvent) {
        match event {
            TreeEvent::Content(file, pieces) => {
                // The received entry is current; that of the walk may be older.
                let Some(walked) = self.missing.remove(&file.relative) else { return };
                let bytes = file.entry.counted_bytes();
                let walked_bytes = walked.entry.counted_bytes();
                if bytes != walked_bytes {
                    self.shared.resources.progress.found_bytes(bytes.saturating_sub(walked_bytes));
                    self.shared.resources.progress.done_bytes(walked_bytes.saturating_sub(bytes));
                }
                self.shared.results().note_arrived(bytes, bytes);
                self.shared.resources.budget.hold(bytes);
                self.arrived_bytes += bytes;
                self.arrived.push((file, pieces));
            }
            TreeEvent::Failed(path, error) => {
                if self.missing.remove(&path).is_some() {
                    self.shared.results().failed(self.root.name_of(&path), error);
                }
            }
            TreeEvent::LeftOut(path, reason) => {
                self.changed(&path, &format!("it is left out now ({reason})"));
            }
            TreeEvent::Directory(path) => self.changed(&path, "it is a directory now"),
            TreeEvent::File(file) => self.changed(&file.relative, "it has grown"),
        }
    }

    fn changed(&mut self, path: &str, how: &str) {
        if self.missing.remove(path).is_some() {
            let name = self.root.name_of(path);
            let message = format!("{name} changed while it was copied: {how}");
            self.shared.results().failed(name, Error::new(ErrorKind::Changed, message));
        }
    }

    /// Begins to write what has arrived, after the write before it.
    async fn write(&mut self) {
        self.written().await;
        let bytes = std::mem::take(&mut self.arrived_bytes);
        let files = std::mem::take(&mut self.arrived);
        self.start_writing(files, bytes);
    }

    fn start_writing(&mut self, files: Vec<Arrived>, held_bytes: u64) {
        let root = Arc::clone(self.root);
        let shared = Arc::clone(self.shared);
        let writing = spawn_blocking(move || write_files(&root, &shared, files));
        self.writing = Some((writing, held_bytes));
    }

    /// Waits for the write under way.
    async fn written(&mut self) {
        let Some((writing, bytes)) = self.writing.take() else { return };
        let written = writing.await;
        self.shared.resources.budget.release(bytes);
        match written {
            Ok((written, failed)) => {
                let done = written.iter().map(|one| one.file.entry.counted_bytes()).sum();
                self.shared.resources.progress.done_bytes(done);
                self.written.extend(written);
                for (file, error) in failed {
                    self.shared.results().failed(self.root.name_of(&file.relative), error);
                }
            }
            Err(error) => self.shared.results().failed(self.root.name_of(""), panicked(error)),
        }
    }

    /// Writes everything that has arrived.
    async fn settle(&mut self) {
        if !self.arrived.is_empty() {
            self.write().await;
        }
        self.written().await;
    }

    /// Syncs the written files, and renames them to their final names.
    async fn finish(&mut self) {
        let written = std::mem::take(&mut self.written);
        let devices: BTreeSet<_> = written.iter().filter_map(|one| one.part.device()).collect();
        for device in devices {
            let synced = self.shared.resources.group_sync.sync(device, None).await;
            if let Err(error) = synced {
                for one in written {
                    self.shared
                        .results()
                        .failed(self.root.name_of(&one.file.relative), error.clone());
                }
                return;
            }
        }
        let shared = Arc::clone(self.shared);
        let root = Arc::clone(self.root);
        let named = spawn_blocking(move || give_names(&shared, &root, written)).await;
        if let Err(error) = named {
            self.shared.results().failed(self.root.name_of(""), panicked(error));
        }
    }
}

pub(crate) fn panicked(error: JoinError) -> Error {
    Error::new(ErrorKind::Local, "a thread that reads or writes files panicked").with_source(error)
}

/// Writes files under their hidden names.
fn write_files(root: &TreeRoot, shared: &CopyContext, files: Vec<Arrived>) -> WriteResult {
    let mut written = Vec::with_capacity(files.len());
    let mut failed = Vec::new();
    for (file, pieces) in files {
        match write_file(root, shared, &file, &pieces) {
            Ok(part) => written.push(Written { file, part }),
            Err(error) => failed.push((file, error)),
        }
    }
    (written, failed)
}

fn write_file(
    root: &TreeRoot,
    shared: &CopyContext,
    file: &TreeFile,
    pieces: &[Bytes],
) -> Result<PartialFile> {
    let Target::Local(target) = root.target_of(&file.relative)? else {
        return Err(Error::new(ErrorKind::Invalid, "the target is not a file of this machine"));
    };
    let name = PartialFile::name(&target, &shared.resources.job);
    let TreeFile { entry, mode, relative } = file;
    let small = |mode: Option<u32>| {
        let mode = mode.map(|bits| shared.resources.file_mode(bits));
        PartialFile::small(&target, &name, entry.counted_bytes(), mode, entry.modified)
    };
    let Some(folder) = &root.local else {
        let part = small(*mode);
        part.write(0, pieces, &shared.resources.group_sync)?;
        return Ok(part);
    };
    let path = folder.join(relative);
    let failed = |error| partial_file::failed("cannot read", &path, error);
    let from = File::open(&path).map_err(failed)?;
    if entry.size == Some(0) && from.read_at(&mut [0], 0).is_ok_and(|read| read > 0) {
        let what = format!("{} has bytes although its size is said to be 0", path.display());
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    let part = small(Some(from.metadata().map_err(failed)?.mode()));
    part.copy_from((&from, &path), 0..entry.counted_bytes(), &shared.resources.group_sync)?;
    let FileVersion { size, modified, .. } = FileVersion::of(entry);
    let seen = local_version(&path)?;
    if seen.is_none_or(|seen| (seen.size, seen.modified) != (size, modified)) {
        part.remove();
        let what = format!("{} changed while it was copied", path.display());
        return Err(Error::new(ErrorKind::Changed, what));
    }
    Ok(part)
}

/// Gives files their names, and records them as done.
fn give_names(shared: &CopyContext, root: &TreeRoot, written: Vec<Written>) {
    let replace = shared.resources.options.existing.replaces();
    let mut done = Vec::with_capacity(written.len());
    for Written { file, part } in written {
        match part.finish(None, replace) {
            Ok(()) => done.push((file, part.target().to_owned())),
            Err(error) => {
                part.remove();
                shared.results().failed(root.name_of(&file.relative), error);
            }
        }
    }
    for (_, target) in &done {
        shared.results().note_folder(target.parent());
    }
    if let Some(journal) = &shared.resources.journal {
        let records = done.iter().map(|(file, target)| {
            let version = FileVersion::of(&file.entry);
            // The target has the time of the source.
            let FileVersion { size, modified, .. } = version;
            let seen = FileVersion { size, modified, ..FileVersion::default() };
            (target.display().to_string(), version, seen)
        });
        journal.done_together(records);
    }
    let mut tally = shared.results().summary();
    for (file, _) in &done {
        tally.files += 1;
        tally.bytes += file.entry.counted_bytes();
        shared.resources.progress.done_file();
    }
}
