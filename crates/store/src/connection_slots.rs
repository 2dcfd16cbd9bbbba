//! The connections of all processes of a user on this machine to one server, counted together.
//!
//! A connection holds a lock on one of as many empty files as there may be connections. The kernel drops a lock with
//! the process, however it ends, so nothing has to be cleaned up and no count can be wrong for long. Who finds all
//! files locked gets no further connection, but every process may have one: a cap that is reached makes jobs slower, it
//! does not stop them.

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};
use xxhash_rust::xxh64::xxh64;

/// What the names of the files begin with. They count as files of the store, so those of servers not visited any more go
/// when there are too many.
pub(crate) const PREFIX: &str = "connection-";

/// The name of the `nth` file of a server.
pub(crate) fn file_name(server: &str, nth: usize) -> String {
    format!("{PREFIX}{:016x}-{nth}", xxh64(server.as_bytes(), 0))
}

/// Whether there may be one connection more.
#[derive(Debug)]
pub enum ConnectionClaim {
    /// There may, until this is dropped.
    Granted(ConnectionSlot),
    /// There are as many as there may be.
    Full,
    /// The count cannot be kept here.
    Unknown,
}

/// The right to one connection, until dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    /// Locked.
    _file: OwnedFd,
}

impl ConnectionSlot {
    /// Locks `file`, if nobody else has.
    pub(crate) fn take(file: OwnedFd) -> Option<Self> {
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { _file: file })
    }
}
