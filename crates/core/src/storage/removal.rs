//! Removal of a directory by itself.

/// The outcome of [`Storage::remove_directory`](super::Storage::remove_directory).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryRemoval {
    /// It was empty, and was removed.
    Removed,
    /// It is not empty, as far as the storage can determine, and was not removed.
    NotEmpty,
    /// It is a link to a directory, and was not removed.
    Link,
}
