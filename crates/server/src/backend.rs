//! The interface to the files that a server serves: a namespace of files and directories.
//!
//! The HTTP methods call a [`Backend`], never a disk. It names, opens, creates and changes files. A
//! [`FileReader`] is one version of a file that was opened; a [`FileWriter`] is a file that is
//! invisible until it is committed. The directory tree of this machine ([`disk`]) is the first
//! backend; another may hold files in memory or fetch them from other servers.
//!
//! **Who waits.** Each call returns a future. A backend on a disk does its work on threads that may
//! block; operations that cannot block (opening a file whose inode the kernel has in memory) run in
//! the call. The response code reads local files itself ([`FileRanges::Local`]): it sends their
//! cached pages without a thread hop. Other backends supply pieces in a stream, which is not polled
//! while it waits for the client.
//!
//! **Races.** A change carries its [`Precondition`]. The backend evaluates it while no other
//! request can change names, so that of two clients that replace one version, one gets
//! [`BackendErrorKind::PreconditionFailed`].
//!
//! **Memory.** A backend holds no file data between calls; the pieces of a stream and the batches
//! of a writer are bounded by their callers.
//!
//! Paths are below the root: components separated by single slashes, without a slash at the ends;
//! the root is the empty path.
//!
//! **Links.** Each call takes paths literally: one with a symbolic link in it fails with
//! [`BackendErrorKind::Link`]. [`Backend::resolve`] returns the path to which the links lead. The
//! caller decides about that path, and calls again with it; if a link is created there meanwhile,
//! that call fails. So the file that is read is the one that was authorized. Nothing is changed
//! through a link: changes of a link's own path remove, replace or move the link.

pub(crate) mod blocking;
mod change;
pub(crate) mod directory_entry;
pub(crate) mod disk;
pub(crate) mod entry_metadata;
pub(crate) mod error;
pub(crate) mod path;
pub(crate) mod referral;
pub(crate) mod tape;
mod visited_file;

pub use crate::backend::change::{ChangeOptions, ChangePrecondition, Precondition};
pub use crate::backend::directory_entry::{Described, DirectoryEntry, DirectoryListing};
pub use crate::backend::entry_metadata::EntryMetadata;
pub use crate::backend::error::{BackendError, BackendErrorKind};
pub use crate::backend::visited_file::{FileVisitor, VisitedFile};

use crate::backend::referral::{AvailableEntries, BackendServer, LocateRequest, Located};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hither_checksum::{Algorithm, Checksum};
use hither_http::propfind::{PropertyName, PropertyUpdate};
use hither_http::tree::MAX_CONTENT_BYTES;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The future of a backend's work.
pub type BackendFuture<'a, T> = BoxFuture<'a, Result<T, BackendError>>;

/// Properties that clients gave to a file or directory (RFC 4918 section 4); the values are XML.
pub type DeadProperties = BTreeMap<PropertyName, String>;

/// Decides whether links may be followed to a path.
pub type LinkFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A namespace of files and directories.
pub trait Backend: Send + Sync + Debug {
    /// The path to which the symbolic links in `path` lead; fails if that is outside.
    /// Called only after another call has failed with [`BackendErrorKind::Link`].
    fn resolve<'a>(&'a self, path: &'a str) -> BackendFuture<'a, String> {
        Box::pin(std::future::ready(Ok(path.to_owned())))
    }

    /// The metadata of a file or directory.
    fn stat<'a>(&'a self, path: &'a str) -> BackendFuture<'a, EntryMetadata>;

    /// The entries of a directory that clients may see, in the order of their names. Of a directory
    /// with more than `max` entries, any `max + 1` of them.
    fn list<'a>(&'a self, path: &'a str, max: usize) -> BackendFuture<'a, DirectoryListing>;

    /// The entries of [`Backend::list`], as far as they are available: for pages that name the
    /// servers without a response.
    fn list_available<'a>(
        &'a self,
        path: &'a str,
        max: usize,
    ) -> BackendFuture<'a, AvailableEntries> {
        Box::pin(async move {
            Ok(AvailableEntries { entries: self.list(path, max).await?.entries, missing: None })
        })
    }

    /// Returns true if clients are redirected to other servers for files ([`Backend::locate`]).
    fn refers(&self) -> bool {
        false
    }

    /// The location of a file. Called only where [`Backend::refers`] is true.
    fn locate<'a>(&'a self, _request: LocateRequest<'a>) -> BackendFuture<'a, Located> {
        Box::pin(std::future::ready(Err(BackendError::not_found())))
    }

    /// Waits for changes that go on after their clients have left. Called when the server stops.
    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The servers behind this backend, for metrics and the status page.
    fn servers(&self) -> Vec<BackendServer> {
        Vec::new()
    }

    /// The descriptions of some entries in the order of `paths`; none only for those that are gone.
    /// A link is described as what it leads to, or as an error if `links` does not allow that.
    fn describe(
        &self,
        paths: Vec<String>,
        details: Details,
        links: LinkFilter,
    ) -> BackendFuture<'_, Vec<Option<Described>>>;

    /// Opens one version of a file to be read, or a directory for its metadata. The future is ready
    /// immediately where opening does not block.
    fn open<'a>(&'a self, path: &'a str) -> BackendFuture<'a, Arc<dyn FileReader>>;

    /// Opens some files one after the other, and has them visited, in the order of `paths` until
    /// the visitor stops: the files of a batch in one blocking task.
    fn visit(&self, paths: Vec<String>, mut visitor: FileVisitor) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            for (index, path) in paths.iter().enumerate() {
                let opened = async {
                    let reader = self.open(path).await?;
                    let metadata = reader.metadata().clone();
                    let end = metadata.size.filter(|size| *size <= u64::from(MAX_CONTENT_BYTES));
                    let end = end.unwrap_or_default();
                    Ok::<_, BackendError>((metadata, read_range(&*reader, 0..end).await?))
                };
                let flow = match opened.await {
                    Err(error) => visitor(index, Err(error)),
                    Ok((metadata, bytes)) => {
                        let mut read = |out: &mut [u8]| (&*bytes).read_exact(out);
                        let file = VisitedFile { metadata: &metadata, read: &mut read };
                        visitor(index, Ok(file))
                    }
                };
                if flow.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Creates a file that will be at `path` once it is committed. Fails if there is no space for
    /// it.
    fn create<'a>(
        &'a self,
        path: &'a str,
        options: CreateOptions,
    ) -> BackendFuture<'a, Arc<dyn FileWriter>>;

    /// Makes directories and writes small files, in this order, and returns the result of each: all
    /// of a batch in one blocking task, whose results are durable at its end. A directory that
    /// exists already is not an error.
    fn put_batch(
        &self,
        entries: Vec<BatchEntry>,
    ) -> BackendFuture<'_, Vec<Result<Committed, BackendError>>> {
        Box::pin(async move {
            let mut results = Vec::with_capacity(entries.len());
            for entry in entries {
                results.push(put_alone(self, entry).await);
            }
            Ok(results)
        })
    }

    /// Moves a file or directory. Returns true if nothing was replaced.
    fn rename<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        options: ChangeOptions,
    ) -> BackendFuture<'a, bool>;

    /// Copies a file, or a directory with its contents if `deep`: links in it as the files to which
    /// they lead, where `links` allows that, and others not at all. Returns true if nothing was
    /// replaced.
    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        deep: bool,
        options: ChangeOptions,
        links: LinkFilter,
    ) -> BackendFuture<'a, bool>;

    /// Removes a file, or a directory; one with contents only if `whole`, else it is a conflict.
    fn remove<'a>(
        &'a self,
        path: &'a str,
        whole: bool,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()>;

    /// Makes a directory.
    fn make_directory<'a>(
        &'a self,
        path: &'a str,
        precondition: Precondition,
    ) -> BackendFuture<'a, ()>;

    /// Makes all of these changes to the dead properties, or none. Returns the entry's metadata.
    fn set_properties<'a>(
        &'a self,
        path: &'a str,
        updates: Vec<PropertyUpdate>,
        precondition: Precondition,
    ) -> BackendFuture<'a, Option<EntryMetadata>>;

    /// Fails if the root cannot be read. Returns the space of its file system, if there is one.
    fn probe(&self) -> BackendFuture<'_, Option<SpaceUsage>>;
}

/// One version of a file that was opened.
pub trait FileReader: Send + Sync + Debug {
    /// The metadata of this version.
    fn metadata(&self) -> &EntryMetadata;

    /// The bytes of some ranges, none of which is empty or reaches beyond the end.
    fn ranges(&self, ranges: &[Range<u64>]) -> FileRanges;

    /// A checksum of this version; none if it is not stored and `mode` does not allow to compute
    /// it, or if the file changed meanwhile.
    fn checksum(
        &self,
        algorithm: Algorithm,
        mode: ChecksumMode,
    ) -> BackendFuture<'_, Option<Checksum>>;

    /// Returns whether the open file still is the version that was opened.
    fn is_current(&self) -> BackendFuture<'_, bool>;
}

/// A file that is being written. It is invisible before [`FileWriter::commit`]; dropping the writer
/// discards it.
pub trait FileWriter: Send + Sync + Debug {
    /// Writes `data` from `offset` on, and returns the time that this took. Several writes may run
    /// concurrently. The work begins with the call, not when the future is polled.
    fn write(&self, offset: u64, data: Vec<Bytes>) -> BackendFuture<'static, Duration>;

    /// Takes the space for the bytes up to `end`, which arrive elsewhere first. If `is_whole`, the
    /// file ends there, and takes no space ahead.
    fn reserve(&self, end: u64, is_whole: bool) -> BackendFuture<'static, ()>;

    /// Makes the written bytes durable, and returns their number.
    fn sync(&self) -> BackendFuture<'_, u64>;

    /// The checksum of all written bytes.
    fn checksum(&self, algorithm: Algorithm) -> BackendFuture<'_, Checksum>;

    /// Gives the file its path. A file that was created in place has it already.
    fn commit(&self, options: CommitOptions) -> BackendFuture<'_, Committed>;
}

/// The details that [`Backend::describe`] looks up in addition to the metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Details {
    /// Stored checksums of these algorithms.
    pub checksums: &'static [Algorithm],
    /// Dead properties.
    pub properties: bool,
    /// The space that is free for it.
    pub space: bool,
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryDescription {
    /// The metadata.
    pub metadata: EntryMetadata,
    /// The checksums that are stored, in the order in which they were requested.
    pub checksums: Vec<Checksum>,
    /// The dead properties, if they were requested.
    pub properties: DeadProperties,
    /// The space of its reservation, or else of its file system, if that was requested.
    pub space: Option<SpaceUsage>,
}

/// The way in which a reader supplies ranges.
pub enum FileRanges {
    /// The whole file is a local file with the same offsets.
    Local(Arc<File>),
    /// Pieces in the order of the ranges. Each lies within one range, begins where the one before
    /// it ended, and is not empty.
    Stream(BoxStream<'static, Result<RangeData, BackendError>>),
}

impl Debug for FileRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(file) => f.debug_tuple("Local").field(file).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A piece of a range.
#[derive(Debug, Clone)]
pub enum RangeData {
    /// The bytes.
    Bytes(Bytes),
    /// A range of a local file that holds the bytes.
    Region {
        /// The file.
        file: Arc<File>,
        /// The bytes in that file.
        range: Range<u64>,
    },
}

/// The permission to compute a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumMode {
    /// Only a stored checksum is returned.
    Cached,
    /// A checksum that is not stored is computed, which takes as long as reading the file.
    Compute,
}

/// The options of [`Backend::create`].
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    /// The size, if it is known. A file that cannot fit is refused before the first byte.
    pub size: Option<u64>,
    /// Checksums to compute while bytes are written in order.
    pub checksums: Vec<Algorithm>,
    /// The range that is written to the file at the path itself; none for the whole file, which
    /// gets its path when it is committed.
    pub part: Option<Range<u64>>,
}

/// The options of [`FileWriter::commit`].
pub struct CommitOptions {
    /// True if the entry at the path may be replaced.
    pub replace: bool,
    /// Checksums of the file, to be stored with it.
    pub checksums: Vec<Checksum>,
    /// The time of the last change, where the backend keeps it; now if there is none.
    pub modified: Option<SystemTime>,
    /// The condition on what is at the path.
    pub precondition: Precondition,
}

impl Debug for CommitOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("CommitOptions");
        out.field("replace", &self.replace).field("checksums", &self.checksums);
        out.finish_non_exhaustive()
    }
}

/// A directory or small file of a batch.
pub struct BatchEntry {
    /// The path below the root.
    pub path: String,
    /// The bytes of a file; none for a directory.
    pub content: Option<Vec<Bytes>>,
    /// The time of the last change, where the backend keeps it; now if there is none.
    pub modified: Option<SystemTime>,
    /// True if the file may be executed by those who may read it, where the backend keeps that.
    pub is_executable: bool,
    /// The checksums that are stored with a file.
    pub checksums: &'static [Algorithm],
    /// True if the file at the path may be replaced.
    pub replace: bool,
    /// The condition on what is at the path.
    pub precondition: Precondition,
}

impl Debug for BatchEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchEntry").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A file that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The metadata of the new file.
    pub metadata: EntryMetadata,
    /// True if something was replaced.
    pub replaced: bool,
}

/// Space in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Bytes that are free for uploads.
    pub available: u64,
    /// Bytes that are used.
    pub used: u64,
}

/// Writes an entry of a batch by itself.
async fn put_alone(
    backend: &(impl Backend + ?Sized),
    entry: BatchEntry,
) -> Result<Committed, BackendError> {
    let BatchEntry { path, content, modified, checksums, replace, precondition, .. } = entry;
    let Some(content) = content else {
        let made = backend.make_directory(&path, precondition).await;
        let is_there = made.as_ref().is_err_and(|it| it.kind() == BackendErrorKind::AlreadyExists);
        return match (made, backend.stat(&path).await) {
            (Ok(()), metadata) => Ok(Committed { metadata: metadata?, replaced: false }),
            (Err(_), Ok(metadata)) if is_there && metadata.is_directory() => {
                Ok(Committed { metadata, replaced: true })
            }
            (Err(error), _) => Err(error),
        };
    };
    let size = content.iter().map(|bytes| bytes.len() as u64).sum();
    let options =
        CreateOptions { size: Some(size), checksums: checksums.to_vec(), ..Default::default() };
    let writer = backend.create(&path, options).await?;
    writer.write(0, content).await?;
    let mut sums = Vec::with_capacity(checksums.len());
    for algorithm in checksums {
        sums.push(writer.checksum(*algorithm).await?);
    }
    writer.commit(CommitOptions { replace, checksums: sums, modified, precondition }).await
}

/// Reads one range of a file into memory.
pub(crate) async fn read_range(reader: &dyn FileReader, range: Range<u64>) -> io::Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let mut pieces = match reader.ranges(std::slice::from_ref(&range)) {
        FileRanges::Local(file) => return read_local(file, range).await,
        FileRanges::Stream(pieces) => pieces,
    };
    let mut all = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        match piece.map_err(io::Error::other)? {
            RangeData::Bytes(bytes) => all.extend_from_slice(&bytes),
            RangeData::Region { file, range } => {
                all.extend_from_slice(&read_local(file, range).await?);
            }
        }
    }
    if (all.len() as u64) < range.end - range.start {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(all.freeze())
}

async fn read_local(file: Arc<File>, range: Range<u64>) -> io::Result<Bytes> {
    let size = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let read = blocking::spawn(move |_| {
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, range.start)?;
        Ok(Bytes::from(bytes))
    });
    read.await?
}
