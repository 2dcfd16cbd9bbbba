//! The metadata of a file or directory.

use hither_core::storage::FileKind;
use hither_http::conditions::Version;
use std::time::SystemTime;

/// The metadata of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryMetadata {
    /// The kind; never a link.
    pub kind: FileKind,
    /// The size in bytes, 0 for a directory; none for a file of another server that does not state
    /// it.
    pub size: Option<u64>,
    /// The entity tag and the time of the last change.
    pub version: Version,
    /// The time of creation, where that is known.
    pub created: Option<SystemTime>,
    /// The permission bits, where there are any.
    pub mode: Option<u32>,
}

impl EntryMetadata {
    /// Returns whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// The size of a file that is open, which is known.
    #[must_use]
    pub fn open_bytes(&self) -> u64 {
        self.size.unwrap_or_default()
    }
}
