//! Files and directories that a backend visits in a batch.

use crate::backend::{BackendError, EntryMetadata};
use std::fmt::{self, Debug};
use std::io;
use std::ops::ControlFlow;

/// Visits a file of a batch, by its index, and returns whether to continue.
pub type FileVisitor =
    Box<dyn FnMut(usize, Result<VisitedFile<'_>, BackendError>) -> ControlFlow<()> + Send>;

/// An open file or directory of a batch.
pub struct VisitedFile<'a> {
    /// Its metadata.
    pub metadata: &'a EntryMetadata,
    /// Reads its first bytes; fails if it has fewer.
    pub read: &'a mut dyn FnMut(&mut [u8]) -> io::Result<()>,
}

impl Debug for VisitedFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VisitedFile").field(self.metadata).finish()
    }
}
