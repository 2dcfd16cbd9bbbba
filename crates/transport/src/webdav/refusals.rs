//! The directories in which a server has refused a PROPFIND.
//!
//! A server may have the method below one path and not below another. So what was learned holds for
//! one tree, and a directory of it that the other methods do not show is asked for after all.

use hither_core::sync::lock;
use std::collections::HashSet;
use std::sync::Mutex;

/// The maximum number of directories that are remembered.
const MAX_DIRECTORIES: usize = 10_000;

/// The directories of a tree in which the server has refused a PROPFIND.
#[derive(Debug, Default)]
pub(super) struct PropfindRefusals(Mutex<HashSet<String>>);

impl PropfindRefusals {
    /// Adds a directory.
    pub(super) fn add(&self, directory: &str) {
        let mut refused = lock(&self.0);
        if refused.len() < MAX_DIRECTORIES {
            refused.insert(directory.to_owned());
        }
    }

    /// Returns true if there is one.
    pub(super) fn any(&self) -> bool {
        !lock(&self.0).is_empty()
    }

    /// Returns true if `directory` is one.
    pub(super) fn has(&self, directory: &str) -> bool {
        lock(&self.0).contains(directory)
    }
}
