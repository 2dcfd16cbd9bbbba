//! The small files of trees that wait for a worker, and the batches that workers take.
//!
//! A worker takes its share of the waiting files. So at the beginning, when the first names have
//! arrived, all workers start at once with a few files each. Later, batches are large compared with
//! a round trip, and at the end all workers end at nearly the same time.

use crate::copy::resources::results::CopyResults;
use crate::destination::{CopyPath, Target};
use crate::file::item::CopyItem;
use crate::file::version::FileVersion;
use crate::options::{CopyOptions, Verify};
use hither_core::storage::{MAX_SMALL_BYTES, TreeFile, join};
use hither_core::{DirEntry, FileKind, Result, Storage};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// The largest number of files that wait, some 200 bytes each. At the limit the walk is not read.
const MAX_WAITING: usize = 16_384;
/// The fewest and the most files in a batch.
const MIN_FILES: usize = 16;
const MAX_FILES: usize = 1024;
/// The most bytes in a batch: these move between two syncs, and move again after a crash.
pub(crate) const MAX_BYTES: u64 = 8 << 20;

/// A tree that is being copied.
#[derive(Debug)]
pub(crate) struct TreeRoot {
    /// The storage of the source.
    pub(crate) storage: Arc<dyn Storage>,
    /// The directory, from the storage's root.
    pub(crate) directory: String,
    pub(crate) target: Target,
    /// The directory on this machine, if it is here.
    pub(crate) local: Option<PathBuf>,
    name: String,
    /// Small files move in batches.
    pub(crate) takes_batches: bool,
}

/// A small file that waits.
#[derive(Debug)]
pub(crate) struct SmallFile {
    pub(crate) root: Arc<TreeRoot>,
    pub(crate) file: TreeFile,
}

/// Small files of one tree that a worker copies together.
#[derive(Debug)]
pub(crate) struct TreeBatch {
    pub(crate) root: Arc<TreeRoot>,
    pub(crate) files: Vec<TreeFile>,
}

/// The small files that wait.
#[derive(Debug, Default)]
pub(crate) struct SmallFiles {
    waiting: VecDeque<SmallFile>,
    /// Batches that workers have.
    batches: usize,
}

impl TreeRoot {
    pub(crate) fn new(source: &CopyPath, target: &Target, options: &CopyOptions) -> Self {
        // Where a checksum is requested, each file is compared with that of its server; and these
        // limits apply to files and their pieces. Staged files are queued one by one.
        let is_limited =
            options.bandwidth.is_some() || options.transfers.is_some() || options.attempts > 1;
        let explicit = matches!(options.verify, Verify::Algorithm(_) | Verify::Value(_));
        let has_batches = match target {
            Target::Local(_) => true,
            // The entries of existing targets are requested in batches, too.
            Target::Remote(storage, _) => {
                source.local.is_some() && storage.puts_trees() && storage.has_trees()
            }
            Target::Output | Target::Discard => false,
        };
        let is_staged = options.stager.is_some() && source.local.is_none();
        Self {
            storage: Arc::clone(&source.storage),
            directory: source.path.clone(),
            target: target.clone(),
            local: source.local.clone(),
            name: source.name(),
            takes_batches: has_batches && !explicit && !is_limited && !is_staged,
        }
    }

    /// Returns true if the files are uploaded.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.target, Target::Remote(..))
    }

    /// A directory that is to be made, with those that it is in.
    pub(crate) fn directory(self: &Arc<Self>, relative: &str) -> SmallFile {
        let relative = relative.to_owned();
        let path = join(&self.directory, &relative);
        let entry = DirEntry::new(path, FileKind::Directory, 0);
        let file = TreeFile { relative, entry, mode: None };
        SmallFile { root: Arc::clone(self), file }
    }

    /// The target of a path in the tree; of the tree itself for an empty one.
    pub(crate) fn target_of(&self, relative: &str) -> Result<Target> {
        let mut names = relative.split('/').filter(|_| !relative.is_empty());
        names.try_fold(self.target.clone(), |target, name| target.join(name))
    }

    /// Returns true if a file may be one of a batch.
    pub(crate) fn takes(&self, entry: &DirEntry) -> bool {
        self.takes_batches && entry.size.is_some_and(|size| size <= MAX_SMALL_BYTES)
    }

    /// A file in the tree that is copied by itself.
    pub(crate) fn item(&self, TreeFile { relative, entry, .. }: TreeFile) -> Result<CopyItem> {
        let local = self.local.as_ref().map(|local| local.join(&relative));
        Ok(CopyItem::listed(&self.storage, entry, local, self.target_of(&relative)?))
    }

    /// Has a listing show under which name a file or directory that was sent is stored.
    pub(crate) fn note_name(&self, results: &CopyResults, file: &TreeFile) {
        let Ok(target) = self.target_of(&file.relative) else { return };
        let is_file = file.entry.kind == FileKind::File;
        let seen = is_file.then(|| (FileVersion::of(&file.entry), file.entry.counted_bytes()));
        results.note_name(&target, self.name_of(&file.relative), seen);
    }

    /// The path of a file in the tree, for messages.
    pub(crate) fn name_of(&self, relative: &str) -> String {
        format!("{}/{relative}", self.name.trim_end_matches('/'))
    }
}

impl SmallFiles {
    /// The list of those that wait, if there is room for another one.
    pub(crate) fn room(&mut self) -> Option<&mut VecDeque<SmallFile>> {
        (self.waiting.len() < MAX_WAITING).then_some(&mut self.waiting)
    }

    /// The number of batches that workers have.
    pub(crate) fn batches(&self) -> usize {
        self.batches
    }

    /// True if nothing waits, and no worker has a batch.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.batches == 0
    }

    /// The share of one of `workers`.
    pub(crate) fn take(&mut self, workers: usize) -> Option<TreeBatch> {
        let root = Arc::clone(&self.waiting.front()?.root);
        let count = self.waiting.len().div_ceil(workers.max(1)).clamp(MIN_FILES, MAX_FILES);
        let mut files = Vec::with_capacity(count.min(self.waiting.len()));
        let mut bytes = 0;
        while files.len() < count
            && bytes < MAX_BYTES
            && let Some(next) = self.waiting.pop_front_if(|next| Arc::ptr_eq(&next.root, &root))
        {
            bytes += next.file.entry.counted_bytes();
            files.push(next.file);
        }
        self.batches += 1;
        Some(TreeBatch { root, files })
    }

    pub(crate) fn ended_batch(&mut self) {
        self.batches = self.batches.saturating_sub(1);
    }
}
