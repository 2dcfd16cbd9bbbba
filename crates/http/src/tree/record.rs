//! The records of a tree, and their format.
//!
//! Each has a header of 12 bytes: the kind (1 byte), the length of its text (3), the length of its
//! content (4), and a CRC32C over these eight bytes, the text and the content; all big-endian.

use super::{MAX_CONTENT_BYTES, MAX_DEPTH, MAX_PATH_BYTES};
use crate::date::LAST_SECOND;
use crate::vector::leb128::{self, put, unzigzag, zigzag};
use bytes::Bytes;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Size of the header of a record.
pub(super) const HEADER_BYTES: usize = 12;
/// Maximum size of the text of a record: a path, an entity tag or a reason, and numbers.
pub(super) const MAX_TEXT_BYTES: usize = MAX_PATH_BYTES + MAX_ETAG_BYTES + MAX_REASON_BYTES + 64;
/// Maximum size of a record without content, in bytes.
pub const MAX_RESULT_BYTES: usize = HEADER_BYTES + MAX_TEXT_BYTES;
/// Maximum size of an entity tag, and of a reason. Longer ones are cut, or omitted.
pub(super) const MAX_ETAG_BYTES: usize = 256;
pub(super) const MAX_REASON_BYTES: usize = 1024;

pub(super) const DIRECTORY: u8 = b'D';
pub(super) const FILE: u8 = b'F';
pub(super) const CONTENT: u8 = b'C';
pub(super) const STORED: u8 = b'S';
pub(super) const FAILED: u8 = b'E';
pub(super) const LEFT_OUT: u8 = b'L';
pub(super) const END: u8 = b'Z';

/// Flags of an entry.
const HAS_TIME: u64 = 1;
const HAS_MODE: u64 = 2;
const ONLY_NEW: u64 = 4;
const REPLACED: u64 = 8;

/// A file or directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its path below the directory of the request.
    pub path: String,
    /// The size in bytes; 0 for a directory.
    pub size: u64,
    /// The time of the last change.
    pub modified: Option<SystemTime>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// The entity tag of this version; empty if it is not known. In an upload, that of the version
    /// to be replaced.
    pub etag: String,
    /// In an upload: an existing file must not be replaced.
    pub only_new: bool,
    /// In the response to an upload: the file was replaced, or the entry existed before.
    pub replaced: bool,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeRecord {
    /// A directory, before its entries.
    Directory(TreeEntry),
    /// A file, without its bytes.
    File(TreeEntry),
    /// A file with its bytes, in pieces.
    Content(TreeEntry, Vec<Bytes>),
    /// A file or directory that an upload has made.
    Stored(TreeEntry),
    /// A path that failed, alone.
    Failed {
        /// The path.
        path: String,
        /// The status that a request for this path alone would have had.
        status: u16,
        /// The reason.
        reason: String,
    },
    /// An entry that is neither a file nor a directory, or a link that is not followed.
    LeftOut {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
}

/// Returns true if this is a path below a directory: names separated by single slashes, none of
/// them empty, `.` or `..`, without NUL, and not too long. The directory itself, an empty path,
/// does not count.
#[must_use]
pub fn check_path(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    path.len() <= MAX_PATH_BYTES
        && path.split('/').all(is_name)
        && path.split('/').count() <= MAX_DEPTH
}

impl TreeEntry {
    /// Appends the text of an entry.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        // Times before 1970 count as unknown.
        let since = self.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let since = since.filter(has_form);
        let flags = flag(since.is_some(), HAS_TIME)
            | flag(self.mode.is_some(), HAS_MODE)
            | flag(self.only_new, ONLY_NEW)
            | flag(self.replaced, REPLACED);
        put(out, flags);
        put(out, self.size);
        if let Some(since) = since {
            put(out, zigzag(since.as_secs()));
            put(out, u64::from(since.subsec_nanos()));
        }
        if let Some(mode) = self.mode {
            put(out, u64::from(mode & 0o7777));
        }
        let etag = Some(self.etag.as_str()).filter(|etag| etag.len() <= MAX_ETAG_BYTES);
        put_text(out, etag.unwrap_or_default());
        out.extend_from_slice(self.path.as_bytes());
    }

    /// Parses the text of an entry.
    pub(super) fn take(mut text: &[u8]) -> Option<Self> {
        let text = &mut text;
        let flags = leb128::take(text).ok()?;
        let size = leb128::take(text).ok()?;
        let mut modified = None;
        if flags & HAS_TIME != 0 {
            let seconds = u64::try_from(unzigzag(leb128::take(text).ok()?)).ok()?;
            let nanoseconds = u32::try_from(leb128::take(text).ok()?).ok()?;
            let is_fraction = nanoseconds < 1_000_000_000;
            let since = is_fraction.then(|| Duration::new(seconds, nanoseconds))?;
            modified = Some(since).filter(has_form).map(|since| UNIX_EPOCH + since);
        }
        let mut mode = None;
        if flags & HAS_MODE != 0 {
            mode = Some(u32::try_from(leb128::take(text).ok()?).ok()? & 0o7777);
        }
        let etag = take_text(text, MAX_ETAG_BYTES)?;
        let path = path(text)?;
        let only_new = flags & ONLY_NEW != 0;
        let replaced = flags & REPLACED != 0;
        Some(Self { path, size, modified, mode, etag, only_new, replaced })
    }
}

/// Returns true if a time after 1970 can be written in all forms of dates; other times count as
/// unknown.
fn has_form(since: &Duration) -> bool {
    since.as_secs() <= LAST_SECOND
}

/// Parses a text that ends with a path.
pub(super) fn path(text: &[u8]) -> Option<String> {
    std::str::from_utf8(text).ok().filter(|path| check_path(path)).map(str::to_owned)
}

/// The first bytes of a reason, as many as fit.
pub(super) fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.get(..end).unwrap_or_default()
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn take_text(rest: &mut &[u8], most: usize) -> Option<String> {
    let length = usize::try_from(leb128::take(rest).ok()?).ok().filter(|length| *length <= most)?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

/// The header of a record, without its checksum.
pub(super) fn head(kind: u8, text: usize, content: usize) -> [u8; 8] {
    // Both lengths are checked against their maximum before.
    let text = u32::try_from(text).unwrap_or(u32::MAX).to_be_bytes();
    let content = u32::try_from(content).unwrap_or(u32::MAX).to_be_bytes();
    let mut head = [kind, 0, 0, 0, 0, 0, 0, 0];
    for (to, from) in head.iter_mut().skip(1).zip(text.iter().skip(1).chain(&content)) {
        *to = *from;
    }
    head
}

/// The kind, the length of the text and that of the content; none if they are too large.
pub(super) fn lengths(head: [u8; 8]) -> Option<(u8, usize, usize)> {
    let [kind, t1, t2, t3, c1, c2, c3, c4] = head;
    let text = usize::try_from(u32::from_be_bytes([0, t1, t2, t3])).ok()?;
    let content = u32::from_be_bytes([c1, c2, c3, c4]);
    let fits = text <= MAX_TEXT_BYTES && content <= MAX_CONTENT_BYTES;
    fits.then_some((kind, text, usize::try_from(content).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_no_form_is_not_known() {
        let taken = |seconds| {
            let modified = Some(UNIX_EPOCH + Duration::from_secs(seconds));
            let mut text = Vec::new();
            TreeEntry { path: "f".to_owned(), modified, ..TreeEntry::default() }.put(&mut text);
            TreeEntry::take(&text).unwrap().modified
        };
        assert_eq!(taken(LAST_SECOND), Some(UNIX_EPOCH + Duration::from_secs(LAST_SECOND)));
        assert_eq!(taken(LAST_SECOND + 1), None);
        // From a peer that states it all the same, also where no time is so late.
        for seconds in [LAST_SECOND + 1, i64::MAX as u64] {
            let mut text = Vec::new();
            put(&mut text, HAS_TIME);
            put(&mut text, 0);
            put(&mut text, zigzag(seconds));
            put(&mut text, 0);
            put_text(&mut text, "");
            text.push(b'f');
            assert_eq!(TreeEntry::take(&text).unwrap().modified, None);
        }
    }
}
