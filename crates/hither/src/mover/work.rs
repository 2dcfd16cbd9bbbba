//! The work of a lease.
//!
//! Files are copied into the lease's fence, a directory at the destination, under the names that
//! they will have below the target, and renamed from there when all are on the disk. A lease
//! changes files only by names within its fence. Before the coordinator gives the lease to another
//! node, it removes the fence. A node that was stopped or cut off meanwhile then finds none of
//! these names, and cannot create them again: neither file systems nor most servers create a file
//! in a missing directory. Where a server does, a file takes the place of the removed fence. Only
//! the first task of a lease may use its fence, because Dask may run a task twice: it claims the
//! fence by making the directory [`CLAIM`] in it. A fence without it is not the one that was made
//! for the lease.
//!
//! Ranges of one file go to one upload, which nodes share; see [`super::take_over`] for how it gets
//! its name.

use crate::client::Client;
use crate::copy::third_party::ThirdParty;
use crate::mover::lease::{LargeFile, Lease, LeaseResult, LeaseWork, ListedPath};
use crate::mover::share::LeaseLimits;
use crate::mover::take_over;
use bytes::Bytes;
use futures_util::stream::StreamExt;
use hither_checksum::{Algorithm, Checksum};
use hither_core::FileKind;
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_core::storage::{PutOptions, join, parent};
use hither_core::sync::lock;
use hither_transfer::{
    CopyOptions, CopyPath, CopyProgress, CopySummary, copy_listed, copy_range, source_name,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The directory by which a lease's task claims the fence.
const CLAIM: &str = ".hither-claim";
/// The pause before an operation is repeated at which the server has failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The interval at which a lease checks that it was not taken back: a fraction of a lease.
const FENCE_INTERVAL: Duration = Duration::from_secs(1);
/// The number of files that are renamed concurrently, each in two round trips.
const RENAMES: usize = 64;

/// Directories of targets that are known to exist.
pub(super) type MadeDirectories = Mutex<HashSet<String>>;

/// The source, target and fence of a lease.
pub(super) struct LeasePaths {
    pub(super) source: CopyPath,
    pub(super) target: CopyPath,
    pub(super) fence: CopyPath,
}

impl Client {
    pub(super) async fn carry_out(
        &self,
        lease: &Lease,
        limits: &LeaseLimits,
        made: &MadeDirectories,
        progress: &Arc<CopyProgress>,
    ) -> LeaseResult {
        let done = self.try_to_carry_out(lease, limits, made, progress).await;
        done.unwrap_or_else(|error| LeaseResult::failed(&error))
    }

    async fn try_to_carry_out(
        &self,
        lease: &Lease,
        limits: &LeaseLimits,
        made: &MadeDirectories,
        progress: &Arc<CopyProgress>,
    ) -> Result<LeaseResult> {
        let paths = LeasePaths {
            source: self.copy_path(&lease.source, &[])?,
            target: self.copy_path(&lease.target, &[])?,
            fence: self.copy_path(&lease.fence, &[])?,
        };
        let claim = join(&paths.fence.path, CLAIM);
        paths.fence.storage.make_directory(&claim).await?;
        tokio::select! {
            done = self.work(lease, limits, &paths, made, progress) => done,
            () = taken_back(&paths.fence) => {
                let what = "the lease was taken back while it was carried out";
                Err(Error::new(ErrorKind::Cancelled, what))
            }
        }
    }

    async fn work(
        &self,
        lease: &Lease,
        limits: &LeaseLimits,
        paths: &LeasePaths,
        made: &MadeDirectories,
        progress: &Arc<CopyProgress>,
    ) -> Result<LeaseResult> {
        let options = self.lease_options(lease, limits)?;
        match &lease.work {
            LeaseWork::Files { files, directories } => {
                let mut failures = NameFailures::default();
                for directory in directories {
                    let make = || make_directories(&paths.target, directory, made);
                    failures.record(&paths.fence, &[directory], make().await, make()).await?;
                }
                move_files(paths, files, failures, options, made, progress).await
            }
            LeaseWork::Begin { part } => {
                // The leases of ranges follow soon, and find open connections.
                let (path, _) = paths.source.below(&part.file.path);
                paths.source.storage.source(&path)?.preconnect(limits.connections);
                let token = begin(&self.copy_path(&part.aside, &[])?, part).await?;
                Ok(LeaseResult { token, ..LeaseResult::default() })
            }
            LeaseWork::Range { part, start, end } => {
                let entry = part.file.in_directory(&paths.source.path)?.entry;
                let (path, local) = paths.source.below(&part.file.path);
                let source = CopyPath { path, local, ..paths.source.clone() };
                let aside = self.copy_path(&part.aside, &[])?;
                let range = *start..*end;
                let token = part.token.clone();
                let copying =
                    copy_range(source, entry, range, aside, token, options, Arc::clone(progress));
                let summary = copying.await?;
                summary.error().map_or(Ok(()), Err)?;
                let sum = |algorithm| checksum(&summary, algorithm).map(Checksum::hex);
                let crc32c = sum(Algorithm::Crc32c);
                Ok(LeaseResult {
                    crc32c,
                    adler32: sum(Algorithm::Adler32),
                    notices: summary.notices,
                    ..LeaseResult::default()
                })
            }
            LeaseWork::Finish { part, epoch, ranges, is_shared } => {
                let aside = self.copy_path(&part.aside, &[])?;
                make_directories(&paths.target, parent(&part.file.path), made).await?;
                take_over::finish(paths, &aside, part, *epoch, ranges, *is_shared).await
            }
        }
    }

    fn lease_options(&self, lease: &Lease, limits: &LeaseLimits) -> Result<CopyOptions> {
        let mut options = self.copy_options();
        options.max_workers = limits.connections.clamp(1, options.max_workers);
        options.bandwidth = limits.bandwidth.clone();
        options.control = Arc::clone(&limits.control);
        if let Some(mode) = &lease.third_party {
            options.third_party = Some(self.third_party(mode.parse::<ThirdParty>()?));
        }
        Ok(options)
    }
}

/// Returns when the fence was removed, or replaced by a file: the work is useless then. This only
/// saves time and bytes; late work is harmless without it.
async fn taken_back(fence: &CopyPath) {
    loop {
        tokio::time::sleep(FENCE_INTERVAL).await;
        match fence.storage.stat(&fence.path).await {
            Ok(entry) if entry.kind == FileKind::File => return,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            _ => {}
        }
    }
}

/// Copies whole files into the fence, and gives them their names.
async fn move_files(
    paths: &LeasePaths,
    files: &[ListedPath],
    mut failures: NameFailures,
    options: CopyOptions,
    made: &MadeDirectories,
    progress: &Arc<CopyProgress>,
) -> Result<LeaseResult> {
    let LeasePaths { source, target, fence } = paths;
    let listed: Result<Vec<_>> = files.iter().map(|file| file.in_directory(&source.path)).collect();
    let copying =
        copy_listed(source.clone(), listed?, fence.clone(), options, Arc::clone(progress));
    let summary = copying.await?;
    let mut errors: HashMap<_, _> =
        summary.failures.into_iter().map(|failure| (failure.source, failure.error)).collect();
    let mut whole = Vec::new();
    for file in files {
        match errors.remove(&source_name(source, &file.path)) {
            Some(error) => failures.push(&file.path, &error),
            None => whole.push(&*file.path),
        }
    }
    // An error that is not one of a single file is one of the whole lease.
    if let Some(error) = errors.into_values().next() {
        return Err(error);
    }
    let mut ready = BTreeMap::<_, Vec<_>>::new();
    for path in whole {
        ready.entry(parent(path)).or_default().push(path);
    }
    let mut to_rename = Vec::new();
    for (directory, paths) in ready {
        let make = || make_directories(target, directory, made);
        if failures.record(fence, &paths, make().await, make()).await? {
            to_rename.extend(paths);
        }
    }
    if fence.local.is_none() {
        // A server may have made the fence again for a file in it, after it was removed.
        fence.storage.stat(&join(&fence.path, CLAIM)).await?;
    }
    let rename = async |path: &str| {
        let from = join(&fence.path, path);
        let to = join(&target.path, path);
        fence.storage.rename(&from, &to, true).await
    };
    let renaming = to_rename.iter().map(|path| async { (*path, rename(path).await) });
    let renamed: Vec<_> =
        futures_util::stream::iter(renaming).buffer_unordered(RENAMES).collect().await;
    for (path, done) in renamed {
        failures.record(fence, &[path], done, rename(path)).await?;
    }
    sync_directories(target, to_rename.into_iter());
    let failures = failures.names;
    Ok(LeaseResult { failures, notices: summary.notices, ..LeaseResult::default() })
}

/// Names of a lease that failed, each with the kind of the error and its message.
#[derive(Debug, Default)]
struct NameFailures {
    names: Vec<(String, String, String)>,
    /// A pause was made before an operation was repeated: one for all names.
    has_waited: bool,
}

/// Returns true for an error inside of the server that does not say that it is busy, and after
/// which nothing was changed.
fn is_internal(error: &Error) -> bool {
    let is_busy = matches!(error.retry(), Retry::Busy { .. } | Retry::Later { .. });
    error.kind() == ErrorKind::Unavailable && !is_busy && !error.may_have_been_carried_out()
}

impl NameFailures {
    fn push(&mut self, path: &str, error: &Error) {
        self.names.push((path.to_owned(), format!("{:?}", error.kind()), error.to_string()));
    }

    /// Records the failure of `paths` if it concerns them only; returns true if there is none. Any
    /// other failure is that of the lease.
    ///
    /// A name that is missing may be below a file at the target, or in a fence that was removed;
    /// an internal error of the server may be that of one name, or of all: the claim in the fence
    /// tells them apart. What the server has failed to do is repeated once. That is not a retry of
    /// a request (the retry policy has ended those): it decides whether names fail, and one pause
    /// serves all names of the lease.
    async fn record(
        &mut self,
        fence: &CopyPath,
        paths: &[impl AsRef<str> + Sync],
        done: Result<()>,
        repeat: impl Future<Output = Result<()>> + Send,
    ) -> Result<bool> {
        let Err(mut error) = done else { return Ok(true) };
        let has_claim = async || fence.storage.stat(&join(&fence.path, CLAIM)).await.is_ok();
        if !error.concerns_name() {
            if !is_internal(&error) || !has_claim().await {
                return Err(error);
            }
            if !std::mem::replace(&mut self.has_waited, true) {
                tokio::time::sleep(PAUSE).await;
            }
            match repeat.await {
                Ok(()) => return Ok(true),
                Err(again) => error = again,
            }
        }
        let is_certain = error.concerns_name() && error.kind() != ErrorKind::NotFound;
        let may_be_of_name = error.concerns_name() || is_internal(&error);
        if !may_be_of_name || !is_certain && !has_claim().await {
            return Err(error);
        }
        paths.iter().for_each(|path| self.push(path.as_ref(), &error));
        Ok(false)
    }
}

/// Begins an upload that several nodes write to. None if its storage does not support ranges, or is
/// not known to accept them from several clients.
///
/// An upload to a server may have no file there before the first bytes. A node that resumes it by
/// its token has to find one, so the last byte is written here, as a zero that its range replaces.
async fn begin(aside: &CopyPath, part: &LargeFile) -> Result<Option<String>> {
    if aside.storage.name().starts_with("root") {
        return Ok(None);
    }
    let file = part.file.in_directory("")?.entry;
    let size = part.file.bytes()?;
    let options =
        PutOptions { size, overwrite: true, modified: file.modified, ..PutOptions::default() };
    let upload = aside.storage.put(&aside.path, options).await?;
    let token = upload.token().filter(|_| upload.parallel() > 1 && upload.block_bytes() <= 1);
    match (&token, size.checked_sub(1)) {
        (Some(_), Some(last)) => upload.write(last, Bytes::from_static(b"\0")).await?,
        (Some(_), None) => {}
        (None, _) => upload.abort().await?,
    }
    Ok(token)
}

/// Makes the directory `relative` of `target` and its parents. A late node may do this, too: the
/// directories belong to the job.
pub(super) async fn make_directories(
    target: &CopyPath,
    relative: &str,
    made: &MadeDirectories,
) -> Result<()> {
    let ends = relative.match_indices('/').map(|(at, _)| at).chain([relative.len()]);
    for end in ends.filter(|end| *end > 0) {
        let path = join(&target.path, relative.get(..end).unwrap_or_default());
        let name = format!("{} {path}", target.storage.name());
        if lock(made).contains(&name) {
            continue;
        }
        match target.storage.make_directory(&path).await {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => lock(made).insert(name),
        };
    }
    Ok(())
}

/// Syncs the directories of renamed local files.
pub(super) fn sync_directories<'a>(target: &CopyPath, paths: impl Iterator<Item = &'a str>) {
    let Some(local) = &target.local else { return };
    for directory in paths.map(parent).collect::<BTreeSet<_>>() {
        // The files themselves are synced; not every file system can sync their names.
        let opened = std::fs::File::open(local.join(directory));
        drop(opened.and_then(|directory| directory.sync_all()));
    }
}

fn checksum(summary: &CopySummary, algorithm: Algorithm) -> Option<&Checksum> {
    let mut all = summary.checksums.iter().map(|it| &it.checksum);
    all.find(|checksum| checksum.algorithm() == algorithm)
}
