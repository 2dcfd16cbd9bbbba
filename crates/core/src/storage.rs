//! The name space of a server and its writing side.
//!
//! Paths are relative to the storage's root, separated by `/`, neither beginning nor ending with
//! one, not encoded in any way; the empty path is the root. `.`, `..`, empty components and NUL are
//! refused with [`ErrorKind::Invalid`].
//!
//! A file that is being written does not exist under its name until [`Upload::commit`] has
//! succeeded: what is interrupted leaves no half a file. (A server on which that cannot be had
//! writes under another name first and renames; [`is_partial`] recognises such names.)
//!
//! Links: [`Storage::stat`] and [`Storage::source`] follow them, [`Storage::list`] shows them as
//! what they are, and [`Storage::remove`], [`Storage::remove_tree`] and [`Storage::rename`] act on
//! the link itself. So what descends by `list` never leaves the tree that it was given.

mod path;

pub use path::{
    check_name, check_path, file_name, is_partial, join, parent, partial_name, partial_token,
    sibling, unique_partial_name,
};

use crate::checksum::{Algorithm, Checksum};
use crate::{Error, ErrorKind, Result, Source};
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Bytes.
    File,
    /// Further names.
    Directory,
    /// A symbolic link, as [`Storage::list`] shows it.
    Link,
    /// A device, a pipe, a socket: what has neither a size nor names.
    Other,
    /// An entry whose name is not UTF-8, as [`Storage::list`] shows it: its path has replacement
    /// characters, and nothing can be done with it.
    Unnamed,
}

/// One name and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Path from the storage's root.
    pub path: String,
    /// File or directory.
    pub kind: FileKind,
    /// Size in bytes; 0 for anything but a file.
    pub size: u64,
    /// Last modification.
    pub modified: Option<SystemTime>,
    /// Validator of this version of the file: an entity tag with its quotes, or another such text.
    pub validator: Option<String>,
}

impl DirEntry {
    /// An entry of which nothing else is known.
    #[must_use]
    pub fn new(path: impl Into<String>, kind: FileKind, size: u64) -> Self {
        Self { path: path.into(), kind, size, modified: None, validator: None }
    }
}

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// Size in bytes.
    pub size: u64,
    /// Replaces a file of that name; else it is
    /// [`ErrorKind::AlreadyExists`].
    pub overwrite: bool,
    /// [`Upload::token`] of an interrupted upload of the same file. If that is of no use any more,
    /// the upload starts from nothing and has another token.
    pub resume: Option<String>,
}

/// A file that is being written.
///
/// Blocks may be written concurrently, up to [`Upload::parallel`] at a time. Where that is 1, they
/// come in order of offsets, without gaps.
#[async_trait]
pub trait Upload: Send + Sync + Debug {
    /// Most blocks that may be on their way at the same time.
    fn parallel(&self) -> usize;
    /// The unit that blocks start at multiples of and, but for the last one, are long, in bytes; 1
    /// if any will do.
    fn block_bytes(&self) -> u64 {
        1
    }
    /// Ranges written by an earlier attempt, as far as the storage can tell, ascending. Where
    /// [`Upload::token`] is the one that was given, every block whose [`Upload::write`] had
    /// succeeded is there too, told or not, unless the storage's machine has crashed since. Most
    /// storages cannot tell: blocks come in any order into a file that has its final size.
    fn present(&self) -> Vec<Range<u64>> {
        Vec::new()
    }
    /// Token for [`PutOptions::resume`] after an interruption; none if the upload cannot be
    /// resumed. It may change with every block written: keep the latest.
    fn token(&self) -> Option<String> {
        None
    }
    /// Writes `bytes` at `offset`. Done when the server has taken them, as far as it tells.
    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()>;
    /// Makes the file visible. If `checksum` is given and the server can compute one of that kind,
    /// the two are compared before that; a difference is
    /// [`ErrorKind::Corrupt`]. If it fails, nothing becomes visible, and
    /// what was written is removed as far as that is possible.
    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<DirEntry>;
    /// Removes what was written.
    async fn abort(self: Box<Self>) -> Result<()>;
}

/// A tree of directories and files that can be listed, read and written. What a storage does not
/// implement fails with [`ErrorKind::Unsupported`].
#[async_trait]
pub trait Storage: Send + Sync + Debug {
    /// The root, for messages; secrets removed.
    fn name(&self) -> String;
    /// Metadata of one path.
    async fn stat(&self, path: &str) -> Result<DirEntry>;
    /// The names in a directory, in the order of their bytes, without itself. A file is
    /// [`ErrorKind::Invalid`].
    async fn list(&self, _path: &str) -> Result<Vec<DirEntry>> {
        unsupported(self, "list directories")
    }
    /// A file to read. Nothing is sent yet.
    fn source(&self, path: &str) -> Result<Arc<dyn Source>>;
    /// Starts writing a file. Its directory must exist.
    async fn put(&self, _path: &str, _options: PutOptions) -> Result<Box<dyn Upload>> {
        unsupported(self, "write files")
    }
    /// Removes a file, a link or an empty directory. A directory that is not empty is
    /// [`ErrorKind::Invalid`].
    async fn remove(&self, _path: &str) -> Result<()> {
        unsupported(self, "remove files")
    }
    /// Removes a file, or a directory with all that is in it. Links in it are removed, not
    /// followed.
    async fn remove_tree(&self, _path: &str) -> Result<()> {
        unsupported(self, "remove directories")
    }
    /// Gives a file or directory another name; what has that name is replaced only if `overwrite`.
    async fn rename(&self, _from: &str, _to: &str, _overwrite: bool) -> Result<()> {
        unsupported(self, "rename files")
    }
    /// Makes a directory. Its parent must exist; if it exists itself, that is
    /// [`ErrorKind::AlreadyExists`].
    async fn make_directory(&self, _path: &str) -> Result<()> {
        unsupported(self, "make directories")
    }
    /// The checksum of a file if the server can tell it without sending the file.
    async fn checksum(&self, _path: &str, _algorithm: Algorithm) -> Result<Option<Checksum>> {
        Ok(None)
    }
}

/// The error of a storage that cannot do something.
fn unsupported<T>(storage: &(impl Storage + ?Sized), what: &str) -> Result<T> {
    let what = format!("{}: this storage cannot {what}", storage.name());
    Err(Error::new(ErrorKind::Unsupported, what))
}
