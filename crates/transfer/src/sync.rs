//! A sync: makes a destination equal to a source.
//!
//! The comparison of both trees is the finder of a copy: files that differ are copied while it
//! still runs. Names that only the destination has are recorded, and deleted at the end, after
//! every copy.
//!
//! Nothing is deleted unless both trees were listed completely, every copy succeeded, the source
//! has at least one file, the deletions do not exceed the allowed number, and another listing of
//! the source shows none of the names ([`deletions`]).
//!
//! A crash at any moment is harmless because of the order of writes, and the same command continues
//! after it: the bytes of a file, then its name (replacing the old one in one step), then its
//! directory's list of names; when all files are done, the deletions; and last the removal of the
//! journal. So no version of a file that the source still has is ever missing, and a file that was
//! renamed in the source exists twice rather than not at all.

pub(crate) mod deletions;

use crate::compare::equality::{CompareBy, FileComparison, complete};
use crate::compare::tree_pair::{Side, TreePair};
use crate::compare::{DifferenceKind, Finding, TreeDifference, compare};
use crate::copy;
use crate::copy::context::CopyContext;
use crate::copy::queue::Queue;
use crate::copy::target_directory::{TargetDirectory, make_directory};
use crate::destination::CopyPath;
use crate::file::item::CopyItem;
use crate::journal::Journal;
use crate::options::{CopyOptions, OverwritePolicy, Verify};
use crate::progress::CopyProgress;
use crate::summary::{CopyFailure, CopySummary};
use crate::sync::deletions::Deletions;
use crate::tree::small_files::TreeRoot;
use futures_core::future::BoxFuture;
use hither_core::storage::{TreeFile, file_name};
use hither_core::sync::lock;
use hither_core::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

/// Options of a sync.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SyncOptions {
    /// The property by which files of the same size are compared.
    pub by: CompareBy,
    /// Deletes what only the destination has. Not by default.
    pub delete: bool,
    /// Most names to delete: if there are more, none is. A million by default, which take 200 MB
    /// of memory at the most.
    pub max_delete: usize,
    /// Only reports what would be done. Not by default.
    pub dry_run: bool,
    /// Filter, connections and journal, as of a copy; targets that differ are replaced.
    pub copy: CopyOptions,
}

impl Default for SyncOptions {
    fn default() -> Self {
        Self {
            by: CompareBy::default(),
            delete: false,
            max_delete: 1_000_000,
            dry_run: false,
            copy: CopyOptions::default(),
        }
    }
}

/// A sync that runs.
struct Sync {
    pair: TreePair,
    comparison: FileComparison,
    deletions: Mutex<Deletions>,
    /// The source has a file.
    has_files: AtomicBool,
}

/// Makes `target` equal to `source`, both directories; hands each difference to `found` when it is
/// known, in no order. Dropping the future stops the sync; the next one continues it.
///
/// # Errors
///
/// Errors of the job as a whole, as of [`crate::copy()`] and [`crate::check`]. Errors of single
/// files are in the summary.
pub async fn sync(
    source: CopyPath,
    target: CopyPath,
    options: SyncOptions,
    progress: Arc<CopyProgress>,
    found: impl Fn(&TreeDifference) + Send + std::marker::Sync + 'static,
) -> Result<CopySummary> {
    if matches!(options.copy.verify, Verify::Value(_)) {
        let message = "a checksum value was given, but it fits only a copy of one file";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut pair = TreePair::open(source, target).await?;
    pair.may_probe = !options.dry_run;
    let comparison = FileComparison::new(options.by, &options.copy, Arc::clone(&progress));
    let deletions = Mutex::new(Deletions::new(options.max_delete));
    let job = Arc::new(Sync { pair, comparison, deletions, has_files: AtomicBool::new(false) });
    if options.dry_run {
        return job.plan(&options, &progress, &found).await;
    }
    let shared = job.context(&options, progress)?;
    let delete = options.delete;
    let finder = Arc::clone(&job);
    let copies = Arc::clone(&shared);
    let mut finders = JoinSet::new();
    finders.spawn(async move {
        finder.find(&copies, delete, &found).await;
        copies.queue.found_all();
    });
    copy::run(&shared, finders).await;
    if delete {
        job.delete(&shared).await;
    }
    job.note_times(&mut shared.results().summary());
    copy::conclude(shared)
}

impl Sync {
    fn context(
        &self,
        options: &SyncOptions,
        progress: Arc<CopyProgress>,
    ) -> Result<Arc<CopyContext>> {
        let mut options = options.copy.clone();
        options.existing = OverwritePolicy::Replace;
        let TreePair { source, target, .. } = &self.pair;
        let name = format!("sync\n{}\n{}", source.name(), target.name());
        let mut notices = Vec::new();
        let folder = options.journal.as_ref();
        let opened = folder.map(|folder| Journal::open(folder, &name, &mut notices)).transpose()?;
        let mut journal = opened.flatten();
        if journal.as_ref().and_then(Journal::goes_into).is_none() {
            journal = journal.and_then(|journal| journal.begin(&name, false, &mut notices));
        }
        // Earlier copies are found by the comparison, and may have been undone since.
        journal.iter().for_each(Journal::forget_done);
        let queue = Queue::new(usize::MAX, 1);
        let context = CopyContext::new(&name, options, queue, journal, progress);
        context.results().summary().notices = notices;
        Ok(context)
    }

    /// Compares the trees, and queues the files that differ.
    async fn find(
        self: &Arc<Self>,
        shared: &Arc<CopyContext>,
        delete: bool,
        found: &(dyn Fn(&TreeDifference) + Send + std::marker::Sync),
    ) {
        let uploads = self.upload_root(shared).await.unwrap_or_else(|error| {
            shared.results().failed(self.pair.target.name(), error);
            None
        });
        let uploads = uploads.as_ref();
        let filter = &shared.resources.options.filter;
        let take = |finding| -> BoxFuture<'_, ()> {
            Box::pin(async move {
                match finding {
                    Finding::Equal => self.skipped(shared),
                    Finding::Differs(difference, directory) => {
                        if difference.kind != DifferenceKind::OnlyInTarget || delete {
                            found(&difference);
                        }
                        let path = difference.path.clone();
                        if let Err(error) =
                            self.differs(shared, difference, &directory, uploads).await
                        {
                            shared.results().failed(path, error);
                        }
                    }
                    Finding::Directory(Side::Target, path, _) => {
                        lock(&self.deletions).add_directory(path);
                    }
                    Finding::Directory(Side::Source, path, directory) => {
                        // With a filter, only directories of files that it includes are made.
                        let made = match uploads {
                            _ if !shared.resources.options.filter.is_empty() => Ok(()),
                            Some(uploads) => {
                                shared.queue.found_small(uploads.directory(&path)).await;
                                Ok(())
                            }
                            None => directory.make(shared.results()).await,
                        };
                        if let Err(error) = made {
                            shared.results().failed(path, error);
                        }
                    }
                    Finding::Kept(path) => lock(&self.deletions).keep(&path),
                    Finding::LeftOut(notice) => shared.results().note(notice),
                    Finding::Hidden(why) => {
                        shared.results().note_once(why.clone());
                        lock(&self.deletions).refuse(why);
                    }
                    Finding::Failed(path, error) => shared.results().failed(path, error),
                }
            })
        };
        compare(&self.pair, filter, &self.comparison, &shared.resources.progress, &take).await;
    }

    /// The tree of an upload in batches, in a directory that is there.
    async fn upload_root(&self, shared: &CopyContext) -> Result<Option<Arc<TreeRoot>>> {
        let TreePair { source, target, has_target, .. } = &self.pair;
        if target.local.is_some() || !has_target && !shared.resources.options.filter.is_empty() {
            return Ok(None);
        }
        if !has_target {
            // The response says whether the server takes uploads in batches.
            make_directory(shared.results(), &target.target(), true).await?;
        }
        shared.tree_of_files(source, &target.target())
    }

    fn skipped(&self, shared: &CopyContext) {
        self.has_files.store(true, Ordering::Relaxed);
        shared.results().summary().files_skipped += 1;
    }

    /// Copies a file, or records it for deletion.
    async fn differs(
        &self,
        shared: &Arc<CopyContext>,
        difference: TreeDifference,
        directory: &Arc<TargetDirectory>,
        uploads: Option<&Arc<TreeRoot>>,
    ) -> Result<()> {
        let TreeDifference { path, source, .. } = difference;
        let Some(mut entry) = source else {
            lock(&self.deletions).add_file(path);
            return Ok(());
        };
        self.has_files.store(true, Ordering::Relaxed);
        if let Some(uploads) = uploads.filter(|uploads| uploads.takes(&entry)) {
            let file = TreeFile { relative: path, entry, mode: None };
            shared.found_small(uploads, file).await;
            return Ok(());
        }
        let local = self.pair.source.below(&path).1;
        if self.pair.target.local.is_some() {
            // The copy gets this time, by which the next sync knows it.
            complete(&self.pair.source, &mut entry).await?;
        }
        let target = directory.target.join(file_name(&path))?;
        directory.make(shared.results()).await?;
        let item = CopyItem::listed(&self.pair.source.storage, entry, local, target);
        shared.found(CopyItem { directory: Some(Arc::clone(directory)), ..item }).await;
        Ok(())
    }

    /// Deletes the names that only the destination has, if that is safe.
    async fn delete(&self, shared: &CopyContext) {
        let deletions = std::mem::take(&mut *lock(&self.deletions));
        if deletions.found() == 0 || refuses(&mut shared.results().summary(), &deletions) {
            return;
        }
        let has_files = self.has_files.load(Ordering::Relaxed);
        if let Err(error) = deletions.check(has_files, &self.pair).await {
            shared
                .results()
                .summary()
                .failures
                .push(CopyFailure { source: self.pair.target.name(), error });
            return;
        }
        let removed = deletions.run(&self.pair.target).await;
        let mut tally = shared.results().summary();
        tally.files_deleted = removed.files;
        tally.directories_deleted = removed.directories;
        tally.notices.extend(removed.notices);
        tally.failures.extend(removed.failures);
    }

    /// Compares the trees, and counts the copies and deletions that would be made.
    async fn plan(
        &self,
        options: &SyncOptions,
        progress: &CopyProgress,
        found: &(dyn Fn(&TreeDifference) + Send + std::marker::Sync),
    ) -> Result<CopySummary> {
        let tally = Mutex::new(CopySummary::default());
        let take = |finding| -> BoxFuture<'_, ()> {
            let mut tally = lock(&tally);
            let mut deletions = lock(&self.deletions);
            match finding {
                Finding::Equal => tally.files_skipped += 1,
                Finding::Differs(difference, _) => {
                    if let Some(entry) = &difference.source {
                        tally.files += 1;
                        tally.bytes = tally.bytes.saturating_add(entry.counted_bytes());
                        found(&difference);
                    } else if options.delete {
                        deletions.add_file(difference.path.clone());
                        found(&difference);
                    }
                }
                Finding::Directory(Side::Source, ..) => {
                    tally.directories += u64::from(options.copy.filter.is_empty());
                }
                Finding::Directory(Side::Target, path, _) => deletions.add_directory(path),
                Finding::Kept(path) => deletions.keep(&path),
                Finding::LeftOut(notice) => tally.notices.push(notice),
                Finding::Hidden(why) => {
                    if !tally.notices.contains(&why) {
                        tally.notices.push(why.clone());
                    }
                    deletions.refuse(why);
                }
                Finding::Failed(source, error) => {
                    tally.failures.push(CopyFailure { source, error })
                }
            }
            Box::pin(std::future::ready(()))
        };
        let filter = &options.copy.filter;
        compare(&self.pair, filter, &self.comparison, progress, &take).await;
        let mut summary = std::mem::take(&mut *lock(&tally));
        summary.failures.extend(filter.missing());
        let deletions = std::mem::take(&mut *lock(&self.deletions));
        if options.delete && deletions.found() > 0 && !refuses(&mut summary, &deletions) {
            let has_files = summary.files + summary.files_skipped > 0;
            match deletions.check(has_files, &self.pair).await {
                Ok(()) => {
                    summary.files_deleted = deletions.files();
                    summary.directories_deleted = deletions.directories();
                }
                Err(error) => {
                    summary.failures.push(CopyFailure { source: self.pair.target.name(), error });
                }
            }
        }
        self.note_times(&mut summary);
        Ok(summary)
    }

    fn note_times(&self, summary: &mut CopySummary) {
        let number = self.comparison.without_times.load(Ordering::Relaxed);
        if number > 0 {
            let notice = format!(
                "{number} files were compared by size alone, because a server tells no times: compare checksums"
            );
            summary.notices.push(notice);
        }
    }
}

/// Returns true, with a notice, if something failed that might show why names are missing.
fn refuses(summary: &mut CopySummary, deletions: &Deletions) -> bool {
    let failed = summary.failures.len();
    if failed > 0 {
        summary.notices.push(format!(
            "nothing deleted, because {failed} names failed: {} are only at the destination",
            deletions.found()
        ));
    }
    failed > 0
}

#[cfg(test)]
mod tests;
