//! The results of a copy, as its files and directories record them.

use crate::copy::resources::unseen::{UnseenName, UnseenUploads};
use crate::destination::Target;
use crate::destination::folding::is_plain;
use crate::file::version::FileVersion;
use crate::journal::Journal;
use crate::progress::CopyProgress;
use crate::summary::{CopyFailure, CopySummary, FileChecksum};
use hither_core::storage::{file_name, parent};
use hither_core::sync::lock;
use hither_core::{DirEntry, Error, SourceReport, Storage};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// The results of one copy.
#[derive(Debug)]
pub(crate) struct CopyResults {
    progress: Arc<CopyProgress>,
    summary: Mutex<CopySummary>,
    /// Local directories with new names in them, to be synced at the end.
    folders: Mutex<BTreeSet<PathBuf>>,
    unseen: UnseenUploads,
}

impl CopyResults {
    pub(crate) fn new(progress: Arc<CopyProgress>) -> Self {
        let unseen = UnseenUploads::default();
        Self { progress, summary: Mutex::default(), folders: Mutex::default(), unseen }
    }

    /// The summary so far.
    pub(crate) fn summary(&self) -> MutexGuard<'_, CopySummary> {
        lock(&self.summary)
    }

    /// The summary at the end.
    pub(crate) fn into_summary(self) -> CopySummary {
        self.summary.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a file that was copied, of `bytes`.
    pub(crate) fn copied(&self, bytes: u64) {
        let mut summary = self.summary();
        summary.files += 1;
        summary.bytes += bytes;
    }

    /// Records a file that could not be copied.
    pub(crate) fn failed(&self, source: String, error: Error) {
        warn!(file = source, %error, "file failed");
        self.progress.done_file();
        self.summary().failures.push(CopyFailure { source, error });
    }

    /// Records a file whose existing target is kept.
    pub(crate) fn skipped(&self, bytes: u64) {
        self.summary().files_skipped += 1;
        self.progress.done_bytes(bytes);
        self.progress.done_file();
    }

    /// Adds a notice.
    pub(crate) fn note(&self, notice: String) {
        self.summary().notices.push(notice);
    }

    /// Adds a notice that several files may have.
    pub(crate) fn note_once(&self, notice: String) {
        let mut summary = self.summary();
        if !summary.notices.contains(&notice) {
            summary.notices.push(notice);
        }
    }

    /// Records a directory that was made.
    pub(crate) fn note_directory(&self, target: &Target) {
        self.summary().directories += 1;
        self.note_folder(target.folder());
    }

    /// Notes that a local directory has new names in it.
    pub(crate) fn note_folder(&self, folder: Option<&Path>) {
        let Some(folder) = folder else { return };
        let mut folders = lock(&self.folders);
        if !folders.contains(folder) {
            folders.insert(folder.to_owned());
        }
    }

    /// Puts the names in local directories on the disk.
    pub(crate) fn sync_folders(&self) {
        for folder in lock(&self.folders).iter() {
            // The files themselves are synced; not every file system can sync their names.
            drop(std::fs::File::open(folder).and_then(|folder| folder.sync_all()));
        }
    }

    /// Adds the bytes and failed requests of each replica of a file.
    pub(crate) fn note_sources(&self, reports: Vec<SourceReport>) {
        let mut summary = self.summary();
        for report in reports {
            let (count, failures) = summary.sources.entry(report.name).or_default();
            *count += report.bytes;
            *failures += report.failures;
        }
    }

    pub(crate) fn note_checksum(&self, checked: FileChecksum) {
        self.summary().checksums.push(checked);
    }

    pub(crate) fn note_uploaded(&self, entry: DirEntry) {
        self.summary().last_uploaded = Some(entry);
    }

    /// Counts bytes that an earlier attempt has moved.
    pub(crate) fn note_resumed(&self, bytes: u64) {
        self.summary().bytes_resumed += bytes;
        self.progress.done_bytes(bytes);
    }

    /// Counts resumed bytes that turned out to be lost.
    pub(crate) fn note_lost(&self, bytes: u64) {
        let mut summary = self.summary();
        summary.bytes_resumed = summary.bytes_resumed.saturating_sub(bytes);
    }

    /// Counts bytes that are fetched once more.
    pub(crate) fn note_resent(&self, bytes: u64) {
        self.summary().bytes_resent += bytes;
    }

    /// Counts `bytes` that arrived; `taken` is the number of new ones among them.
    pub(crate) fn note_arrived(&self, bytes: u64, taken: u64) {
        self.progress.arrived(bytes, bytes.saturating_sub(taken));
    }

    /// Adds an upload that has its name, or a directory, that is not confirmed by a listing yet.
    pub(crate) fn note_unseen(&self, storage: &Arc<dyn Storage>, file: UnseenName) {
        self.unseen.add(storage, file);
    }

    /// Adds a file or directory of a tree that was written, if its name is unusual: a listing shows
    /// at the end which name it has there.
    pub(crate) fn note_name(
        &self,
        target: &Target,
        source: String,
        file: Option<(FileVersion, u64)>,
    ) {
        if let Target::Remote(storage, path) = target
            && !is_plain(file_name(path))
        {
            let key = target.name();
            let path = path.clone();
            self.note_unseen(storage, UnseenName { source, key, path, file, has_size: true });
        }
    }

    /// Checks the uploads that are not confirmed yet: at the `end` of the job, or when there are
    /// many of them. Those that are missing, have a wrong size or are stored under another name
    /// fail; the others are recorded in the `journal`.
    pub(crate) async fn confirm_unseen(&self, end: bool, journal: Option<&Journal>) {
        let mut suspected = BTreeSet::new();
        for (name, seen) in self.unseen.look(end).await {
            let done = seen.and_then(|seen| {
                name.check(&seen)?;
                if let (Some((version, _)), false) = (&name.file, name.has_size) {
                    let seen = FileVersion::of(&seen);
                    journal.iter().for_each(|it| it.done(&name.key, version, &seen));
                }
                Ok(())
            });
            if let Err(error) = done {
                if let Some((_, size)) = name.file {
                    let mut summary = self.summary();
                    summary.files = summary.files.saturating_sub(1);
                    summary.bytes = summary.bytes.saturating_sub(size);
                }
                suspected.insert(parent(&name.key).to_owned());
                self.failed(name.source, error);
            }
        }
        // One of the names may have replaced the file of another one.
        suspected.iter().for_each(|it| journal.iter().for_each(|journal| journal.forget(it)));
    }
}
