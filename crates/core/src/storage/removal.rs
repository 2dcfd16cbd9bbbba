//! Removal of a directory by itself.

/// The outcome of [`Storage::remove_directory`](super::Storage::remove_directory).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryRemoval {
    /// It was empty, and is removed.
    Removed,
    /// Something is in it, as far as the storage can tell. It is still there.
    NotEmpty,
    /// It is a link to a directory, and still there.
    Link,
}
