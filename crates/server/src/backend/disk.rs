//! A directory tree of this machine as a [`Backend`].
//!
//! Work that may wait for the disk runs on the runtime's blocking threads; `limits.disk_threads` is
//! their number, and further work waits in a queue. Long work gets a share of the threads
//! ([`ThreadShares`]), so that others are always left for short work: metadata, opening, one block
//! of a file. Its permit is released when the work has ended, also if the client left earlier. A
//! file whose name and inode the kernel has in memory is opened on the calling thread.

pub(crate) mod allocation;
pub(crate) mod batch;
pub(crate) mod checksums;
pub(crate) mod cleanup;
pub(crate) mod confined_dir;
pub(crate) mod copy;
pub(crate) mod lot_charging;
pub(crate) mod metadata;
pub(crate) mod namespace;
pub(crate) mod open_parts;
pub(crate) mod properties;
pub(crate) mod reader;
pub(crate) mod temp_file;
pub(crate) mod writer;

use crate::backend::blocking::{self, Cancellation};
use crate::backend::disk::checksums::ChecksumCache;
use crate::backend::disk::cleanup::CleanupAges;
use crate::backend::disk::confined_dir::{ConfinedDir, OpenEntry, is_link, is_missing, refused};
use crate::backend::disk::lot_charging::LotCharging;
use crate::backend::disk::reader::DiskReader;
use crate::backend::disk::writer::DiskWriter;
use crate::backend::error::{NOT_SERVED, UNFOLLOWED_LINK};
use crate::backend::{
    Backend, BackendError, BackendErrorKind, BackendFuture, BatchEntry, ChangeOptions,
    ChangePrecondition, Committed, CreateOptions, DeadProperties, Described, Details,
    DirectoryListing, EntryDescription, EntryMetadata, FileReader, FileVisitor, FileWriter,
    LinkFilter, Precondition, SpaceUsage, VisitedFile,
};
use hither_core::storage::FileKind;
use hither_http::propfind::PropertyUpdate;
use rustix::io::Errno;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::Semaphore;

/// The minimum number of threads, with which one is left for short work.
const MIN_THREADS: usize = 5;

/// The maximum number of entries that are listed as short work, so that small directories do not
/// wait for large ones.
const SHORT_LIST: usize = 1000;

/// The number of threads for these settings.
pub(crate) fn threads(disk_threads: usize) -> usize {
    disk_threads.max(MIN_THREADS)
}

/// Permits for work that may occupy a thread for long.
#[derive(Debug)]
pub(crate) struct ThreadShares {
    /// Work that ends when its result is on the disk: half of the threads.
    durable: Arc<Semaphore>,
    /// Copies, which need a permit for durable work, too: half of those.
    copies: Arc<Semaphore>,
    /// Lists of directories with many entries.
    lists: Arc<Semaphore>,
    /// Checksums of whole files: each occupies a disk and a processor.
    pub(crate) checksums: Arc<Semaphore>,
}

impl ThreadShares {
    fn of(threads: usize) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.max(1)));
        Self {
            durable: permits(threads / 2),
            copies: permits(threads / 4),
            lists: permits(threads / 8),
            checksums: permits((threads / 8).min(2)),
        }
    }
}

/// A directory tree of this machine.
#[derive(Debug, Clone)]
pub(crate) struct DiskBackend {
    tree: Arc<ConfinedDir>,
    lots: LotCharging,
    checksums: Arc<ChecksumCache>,
    shares: Arc<ThreadShares>,
}

impl DiskBackend {
    /// A backend that works with this number of threads.
    pub(crate) fn new(tree: ConfinedDir, lots: LotCharging, disk_threads: usize) -> Self {
        let shares = Arc::new(ThreadShares::of(threads(disk_threads)));
        let checksums = Arc::new(ChecksumCache::new(&shares.checksums));
        Self { tree: Arc::new(tree), lots, checksums, shares }
    }

    pub(crate) fn lots(&self) -> &LotCharging {
        &self.lots
    }

    /// Locks the private names in this tree for this server; see [`ConfinedDir::own_it`].
    pub(crate) fn own_it(&self) -> Option<File> {
        self.tree.own_it()
    }

    /// Removes stale temporary and partial files.
    pub(crate) async fn remove_stale(&self, ages: CleanupAges) -> Result<(), BackendError> {
        let lots = self.lots.clone();
        self.run(move |tree| {
            lots.sweep(tree, ages);
            Ok::<_, BackendError>(())
        })
        .await
    }

    /// Runs short `work` on a thread that may block.
    pub(crate) fn run<T, E, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, BackendError>> + Send + use<T, E, F>
    where
        F: FnOnce(&ConfinedDir) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<BackendError> + Send + 'static,
    {
        self.begin(move |tree, _| work(tree))
    }

    fn begin<T, E, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, BackendError>> + Send + use<T, E, F>
    where
        F: FnOnce(&ConfinedDir, &Cancellation) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<BackendError> + Send + 'static,
    {
        let tree = Arc::clone(&self.tree);
        let work = blocking::spawn(move |cancellation| work(&tree, cancellation));
        async move {
            match work.await {
                Ok(done) => done.map_err(Into::into),
                Err(_) => Err(BackendError::shutting_down()),
            }
        }
    }

    /// Runs long `work` when it gets a permit of each of these shares; it holds them to its end.
    async fn run_long<T, E, F>(
        &self,
        shares: &[&Arc<Semaphore>],
        work: F,
    ) -> Result<T, BackendError>
    where
        F: FnOnce(&ConfinedDir, &Cancellation) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<BackendError> + Send + 'static,
    {
        let mut permits = Vec::with_capacity(shares.len());
        for share in shares {
            let permit = Arc::clone(share).acquire_owned().await;
            permits.push(permit.map_err(|_| BackendError::shutting_down())?);
        }
        let work = move |tree: &ConfinedDir, cancellation: &Cancellation| {
            let done = work(tree, cancellation);
            drop(permits);
            done
        };
        self.begin(work).await
    }

    /// Runs `work`, which ends only when its result is on the disk.
    pub(crate) async fn run_durably<T, E, F>(&self, work: F) -> Result<T, BackendError>
    where
        F: FnOnce(&ConfinedDir) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<BackendError> + Send + 'static,
    {
        self.run_long(&[&self.shares.durable], move |tree, _| work(tree)).await
    }

    /// Runs `work`, which reads a whole file for its checksum.
    pub(crate) async fn run_checksum<T, F>(&self, work: F) -> Result<T, BackendError>
    where
        F: FnOnce(&Cancellation) -> io::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let share = &self.shares.checksums;
        self.run_long(&[share], move |_, cancellation| work(cancellation)).await
    }

    fn reader(&self, OpenEntry { file, meta }: OpenEntry) -> Arc<dyn FileReader> {
        Arc::new(DiskReader::new(file, meta, &self.checksums))
    }
}

impl Backend for DiskBackend {
    fn resolve<'a>(&'a self, path: &'a str) -> BackendFuture<'a, String> {
        let path = path.to_owned();
        Box::pin(self.run(move |tree| tree.resolve(&path)))
    }

    fn stat<'a>(&'a self, path: &'a str) -> BackendFuture<'a, EntryMetadata> {
        let path = path.to_owned();
        Box::pin(self.run(move |tree| tree.meta(&path).map(|meta| meta.entry(SystemTime::now()))))
    }

    fn list<'a>(&'a self, path: &'a str, max: usize) -> BackendFuture<'a, DirectoryListing> {
        let path = path.to_owned();
        let short = max.min(SHORT_LIST);
        let list = move |max| {
            let path = path.clone();
            move |tree: &ConfinedDir, cancellation: &Cancellation| {
                tree.entries(&path, max, cancellation)
            }
        };
        Box::pin(async move {
            let entries = self.begin(list(short)).await?;
            if entries.len() <= short || short == max {
                return Ok(entries.into());
            }
            Ok(self.run_long(&[&self.shares.lists], list(max)).await?.into())
        })
    }

    fn describe(
        &self,
        paths: Vec<String>,
        details: Details,
        links: LinkFilter,
    ) -> BackendFuture<'_, Vec<Option<Described>>> {
        let lots = self.lots.clone();
        Box::pin(self.begin(move |tree, cancellation| {
            let describe = |path: &String| {
                cancellation.check().map(|()| describe(tree, &lots, path, details, &links))
            };
            paths.iter().map(describe).collect::<io::Result<_>>()
        }))
    }

    fn open<'a>(&'a self, path: &'a str) -> BackendFuture<'a, Arc<dyn FileReader>> {
        if let Some(found) = self.tree.find_now(path) {
            return Box::pin(std::future::ready(Ok(self.reader(found))));
        }
        let path = path.to_owned();
        let found = self.run(move |tree| tree.find(&path));
        Box::pin(async move { found.await.map(|found| self.reader(found)) })
    }

    fn visit(&self, paths: Vec<String>, mut visitor: FileVisitor) -> BackendFuture<'_, ()> {
        Box::pin(self.begin(move |tree, cancellation| {
            for (index, path) in paths.iter().enumerate() {
                cancellation.check()?;
                let flow = match tree.find(path) {
                    Err(error) => visitor(index, Err(error.into())),
                    Ok(OpenEntry { file, meta }) => {
                        let metadata = meta.entry(SystemTime::now());
                        let mut read = |out: &mut [u8]| file.read_exact_at(out, 0);
                        visitor(index, Ok(VisitedFile { metadata: &metadata, read: &mut read }))
                    }
                };
                if flow.is_break() {
                    break;
                }
            }
            Ok::<_, io::Error>(())
        }))
    }

    fn create<'a>(
        &'a self,
        path: &'a str,
        options: CreateOptions,
    ) -> BackendFuture<'a, Arc<dyn FileWriter>> {
        let disk = self.clone();
        let path = path.to_owned();
        Box::pin(self.run(move |tree| {
            let writer = DiskWriter::create(&disk, tree, path, options)?;
            Ok::<_, BackendError>(Arc::new(writer) as Arc<dyn FileWriter>)
        }))
    }

    fn put_batch(
        &self,
        entries: Vec<BatchEntry>,
    ) -> BackendFuture<'_, Vec<Result<Committed, BackendError>>> {
        let disk = self.clone();
        let put = move |tree: &ConfinedDir, cancellation: &Cancellation| {
            batch::put(&disk, tree, entries, cancellation)
        };
        Box::pin(async move { self.run_long(&[&self.shares.durable], put).await })
    }

    fn rename<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        options: ChangeOptions,
    ) -> BackendFuture<'a, bool> {
        let lots = self.lots.clone();
        let from = from.to_owned();
        let to = to.to_owned();
        Box::pin(self.run_durably(move |tree| {
            let ChangeOptions { replace, modified, precondition } = options;
            let check = || check_change(tree, (&from, &to), &precondition);
            check()?;
            check_target(tree, &to, replace)?;
            // A client that writes a partial file completes it with this rename.
            tree.close_parts(&from)?;
            if let Some(modified) = modified {
                tree.find(&from)?.file.set_modified(modified)?;
            }
            lots.rename(tree, (&from, &to), replace, check)
        }))
    }

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        deep: bool,
        options: ChangeOptions,
        links: LinkFilter,
    ) -> BackendFuture<'a, bool> {
        let lots = self.lots.clone();
        let from = from.to_owned();
        let to = to.to_owned();
        let copy = move |tree: &ConfinedDir, cancellation: &Cancellation| {
            let ChangeOptions { replace, precondition, .. } = options;
            let check = || check_change(tree, (&from, &to), &precondition);
            check()?;
            check_target(tree, &to, replace)?;
            let links = deep.then_some(&links);
            lots.copy(tree, (&from, &to), (links, replace), check, cancellation)
        };
        Box::pin(
            async move { self.run_long(&[&self.shares.copies, &self.shares.durable], copy).await },
        )
    }

    fn remove<'a>(
        &'a self,
        path: &'a str,
        whole: bool,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()> {
        let lots = self.lots.clone();
        let path = path.to_owned();
        // A directory may have any number of entries.
        Box::pin(self.run_durably(move |tree| {
            let check = || check(tree, &path, &precondition);
            check()?;
            lots.remove(tree, &path, whole, check)
        }))
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a str,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()> {
        let path = path.to_owned();
        let lots = self.lots.clone();
        Box::pin(self.run_durably(move |tree| {
            lots.make_directory(tree, &path, || {
                let own = tree.own(&path)?;
                precondition(own.and_then(|own| own.target(SystemTime::now())).as_ref())
            })?;
            Ok::<_, BackendError>(tree.sync_name(&path)?)
        }))
    }

    fn set_properties<'a>(
        &'a self,
        path: &'a str,
        updates: Vec<PropertyUpdate>,
        precondition: Precondition,
    ) -> BackendFuture<'a, Option<EntryMetadata>> {
        let path = path.to_owned();
        Box::pin(self.run(move |tree| -> Result<_, BackendError> {
            let there = existing(tree, &path)?;
            precondition(there.as_ref())?;
            if !updates.is_empty() {
                properties::change(tree, &path, updates)?;
            }
            Ok(there)
        }))
    }

    fn probe(&self) -> BackendFuture<'_, Option<SpaceUsage>> {
        Box::pin(self.run(|tree| -> io::Result<Option<SpaceUsage>> {
            tree.probe()?;
            let (available, used) = tree.space("")?;
            Ok(Some(SpaceUsage { available, used }))
        }))
    }
}

fn describe(
    tree: &ConfinedDir,
    lots: &LotCharging,
    path: &str,
    details: Details,
    links: &LinkFilter,
) -> Option<Described> {
    let found = match tree.meta(path) {
        Err(error) if is_link(&error) => match tree.follow(path) {
            Ok((target, _)) if !links(&target) => Err(refused(UNFOLLOWED_LINK)),
            followed => followed.map(|(target, meta)| (Cow::Owned(target), meta)),
        },
        meta => meta.map(|meta| (Cow::Borrowed(path), meta)),
    };
    let (path, meta) = match found {
        Ok((_, meta)) if meta.kind == FileKind::Other => {
            return Some(Err(refused(NOT_SERVED).into()));
        }
        Ok(found) => found,
        // It is gone meanwhile.
        Err(error) if is_missing(&error) => return None,
        // Its name is still taken. Without it, clients would delete their copies.
        Err(error) => return Some(Err(error.into())),
    };
    let path = &*path;
    let wants_checksums = !details.checksums.is_empty() && meta.kind == FileKind::File;
    let mut checksums = Vec::new();
    let mut properties = DeadProperties::new();
    if (wants_checksums || details.properties)
        && let Ok(OpenEntry { file, .. }) = tree.find(path)
    {
        if wants_checksums {
            let stored = details.checksums.iter();
            checksums.extend(stored.filter_map(|one| checksums::stored(&file, &meta, *one)));
        }
        if details.properties {
            properties = properties::read(&file);
        }
    }
    let metadata = meta.entry(SystemTime::now());
    let space = || lots.quota(path).or_else(|| tree.space(path).ok());
    let space = details.space.then(space).flatten();
    let space = space.map(|(available, used)| SpaceUsage { available, used });
    Some(Ok(EntryDescription { metadata, checksums, properties, space }))
}

/// The metadata of an entry that has to exist; none for a link.
fn existing(tree: &ConfinedDir, path: &str) -> io::Result<Option<EntryMetadata>> {
    let own = tree.own(path)?.ok_or(Errno::NOENT)?;
    Ok(own.target(SystemTime::now()))
}

fn check(tree: &ConfinedDir, path: &str, precondition: &Precondition) -> Result<(), BackendError> {
    precondition(existing(tree, path)?.as_ref())
}

fn check_change(
    tree: &ConfinedDir,
    (from, to): (&str, &str),
    precondition: &ChangePrecondition,
) -> Result<(), BackendError> {
    let there = tree.own(to)?.and_then(|own| own.target(SystemTime::now()));
    precondition(existing(tree, from)?.as_ref(), there.as_ref())
}

/// Fails early if the target exists and may not be replaced.
fn check_target(tree: &ConfinedDir, path: &str, replace: bool) -> Result<(), BackendError> {
    if replace || tree.own(path)?.is_none() {
        return Ok(());
    }
    Err(BackendError::new(BackendErrorKind::AlreadyExists, "the destination exists"))
}
