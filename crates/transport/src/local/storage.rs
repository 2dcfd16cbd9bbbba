//! A local directory as a storage.
//!
//! A file is written under a temporary name in the same directory, flushed to the disk, and then
//! renamed: under its own name there is either the old file or the complete new one. Blocks are
//! written at their offsets, by several threads at once, into space that was allocated before: a
//! disk that is too small fails at the start.
//!
//! Paths are passed to the kernel unchanged, so symbolic links in their directories are followed. A
//! link as the last component is followed by reading only; see the contract of [`Storage`]. If the
//! target exists and is neither file nor link, it is written directly: pipes in order, the null
//! device not at all.

use crate::counters::TransferCounters;
use crate::local::source::LocalSource;
use crate::local::upload::LocalUpload;
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::{TryStreamExt, stream};
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::Source;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    DirEntry, FileKind, Listing, PutOptions, Storage, Upload, check_name, check_new_name,
    check_path, join,
};
use rustix::fs::RenameFlags;
use std::fs::{File, FileType, Metadata, ReadDir};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory with everything below it.
#[derive(Debug, Clone)]
pub struct LocalStorage {
    root: PathBuf,
    counters: Arc<TransferCounters>,
}

/// The kernel reads ahead by less than this; larger reads only cost memory.
const READ_BYTES: usize = 1 << 20;
/// Entries of a directory that are returned together.
const LISTED_TOGETHER: usize = 1024;

impl LocalStorage {
    /// The storage whose root is the directory `root`. A relative path starts at the working
    /// directory. Nothing is checked yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, counters: Arc<TransferCounters>) -> Self {
        Self { root: root.into(), counters }
    }

    /// The path in the file system.
    fn place(&self, path: &str) -> Result<PathBuf> {
        check_path(path)?;
        Ok(if path.is_empty() { self.root.clone() } else { self.root.join(path) })
    }

    /// The path in the file system, for operations that the root does not allow.
    fn named(&self, path: &str) -> Result<PathBuf> {
        check_name(path, &self.root.display())?;
        self.place(path)
    }

    /// Removes a file, or a directory by `remove_directory`.
    async fn remove_with(
        &self,
        path: &str,
        remove_directory: fn(&Path) -> io::Result<()>,
    ) -> Result<()> {
        let place = self.named(path)?;
        blocking(move || {
            let metadata = std::fs::symlink_metadata(&place);
            metadata
                .and_then(|metadata| {
                    if metadata.is_dir() {
                        remove_directory(&place)
                    } else {
                        std::fs::remove_file(&place)
                    }
                })
                .map_err(|error| failed("remove", &place, error))
        })
        .await
    }
}

#[async_trait]
impl Storage for LocalStorage {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        let place = self.place(path)?;
        let path = path.to_owned();
        blocking(move || {
            let metadata =
                std::fs::metadata(&place).map_err(|error| failed("look at", &place, error))?;
            Ok(entry(path, &metadata))
        })
        .await
    }

    async fn list(&self, path: &str) -> Result<Listing> {
        let place = self.place(path)?;
        let path = path.to_owned();
        blocking(move || {
            let mut listing = OpenDirectory::open(path, place)?.next(usize::MAX)?;
            listing.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            Ok(listing)
        })
        .await
    }

    fn list_batches<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<Listing>> {
        let opened = async move {
            let place = self.place(path)?;
            let path = path.to_owned();
            let directory = blocking(move || OpenDirectory::open(path, place)).await?;
            Ok::<_, Error>(stream::try_unfold(directory, |mut directory| {
                blocking(move || {
                    let listed = directory.next(LISTED_TOGETHER)?;
                    let is_over = listed.entries.is_empty() && listed.failed.is_empty();
                    Ok((!is_over).then_some((listed, directory)))
                })
            }))
        };
        Box::pin(stream::once(opened).try_flatten())
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(LocalSource::open(&self.place(path)?, Arc::clone(&self.counters))?))
    }

    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        let place = self.named(path)?;
        let path = path.to_owned();
        blocking(move || {
            LocalUpload::start(path, place, &options)
                .map(|upload| Box::new(upload) as Box<dyn Upload>)
        })
        .await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.remove_with(path, |place| std::fs::remove_dir(place)).await
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        // Descends by directory handles: a link that appears meanwhile is not followed.
        self.remove_with(path, |place| std::fs::remove_dir_all(place)).await
    }

    async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        check_new_name(from, to, &self.root.display())?;
        let from = self.place(from)?;
        let to = self.place(to)?;
        blocking(move || {
            rename(&from, &to, overwrite).map_err(|error| {
                let to = to.display();
                failed("rename", &from, error).context(format_args!("as {to}"))
            })
        })
        .await
    }

    async fn copy_file(&self, from: &str, to: &str) -> Result<()> {
        check_new_name(from, to, &self.root.display())?;
        let from = self.place(from)?;
        let to = self.place(to)?;
        blocking(move || {
            let [there, here] = [&to, &from].map(|path| std::fs::metadata(path).ok());
            // The copy would begin with an empty file.
            if there.zip(here).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino())) {
                let what = format!("{} and {} are one file", from.display(), to.display());
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            let copied = std::fs::copy(&from, &to);
            copied.map(drop).map_err(|error| failed("copy", &from, error))
        })
        .await
    }

    async fn make_directory(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        blocking(move || std::fs::create_dir(&place).map_err(|error| failed("make", &place, error)))
            .await
    }

    async fn checksum(&self, path: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        let place = self.place(path)?;
        blocking(move || {
            let file = open_regular(&place)?;
            summed(&file, algorithm).map(Some).map_err(|error| failed("read", &place, error))
        })
        .await
    }
}

/// Runs `job` on a thread that may wait for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(job).await {
        Ok(result) => result,
        Err(error) => {
            Err(Error::new(ErrorKind::Local, "a file operation was interrupted").with_source(error))
        }
    }
}

pub(crate) fn failed(what: &str, place: &Path, error: io::Error) -> Error {
    let kind = ErrorKind::of_local(&error);
    let message = format!("cannot {what} {}: {error}", place.display());
    Error::new(kind, message).with_source(error)
}

fn kind_of(kind: FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_symlink() {
        FileKind::Link
    } else {
        FileKind::Other
    }
}

pub(crate) fn entry(path: String, metadata: &Metadata) -> DirEntry {
    let kind = kind_of(metadata.file_type());
    let nanos = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let version = || format!("\"{:x}-{:x}-{nanos:x}\"", metadata.ino(), metadata.len());
    DirEntry {
        path,
        kind,
        size: Some(if kind == FileKind::File { metadata.len() } else { 0 }),
        modified: metadata.modified().ok(),
        validator: (kind == FileKind::File).then(version),
    }
}

/// A directory that is being listed.
struct OpenDirectory {
    path: String,
    place: PathBuf,
    names: ReadDir,
}

impl OpenDirectory {
    fn open(path: String, place: PathBuf) -> Result<Self> {
        let names = std::fs::read_dir(&place).map_err(|error| failed("list", &place, error))?;
        Ok(Self { path, place, names })
    }

    /// The next entries, at most `most`; none at the end.
    fn next(&mut self, most: usize) -> Result<Listing> {
        let mut listed = Listing::default();
        while listed.entries.len() < most
            && let Some(found) = self.names.next()
        {
            let found = found.map_err(|error| failed("list", &self.place, error))?;
            let name = found.file_name();
            let path = join(&self.path, &name.to_string_lossy());
            // Links are not followed.
            match found.metadata() {
                Ok(metadata) => {
                    let entry = entry(path, &metadata);
                    let is_named = name.to_str().is_some();
                    listed.entries.push(if is_named { entry } else { entry.into_unnamed() });
                }
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => listed.failed.push((path, failed("look at", &found.path(), error))),
            }
        }
        Ok(listed)
    }
}

pub(crate) fn rename(from: &Path, to: &Path, overwrite: bool) -> io::Result<()> {
    use rustix::fs::{CWD, renameat_with};
    use rustix::io::Errno;
    if overwrite {
        return std::fs::rename(from, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system without this flag, such as NFS.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_by_link(from, to),
        done => Ok(done?),
    }
}

/// Renames by a hard link, which fails if the new name exists, and removal of the old name. A
/// directory has one name only, and so has a file of some file systems (exFAT): there its metadata
/// show whether the new name is free.
fn rename_by_link(from: &Path, to: &Path) -> io::Result<()> {
    use io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied, Unsupported};
    if !std::fs::symlink_metadata(from)?.is_dir() {
        match std::fs::hard_link(from, to) {
            Err(error) if matches!(error.kind(), PermissionDenied | Unsupported) => {}
            linked => return linked.and_then(|()| std::fs::remove_file(from)),
        }
    }
    match std::fs::symlink_metadata(to) {
        Ok(_) => Err(AlreadyExists.into()),
        Err(error) if error.kind() == NotFound => std::fs::rename(from, to),
        Err(error) => Err(error),
    }
}

/// Opens a file for reading. Opening a pipe would wait for its writer, so the type is checked
/// first.
fn open_regular(place: &Path) -> Result<File> {
    let opening = |error| failed("open", place, error);
    if !std::fs::metadata(place).map_err(opening)?.is_file() {
        let place = place.display();
        return Err(Error::new(ErrorKind::Invalid, format!("{place} is not a regular file")));
    }
    File::open(place).map_err(opening)
}

/// The checksum of `file`, from its beginning.
pub(crate) fn summed(mut file: &File, algorithm: Algorithm) -> io::Result<Checksum> {
    use io::Seek;
    file.rewind()?;
    let mut hasher = Hasher::new(algorithm);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        match buffer.get(..read) {
            Some(bytes) if read > 0 => hasher.update(bytes),
            _ => return Ok(hasher.finish()),
        }
    }
}
