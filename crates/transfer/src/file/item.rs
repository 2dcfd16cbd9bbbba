//! A file to be copied, before it is opened.

use crate::copy::bandwidth_limiter::Directions;
use crate::copy::target_directory::TargetDirectory;
use crate::destination::{CopyPath, Target};
use crate::file::upload_range::UploadRange;
use hither_core::storage::{file_name, is_page};
use hither_core::{Backoff, DirEntry, Storage, range};
use std::path::PathBuf;
use std::sync::Arc;

/// A file to be copied.
#[derive(Debug, Clone)]
pub(crate) struct CopyItem {
    pub(crate) storage: Arc<dyn Storage>,
    /// From the storage's root.
    pub(crate) path: String,
    /// For messages.
    pub(crate) name: String,
    /// The local path, if the file is on this machine.
    pub(crate) local: Option<PathBuf>,
    /// Its directory entry, if known.
    pub(crate) entry: Option<DirEntry>,
    /// Its permissions, if its server states them.
    pub(crate) mode: Option<u32>,
    pub(crate) target: Target,
    /// The parent directory of the target, if the file is a part of a tree.
    pub(crate) directory: Option<Arc<TargetDirectory>>,
    /// The file was found in a tree.
    pub(crate) is_of_tree: bool,
    /// The file changed once already while it was copied.
    pub(crate) restarted: bool,
    /// Attempts that failed.
    pub(crate) backoff: Backoff,
    /// The file is copied as a whole, as a task of its own.
    pub(crate) is_small: bool,
    /// Only this much of it is copied.
    pub(crate) range: Option<Arc<UploadRange>>,
}

impl CopyItem {
    /// The file at `source`, for a first attempt.
    pub(crate) fn new(source: CopyPath, entry: Option<DirEntry>, target: Target) -> Self {
        Self {
            name: source.name(),
            storage: source.storage,
            path: source.path,
            local: source.local,
            entry,
            mode: None,
            target,
            directory: None,
            is_of_tree: false,
            restarted: false,
            backoff: Backoff::default(),
            is_small: false,
            range: None,
        }
    }

    /// A file of a tree, which was listed.
    pub(crate) fn listed(
        storage: &Arc<dyn Storage>,
        entry: DirEntry,
        local: Option<PathBuf>,
        target: Target,
    ) -> Self {
        let storage = Arc::clone(storage);
        let path = entry.path.clone();
        let source = CopyPath { storage, path, local, is_directory: false, contents: false };
        Self { is_of_tree: true, ..Self::new(source, Some(entry), target) }
    }

    /// The directions in which it moves through this machine: both, if it stays here.
    pub(crate) fn directions(&self) -> Directions {
        let is_local = self.local.is_some();
        let is_sent = matches!(self.target, Target::Remote(..));
        Directions { down: !is_local || !is_sent, up: is_sent || is_local }
    }

    /// The bytes to be copied of a file of `size` bytes.
    pub(crate) fn bytes(&self, size: u64) -> u64 {
        self.range.as_ref().map_or(size, |part| range::len(&part.range))
    }

    /// Returns true if the file was listed, and not under the name of a page.
    pub(crate) fn refuses_pages(&self) -> bool {
        self.entry.is_some() && !is_page(&self.path)
    }

    /// Returns true if the name of the file has an ending, and not that of a page.
    pub(crate) fn is_named_as_data(&self) -> bool {
        let (stem, ending) = file_name(&self.path).rsplit_once('.').unwrap_or_default();
        !stem.is_empty() && !ending.is_empty() && !is_page(&self.path)
    }

    /// The size of its directory entry, for progress.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.entry.as_ref().map_or(0, DirEntry::counted_bytes)
    }
}
