//! The name space of a server and its writing side.
//!
//! Paths are relative to the storage's root, separated by `/`, neither beginning nor ending with
//! one, not encoded in any way; the empty path is the root. `.`, `..`, empty components and NUL are
//! refused with [`ErrorKind::Invalid`].
//!
//! A file that is being written does not exist under its name until [`Upload::commit`] has
//! succeeded: an interrupted upload leaves no partial file there. (Where a server cannot do that,
//! the file is written under another name first and renamed; [`is_partial`] recognises such names.)
//!
//! Links: [`Storage::stat`] and [`Storage::source`] follow them, [`Storage::list`] lists them as
//! links, and [`Storage::remove`], [`Storage::remove_tree`] and [`Storage::rename`] act on the link
//! itself. So a walk by `list` never leaves its tree. A server may list links as their targets:
//! [`Storage::remove_directory`] distinguishes them.

mod directory_walk;
mod listing;
mod path;
mod read_back;
mod removal;
pub mod replica_set;
mod staging_state;
mod timestamp;
mod tree;
mod version;

pub use directory_walk::{DirectoryWalk, MAX_LEVELS, MAX_LISTINGS, check_level};
pub use listing::Listing;
pub use path::{
    check_name, check_new_name, check_path, file_name, hide_partial_name, is_page, is_partial,
    join, parent, partial_name, partial_token, sibling, unique_partial_name,
};
pub use read_back::{check_written, read_back};
pub use removal::DirectoryRemoval;
pub use staging_state::StagingState;
pub use timestamp::{from_1970, since_1970};
pub use tree::{
    MAX_SMALL_BYTES, MAX_TREE_PATHS, StoredEntry, TreeEvent, TreeEvents, TreeFile, TreeRequest,
    TreeUpload,
};
pub use version::{changed_since_read, check_version, is_same_version};

use crate::{Error, ErrorKind, ReplicaSet, Result, Source};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use hither_checksum::{Algorithm, Checksum};
use std::any::Any;
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
    /// A device, a pipe or a socket, which has neither a size nor names.
    Other,
    /// An entry whose name is not UTF-8, as [`Storage::list`] shows it: its path has replacement
    /// characters, and nothing can be done with it.
    Unnamed,
}

/// One name and its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Path from the storage's root.
    pub path: String,
    /// File or directory.
    pub kind: FileKind,
    /// Size in bytes; 0 for anything but a file, none if the server does not state it. Of
    /// [`FileKind::Unnamed`] none for a directory, too.
    pub size: Option<u64>,
    /// Last modification.
    pub modified: Option<SystemTime>,
    /// Validator of this version of the file: an entity tag with its quotes, or another such text.
    pub validator: Option<String>,
}

impl DirEntry {
    /// An entry of which nothing else is known.
    #[must_use]
    pub fn new(path: impl Into<String>, kind: FileKind, size: u64) -> Self {
        Self { path: path.into(), kind, size: Some(size), modified: None, validator: None }
    }

    /// The size for totals and progress, in which an unknown one counts as 0. No decision may
    /// depend on it.
    #[must_use]
    pub fn counted_bytes(&self) -> u64 {
        self.size.unwrap_or_default()
    }

    /// The entity tag, if it is one that servers may compare.
    #[must_use]
    pub fn strong_tag(&self) -> Option<&str> {
        self.validator.as_deref().filter(|tag| tag.starts_with('"'))
    }

    /// The size for messages.
    #[must_use]
    pub fn shown_size(&self) -> String {
        self.size.map_or_else(|| "an unknown number of bytes".into(), |it| format!("{it} bytes"))
    }
}

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// Size in bytes.
    pub size: u64,
    /// Replaces a file of that name; else it is [`ErrorKind::AlreadyExists`].
    pub overwrite: bool,
    /// The version of the file that may be replaced, with [`Self::overwrite`]: any other one, or
    /// none, is [`ErrorKind::Changed`]. The storage's server compares it atomically with the write
    /// where it can, else it is checked just before.
    pub expected: Option<DirEntry>,
    /// [`Upload::token`] of an interrupted upload of the same file. If that is no longer valid, the
    /// upload starts from the beginning and has another token; or, where the storage cannot check
    /// it, every write fails.
    pub resume: Option<String>,
    /// The time of the last change, where the storage keeps it; else it is that of the upload.
    pub modified: Option<SystemTime>,
    /// The [`partial_name`] of the file until it is whole, where the storage sends it immediately:
    /// the same for each attempt, so that one replaces the file that an earlier one left. Else it
    /// is unique.
    pub partial: Option<String>,
    /// The caller looks at the file after it has written others in the same directory, if
    /// [`CommittedFile::is_seen`] is false then: one listing shows all of them.
    pub is_looked_at: bool,
    /// A checksum that the storage cannot compute is computed from the bytes read back, before the
    /// file gets its name where that is possible.
    pub read_back: bool,
}

/// The times that a storage sets on the files that are written to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileTimes {
    /// True if it is known to keep [`PutOptions::modified`]; else the time is that of the upload.
    pub are_kept: bool,
    /// Seconds by which its clock is ahead of this machine's, rounded away from 0, negative if it
    /// is behind; none if the storage does not state its time.
    pub ahead_seconds: Option<i64>,
}

impl FileTimes {
    /// Returns true if a file that was written to this storage at `written` has all that had
    /// changed in its source by `changed`, a time of the storage `source`; both in seconds since
    /// 1970, negative before. None if the times do not show that: within a second, and within the
    /// difference of the clocks; a clock that a storage does not state is assumed to be right.
    #[must_use]
    pub fn is_newer(&self, written: i64, changed: i64, source: &Self) -> Option<bool> {
        let later = written.saturating_sub(changed);
        let Ok(later) = u64::try_from(later) else { return Some(false) };
        let [ahead, source_ahead] = [self, source].map(|it| it.ahead_seconds.unwrap_or_default());
        let is_kept = later == 0 && self.are_kept;
        let clock_difference = ahead.saturating_sub(source_ahead).max(0).unsigned_abs();
        (is_kept || later > clock_difference).then_some(true)
    }
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedFile {
    /// Its directory entry.
    pub entry: DirEntry,
    /// The checksum of [`Upload::commit`] was compared with that of the stored bytes.
    pub is_compared: bool,
    /// The storage has shown that the file has its size. False only with
    /// [`PutOptions::is_looked_at`].
    pub is_seen: bool,
    /// A request failed after the storage had confirmed all bytes, some of which it may have lost.
    pub may_have_lost_bytes: bool,
}

impl From<DirEntry> for CommittedFile {
    /// A file that was seen, without a checksum that was compared.
    fn from(entry: DirEntry) -> Self {
        Self { entry, is_compared: false, is_seen: true, may_have_lost_bytes: false }
    }
}

impl PutOptions {
    /// The path at which a file that will be at `path` is while it is written.
    #[must_use]
    pub fn partial_path(&self, path: &str) -> String {
        let name = self.partial.as_deref().and_then(partial_token).map(str::to_owned);
        sibling(path, &name.unwrap_or_else(|| unique_partial_name(path)))
    }
}

/// A file that is being written.
///
/// Blocks may be written concurrently, up to [`Upload::parallel`] at a time. Where that is 1, they
/// come in order of offsets, without gaps.
#[async_trait]
pub trait Upload: Send + Sync + Debug {
    /// Maximum number of blocks in flight.
    fn parallel(&self) -> usize;
    /// Maximum number of small files that may be uploaded to the server at a time; 0 if that is not
    /// known.
    fn max_small_files(&self) -> usize {
        0
    }
    /// The block size in bytes: blocks start at multiples of it, and all but the last have it; 1
    /// for any size.
    fn block_bytes(&self) -> u64 {
        1
    }
    /// Returns true if writes may be of any length at any offset. Then bytes are written as they
    /// arrive, and no block has to be complete in memory first.
    fn takes_any_bytes(&self) -> bool {
        false
    }
    /// Ranges written by an earlier attempt, as far as the storage reports them, ascending. Where
    /// [`Upload::token`] is the one that was given, every block whose [`Upload::write`] had
    /// succeeded is there too, reported or not, unless the storage's machine has crashed since.
    /// Most storages cannot report them: blocks come in any order into a file that has its final
    /// size.
    fn present(&self) -> Vec<Range<u64>> {
        Vec::new()
    }
    /// Token for [`PutOptions::resume`] after an interruption; none if the upload cannot be
    /// resumed. It may change with every block written: keep the latest.
    fn token(&self) -> Option<String> {
        None
    }
    /// Writes `bytes` at `offset`. Returns when the server has confirmed them, as far as it does.
    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()>;
    /// Returns when the written bytes are on the disk, as far as that is known.
    async fn sync(&self) -> Result<()> {
        Ok(())
    }
    /// The number of failed requests to the server so far, and of connections that it closed
    /// unexpectedly. Bytes confirmed before one of them may be lost, if they were not on its disk
    /// yet and the server was restarted.
    fn interruptions(&self) -> u64 {
        0
    }
    /// Returns true if, when the upload was resumed, the bytes written by an earlier attempt were
    /// compared with those that the storage has now.
    fn resumes_verified(&self) -> bool {
        false
    }
    /// The storage's checksum of the bytes written so far, if it can compute one.
    async fn written_checksum(&self, _algorithm: Algorithm) -> Result<Option<Checksum>> {
        Ok(None)
    }
    /// The bytes that were written so far, to be read back; none if the storage shows them only
    /// under the name of the file.
    fn written_source(&self) -> Option<Arc<dyn Source>> {
        None
    }
    /// Makes the file visible. If `checksum` is given and the server can compute one of that kind,
    /// the two are compared before that; a difference is [`ErrorKind::Corrupt`]. If it fails,
    /// nothing becomes visible, and the written bytes are removed as far as possible.
    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<CommittedFile>;
    /// Removes the written bytes.
    async fn abort(self: Box<Self>) -> Result<()>;
}

/// A tree of directories and files that can be listed, read and written. Methods that a storage
/// does not implement fail with [`ErrorKind::Unsupported`].
#[async_trait]
pub trait Storage: Send + Sync + Debug {
    /// The root, for messages; secrets removed.
    fn name(&self) -> String;
    /// Metadata of one path.
    async fn stat(&self, path: &str) -> Result<DirEntry>;
    /// Metadata of a path that may be a directory which is known only by a URL with a slash.
    async fn stat_named(&self, path: &str) -> Result<DirEntry> {
        self.stat(path).await
    }
    /// Metadata of a path that the caller believes to be a directory. None where only listing it
    /// would show that.
    async fn stat_directory(&self, path: &str) -> Result<Option<DirEntry>> {
        self.stat(path).await.map(Some)
    }
    /// The names in a directory, in the order of their bytes, without itself. A file is
    /// [`ErrorKind::Invalid`].
    async fn list(&self, _path: &str) -> Result<Listing> {
        unsupported(self, "list directories")
    }
    /// The names of [`Storage::list`] as they arrive, in any order. Together they are the listing.
    fn list_batches<'a>(&'a self, path: &'a str) -> BoxStream<'a, Result<Listing>> {
        Box::pin(futures_util::stream::once(self.list(path)))
    }
    /// A file to read. Nothing is sent yet.
    fn source(&self, path: &str) -> Result<Arc<dyn Source>>;
    /// As [`Storage::source`], for a file that may have other replicas; none if this is the only
    /// one.
    fn replicas(&self, _path: &str) -> Result<Option<Arc<dyn ReplicaSet>>> {
        Ok(None)
    }
    /// The location of a path, in its transport's own type; none for a storage that is not a
    /// server.
    fn location(&self, _path: &str) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }
    /// Starts writing a file. Its directory must exist.
    async fn put(&self, _path: &str, _options: PutOptions) -> Result<Box<dyn Upload>> {
        unsupported(self, "write files")
    }
    /// Removes a file, a link or an empty directory. A directory that is not empty is
    /// [`ErrorKind::Invalid`].
    async fn remove(&self, _path: &str) -> Result<()> {
        unsupported(self, "remove files")
    }
    /// Removes a file with wrong content, if it is certainly the version of `entry`: another client
    /// may have replaced it. Returns true if it was removed.
    async fn remove_version(&self, entry: &DirEntry) -> Result<bool> {
        let now = self.stat(&entry.path).await?;
        if entry.validator.is_none() || now.validator != entry.validator || now.size != entry.size {
            return Ok(false);
        }
        self.remove(&entry.path).await.map(|()| true)
    }
    /// Removes an entry that is listed as a directory if it is empty, and follows no link. A link
    /// in its place is removed only if `may_be_link`. Storages that list links as links need not
    /// try, and return [`DirectoryRemoval::NotEmpty`].
    async fn remove_directory(&self, _path: &str, _may_be_link: bool) -> Result<DirectoryRemoval> {
        Ok(DirectoryRemoval::NotEmpty)
    }
    /// Removes a file, or a directory with all that is in it. Links in it are removed, not
    /// followed.
    async fn remove_tree(&self, _path: &str) -> Result<()> {
        unsupported(self, "remove directories")
    }
    /// Renames a file or directory; an existing entry of the new name is replaced only if
    /// `overwrite`. Its own name is [`ErrorKind::Invalid`].
    async fn rename(&self, _from: &str, _to: &str, _overwrite: bool) -> Result<()> {
        unsupported(self, "rename files")
    }
    /// Makes `to`, which is replaced, a copy of `from`, another file of the storage.
    async fn copy_file(&self, _from: &str, _to: &str) -> Result<()> {
        unsupported(self, "copy files")
    }
    /// Makes a directory in an existing one; if it exists itself, the error is
    /// [`ErrorKind::AlreadyExists`].
    async fn make_directory(&self, _path: &str) -> Result<()> {
        unsupported(self, "make directories")
    }
    /// The times of its files, as far as earlier requests have shown.
    fn file_times(&self) -> FileTimes {
        FileTimes::default()
    }
    /// Returns true if the storage is known to have [`Storage::tree`].
    fn has_trees(&self) -> bool {
        false
    }
    /// A stream of the entries below a directory; none if the storage has no streams.
    async fn tree(
        &self,
        _directory: &str,
        _request: TreeRequest,
    ) -> Result<Option<Box<dyn TreeEvents>>> {
        Ok(None)
    }
    /// Returns true if the storage is known to have [`Storage::put_tree`].
    fn puts_trees(&self) -> bool {
        false
    }
    /// Writes at most [`MAX_TREE_PATHS`] directories and small files below a directory, in this
    /// order, and returns the result of each: its entry, or the error. A result is final, also if
    /// the storage's machine crashes. There are fewer results than files if the storage stopped
    /// early; files without a result may be written or not. None if the storage accepts no streams.
    async fn put_tree(
        &self,
        _directory: &str,
        _files: Vec<TreeUpload>,
    ) -> Result<Option<Vec<Result<StoredEntry>>>> {
        Ok(None)
    }
    /// The checksum of a file if the server can state it without sending the file.
    async fn checksum(&self, _path: &str, _algorithm: Algorithm) -> Result<Option<Checksum>> {
        Ok(None)
    }
}

/// The error of a storage that cannot do something.
fn unsupported<T>(storage: &(impl Storage + ?Sized), what: &str) -> Result<T> {
    let what = format!("{}: this storage cannot {what}", storage.name());
    Err(Error::new(ErrorKind::Unsupported, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_within_the_difference_of_clocks_decide_nothing() {
        for (written, changed, are_kept, ahead, source_ahead, expected) in [
            (6, 7, false, None, None, Some(false)),
            (-7, 7, false, None, None, Some(false)),
            (-7, -9, false, None, None, Some(true)),
            (8, 7, false, None, None, Some(true)),
            (7, 7, false, None, None, None),
            (7, 7, true, None, None, Some(true)),
            (307, 7, false, Some(300), None, None),
            (307, 7, true, Some(300), None, None),
            (308, 7, false, Some(300), None, Some(true)),
            (7, 7, true, Some(300), None, Some(true)),
            // Both are ahead, or the source is behind.
            (8, 7, false, Some(300), Some(300), Some(true)),
            (10, 7, false, Some(0), Some(-3), None),
            (8, 7, false, Some(-300), None, Some(true)),
        ] {
            let times = FileTimes { are_kept, ahead_seconds: ahead };
            let source = FileTimes { are_kept: false, ahead_seconds: source_ahead };
            assert_eq!(times.is_newer(written, changed, &source), expected, "{written} {times:?}");
        }
    }
}
