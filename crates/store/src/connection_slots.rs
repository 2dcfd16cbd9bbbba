//! Connection slots: the connections of all processes of a user to one server, counted together.
//!
//! A connection holds a lock on one of a fixed number of empty files. The kernel releases the lock
//! when the process ends, however it ends, so no cleanup is needed and no count stays wrong. A
//! process that finds all files locked gets no further connection, but every process may have one:
//! reaching the limit slows jobs down and never stops them.

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};
use xxhash_rust::xxh64::xxh64;

/// The prefix of the files' names. They count as files of the store, so that those of servers no
/// longer visited are evicted.
pub(crate) const PREFIX: &str = "connection-";

/// The name of the `nth` file of a server.
pub(crate) fn file_name(server: &str, nth: usize) -> String {
    format!("{PREFIX}{:016x}-{nth}", xxh64(server.as_bytes(), 0))
}

/// The right to one connection, until dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    /// The locked file.
    _file: OwnedFd,
}

impl ConnectionSlot {
    /// Locks `file`; `None` if another process holds the lock.
    pub(crate) fn take(file: OwnedFd) -> Option<Self> {
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { _file: file })
    }
}
