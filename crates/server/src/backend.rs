//! The tree that is served: names, files, checksums, and the threads that may wait for the disk.

pub(crate) mod disk;
pub(crate) mod path;
