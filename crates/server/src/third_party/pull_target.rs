//! Where a file that is fetched comes to be: a storage for one copy, into which a file without a name is written.
//!
//! Space is taken as for a PUT ([`crate::space`], [`crate::backend::tree::TempFile`]): before the client is answered, if the size is known
//! by then. Pieces may be written in any order. What is counted as being here is on disk, not in the kernel's memory.

use crate::backend::disk::lot_charging::WriteCharge;
use crate::backend::disk::temp_file::TempFile;
use crate::backend::path::NamespacePath;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::no_parent;
use crate::method::put::{DiskWriter, too_large};
use crate::third_party::copier::local_error;
use crate::third_party::perf_markers::CopyProgress;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, PutOptions, Storage, Upload};
use hither_core::sync::lock;
use hither_core::{Algorithm, Checksum, Source};
use hither_transport::HttpSource;
use http::{HeaderMap, StatusCode};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// See the module above.
#[derive(Debug)]
pub(crate) struct PullTarget {
    context: Arc<ServerContext>,
    place: NamespacePath,
    /// Pieces at a time.
    streams: usize,
    source: Arc<HttpSource>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Begun>,
    /// What was begun last, also when it has its name.
    open: Option<Arc<Open>>,
    /// The checksum of what was written, when it is whole.
    sum: Option<Checksum>,
}

/// A file that is being written.
#[derive(Debug)]
struct Begun {
    size: u64,
    taken: WriteCharge,
    upload: TempFile,
}

/// The same for those who write and count.
#[derive(Debug)]
struct Open {
    file: File,
    written: AtomicU64,
    /// Bytes of that which are on the disk.
    synced: AtomicU64,
}

impl PullTarget {
    /// A file that will be at `place`, read from `source` with as many `streams`.
    pub(crate) fn new(
        context: Arc<ServerContext>,
        place: NamespacePath,
        source: Arc<HttpSource>,
        streams: usize,
    ) -> Self {
        Self { context, place, streams, source, state: Mutex::default() }
    }

    /// The name that it will have.
    pub(crate) fn path(&self) -> &str {
        self.place.path()
    }

    /// Takes the space for a file of `size` bytes.
    pub(crate) async fn begin(&self, size: u64) -> Result<(), HttpError> {
        let limit = self.context.limits().file_bytes.unwrap_or(u64::MAX);
        if size > limit {
            return Err(too_large(limit));
        }
        let taken = self.context.space.take(self.place.path(), size)?;
        let (directory, _) = self.place.split().unwrap_or_default();
        let directory = directory.to_owned();
        let begun = self.context.disk.run(move |tree| -> io::Result<(Begun, File)> {
            let upload = tree.begin(&directory)?;
            taken.with_room(|| upload.reserve(size))?;
            let file = upload.file().try_clone()?;
            Ok((Begun { size, taken, upload }, file))
        });
        let (begun, file) = begun.await.map_err(no_parent)?;
        let open = Open { file, written: AtomicU64::new(0), synced: AtomicU64::new(0) };
        let mut state = self.state();
        (state.begun, state.open) = (Some(begun), Some(Arc::new(open)));
        Ok(())
    }

    /// What was written, and its checksum; none if it is not whole.
    pub(crate) fn written(&self) -> Option<(File, Vec<Checksum>)> {
        let state = self.state();
        let open = state.open.clone()?;
        let sum = state.sum.clone()?;
        drop(state);
        Some((open.file.try_clone().ok()?, vec![sum]))
    }

    /// Gives the file its name, with `sums` as notes, if the conditions in `headers` still hold; what has the name goes, if
    /// `replace`. Returns its size.
    pub(crate) async fn publish(
        &self,
        headers: HeaderMap,
        replace: bool,
        sums: Vec<Checksum>,
    ) -> Result<u64, HttpError> {
        let begun = self.state().begun.take();
        let Some(Begun { taken, upload, .. }) = begun else {
            let what = "the copy has already ended";
            return Err(HttpError::new(StatusCode::CONFLICT, what));
        };
        let finished = DiskWriter { upload, sums, taken, headers, replace };
        let path = self.place.path().to_owned();
        let published = self.context.disk.run_durably(move |tree| finished.publish(tree, &path));
        let (meta, _) = published.await?;
        Ok(meta.size)
    }

    /// Lets go of what was written, and of its space.
    pub(crate) fn give_up(&self) {
        let State { begun, open, .. } = std::mem::take(&mut *self.state());
        // A file system takes its time to forget a large file.
        tokio::task::spawn_blocking(move || drop((begun, open)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn open(&self) -> Option<Arc<Open>> {
        self.state().open.clone()
    }

    fn cannot<T: Send + 'static>() -> BoxFuture<'static, Result<T>> {
        let what = "the target of a pull can only be written";
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, what))))
    }
}

impl CopyProgress for PullTarget {
    fn count(&self) -> BoxFuture<'static, u64> {
        let (open, disk) = (self.open(), self.context.disk.clone());
        Box::pin(async move {
            let Some(open) = open else { return 0 };
            let counting = Arc::clone(&open);
            let synced = disk.run_durably(move |_| {
                let written = counting.written.load(Ordering::Acquire);
                counting.file.sync_data()?;
                counting.synced.store(written, Ordering::Release);
                Ok::<_, io::Error>(())
            });
            // What cannot be brought to the disk is not there, and fails when it gets its name.
            drop(synced.await);
            open.synced.load(Ordering::Acquire)
        })
    }

    fn address(&self) -> Option<SocketAddr> {
        self.source.address()
    }
}

/// The writing end.
#[derive(Debug)]
struct Writing {
    landing: Arc<PullTarget>,
    open: Arc<Open>,
}

impl Upload for Writing {
    fn parallel(&self) -> usize {
        self.landing.streams
    }

    fn block_bytes(&self) -> u64 {
        1
    }

    fn present(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn token(&self) -> Option<String> {
        None
    }

    fn write(&self, offset: u64, bytes: Bytes) -> BoxFuture<'_, Result<()>> {
        let open = Arc::clone(&self.open);
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || {
                open.file.write_all_at(&bytes, offset)?;
                open.written.fetch_add(bytes.len() as u64, Ordering::AcqRel);
                Ok::<_, io::Error>(())
            });
            let written = written.await.map_err(io::Error::from).flatten();
            written.map_err(|error| local_error(error.into()))
        })
    }

    fn commit(self: Box<Self>, checksum: Option<Checksum>) -> BoxFuture<'static, Result<DirEntry>> {
        let (path, size) = {
            let mut state = self.landing.state();
            state.sum = checksum;
            (self.landing.place.path().to_owned(), self.open.written.load(Ordering::Acquire))
        };
        let entry = DirEntry { path, kind: FileKind::File, size, modified: None, validator: None };
        Box::pin(std::future::ready(Ok(entry)))
    }

    fn abort(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.landing.give_up();
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A landing as a storage.
#[derive(Debug)]
pub(crate) struct PullTargetStorage(pub(crate) Arc<PullTarget>);

impl Storage for PullTargetStorage {
    fn name(&self) -> String {
        String::new()
    }

    fn put<'a>(
        &'a self,
        _: &'a str,
        options: PutOptions,
    ) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        Box::pin(async move {
            let landing = Arc::clone(&self.0);
            let ready = landing.state().begun.as_ref().is_some_and(|it| it.size == options.size);
            if !ready {
                landing.begin(options.size).await.map_err(local_error)?;
            }
            let over = || Error::new(ErrorKind::Cancelled, "the copy has already ended");
            let open = landing.open().ok_or_else(over)?;
            Ok(Box::new(Writing { landing, open }) as Box<dyn Upload>)
        })
    }

    fn stat<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<DirEntry>> {
        PullTarget::cannot()
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>> {
        PullTarget::cannot()
    }

    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Err(Error::new(ErrorKind::Unsupported, "the target of a pull cannot be read"))
    }

    fn remove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        PullTarget::cannot()
    }

    fn remove_tree<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        PullTarget::cannot()
    }

    fn rename<'a>(&'a self, _: &'a str, _: &'a str, _: bool) -> BoxFuture<'a, Result<()>> {
        PullTarget::cannot()
    }

    fn make_directory<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        PullTarget::cannot()
    }

    fn checksum<'a>(&'a self, _: &'a str, _: Algorithm) -> BoxFuture<'a, Result<Option<Checksum>>> {
        PullTarget::cannot()
    }
}
