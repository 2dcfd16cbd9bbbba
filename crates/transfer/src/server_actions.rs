//! Actions of servers that a copy requests: staging files from tape to disk, and moving files
//! between two servers. Callers that know the protocols implement these traits.

pub(crate) mod staging;
pub(crate) mod third_party;

use futures_core::future::BoxFuture;
use hither_core::storage::StagingState;
use hither_core::{Error, Result, Storage};
use std::fmt::Debug;
use std::sync::Arc;

/// Stages files to disk.
pub trait Stager: Send + Sync + Debug {
    /// Requests staging of these files, once from each server.
    fn stage(
        &self,
        files: Vec<(Arc<dyn Storage>, String)>,
    ) -> BoxFuture<'_, Result<Box<dyn Staging>>>;
}

/// A request for files that are being staged.
pub trait Staging: Send + Debug {
    /// The states of all files, in the order in which they were given.
    fn progress(&mut self) -> BoxFuture<'_, Result<Vec<StagingState>>>;
    /// Facts for the user.
    fn notices(&self) -> Vec<String>;
}

/// One file to be moved between two servers.
#[derive(Debug, Clone, Copy)]
pub struct ThirdPartyMove<'a> {
    /// The storage of the source.
    pub source: &'a dyn Storage,
    /// Its path there.
    pub source_path: &'a str,
    /// The storage of the target.
    pub target: &'a dyn Storage,
    /// Its path there.
    pub target_path: &'a str,
    /// The size in bytes.
    pub size: u64,
    /// Replaces a file of that name.
    pub overwrite: bool,
}

/// Takes the number of bytes that have been moved so far.
pub type MovedBytes = Arc<dyn Fn(u64) + Send + Sync>;

/// Has two servers move a file.
pub trait ThirdPartyMover: Send + Sync + Debug {
    /// Moves a file. Dropping the future stops the move.
    fn move_file<'a>(
        &'a self,
        file: ThirdPartyMove<'a>,
        moved: MovedBytes,
    ) -> BoxFuture<'a, Result<()>>;

    /// Returns true if a file that failed with `error` is to be copied through this machine.
    fn falls_back(&self, error: &Error) -> bool;
}
