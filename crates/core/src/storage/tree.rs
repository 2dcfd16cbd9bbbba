//! Trees as streams: many small files in one request.
//!
//! A storage that supports them responds to a [`TreeRequest`] with a stream of events. A walk names
//! everything below a directory; its reader requests the contents of small files in batches, on as
//! many connections as help, and large files separately. Each path fails alone.

use super::DirEntry;
use crate::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt::Debug;

/// The largest file whose bytes are part of a stream.
pub const MAX_SMALL_BYTES: u64 = 1 << 20;
/// The most paths in one request.
pub const MAX_TREE_PATHS: usize = 4096;

/// A request for the entries below a directory. Paths are relative to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeRequest {
    /// Everything, by name: a directory before its entries, of which files come before directories,
    /// in the byte order of their names.
    Walk {
        /// Only the entries after this path, which ends with a slash if it is a directory; empty
        /// for all.
        after: String,
    },
    /// The entries of these paths.
    Entries(Vec<String>),
    /// These files with their bytes.
    Contents(Vec<String>),
}

/// An event of a stream. Paths are relative to the directory of the request, and checked: none
/// leads elsewhere, and none comes twice.
#[derive(Debug, Clone)]
pub enum TreeEvent {
    /// A directory.
    Directory(String),
    /// A file without its bytes.
    File(TreeFile),
    /// A file with its bytes, in pieces.
    Content(TreeFile, Vec<Bytes>),
    /// A path that failed.
    Failed(String, Error),
    /// An entry that is skipped, and why.
    LeftOut(String, String),
}

/// A file in a tree.
#[derive(Debug, Clone)]
pub struct TreeFile {
    /// Its path below the directory of the request.
    pub relative: String,
    /// Its entry; the path in it is that from the storage's root.
    pub entry: DirEntry,
    /// Permission bits.
    pub mode: Option<u32>,
}

/// A stream of events.
#[async_trait]
pub trait TreeEvents: Send + Debug {
    /// The next events, as many as have arrived; none at the end, which is an error if anything is
    /// missing.
    async fn next(&mut self) -> Result<Vec<TreeEvent>>;
}

/// A directory or file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its entry; the path in it is that from the storage's root.
    pub entry: DirEntry,
    /// True if nothing was there before.
    pub is_new: bool,
}

/// A directory or small file that is to be written.
#[derive(Debug, Clone)]
pub struct TreeUpload {
    /// Its path below the directory of the request.
    pub relative: String,
    /// The bytes of a file; none for a directory, which may be there already.
    pub content: Option<Bytes>,
    /// The time of the last change.
    pub modified: Option<std::time::SystemTime>,
    /// Permission bits, of which a storage may keep those of execution alone.
    pub mode: Option<u32>,
    /// Replaces a file of that name; else it is [`crate::ErrorKind::AlreadyExists`].
    pub overwrite: bool,
}
