//! The partial files that are being written in place.
//!
//! A part is written through a descriptor, which refers to the file also after a renaming. So
//! before a file gets another name it is closed to its writers: the renaming waits for running
//! writes, and later ones are refused. A later writer opens the file anew, under its new name.

use crate::backend::disk::metadata::FileId;
use crate::backend::{BackendError, BackendErrorKind};
use hither_core::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

/// The files of a tree that are written in place.
#[derive(Debug, Default)]
pub(crate) struct OpenParts(Mutex<HashMap<FileId, Weak<PartFence>>>);

/// A file that is written in place, shared by its present writers.
#[derive(Debug, Default)]
pub(crate) struct PartFence {
    /// Read while bytes are written.
    is_closed: RwLock<bool>,
}

impl OpenParts {
    /// Adds a writer of a file.
    pub(crate) fn open(&self, file: FileId) -> Arc<PartFence> {
        let mut files = lock(&self.0);
        files.retain(|_, fence| fence.strong_count() > 0);
        if let Some(fence) = files.get(&file).and_then(Weak::upgrade) {
            return fence;
        }
        let fence = Arc::new(PartFence::default());
        files.insert(file, Arc::downgrade(&fence));
        fence
    }

    /// Returns true if a file has writers.
    pub(crate) fn is_open(&self, file: FileId) -> bool {
        lock(&self.0).get(&file).is_some_and(|fence| fence.strong_count() > 0)
    }

    /// Closes a file to its present writers, after their running writes.
    pub(crate) fn close(&self, file: FileId) {
        let fence = lock(&self.0).remove(&file).and_then(|fence| fence.upgrade());
        if let Some(fence) = fence {
            *fence.is_closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        }
    }
}

impl PartFence {
    /// Begins to write. The file is not closed before the guard is dropped.
    pub(crate) fn begin(&self) -> Result<RwLockReadGuard<'_, bool>, BackendError> {
        let is_closed = self.is_closed.read().unwrap_or_else(PoisonError::into_inner);
        if *is_closed { Err(renamed()) } else { Ok(is_closed) }
    }
}

/// The error of a part whose file has been renamed or removed.
pub(crate) fn renamed() -> BackendError {
    let what = "the partial file was moved, replaced or removed while this part was written";
    BackendError::new(BackendErrorKind::Conflict, what)
}
