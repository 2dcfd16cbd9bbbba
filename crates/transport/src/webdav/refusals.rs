//! The directories in which a server has refused a method.
//!
//! A server may support a method below one path and not below another. So the knowledge about
//! PROPFIND applies to one tree, and PROPFIND is still tried for a directory of it that the other
//! methods do not show. The knowledge about MOVE applies only where no bytes can be lost: before a
//! file is replaced in place, its own directory must have refused MOVE.

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
