//! The directories in which a server has refused a method.
//!
//! A server may have a method below one path and not below another. So what was learned of PROPFIND
//! holds for one tree, and a directory of it that the other methods do not show is asked for after
//! all. What was learned of MOVE holds for files that nothing is lost of; before one is replaced in
//! place, its own directory has to have refused.

use hither_core::sync::lock;
use std::collections::HashSet;
use std::sync::Mutex;

/// The maximum number of directories that are remembered.
const MAX_DIRECTORIES: usize = 10_000;

/// The directories of a tree in which the server has refused a method.
#[derive(Debug, Default)]
pub(super) struct MethodRefusals(Mutex<HashSet<String>>);

impl MethodRefusals {
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
