//! Brings the trees of a file to its [`ColumnarPrefetcher`], and what that has learned to the store.
//!
//! The trees of a file that is a ROOT file, by name or by its first bytes, are opened when a program shows that it reads it
//! piece by piece: it waits for a read of the middle of the file which is not of thousands of places at once, or for its
//! second read. Their requests are then under way together with that read. A file that was opened ahead, as one of many, is given two more chances. Files
//! that are read without waiting need no trees.

use super::schema_hash;
use crate::file::origin::FileOrigin;
use crate::open_ahead::gate::MAX_WAITS;
use crate::tree::root_opener::RootOpener;
use hither_core::cache::file::{CachedFile, WeakFile};
use hither_core::error::Result;
use hither_core::prefetch::columnar::{ColumnarPrefetcher, ColumnarPrefetcherHandle, LearnedSet};
use hither_core::prefetch::{Access, Advice, PrefetchContext, Prefetcher};
use hither_formats::NeededRanges;
use hither_formats::root::{BasketMap, Tree, TreeKey};
use hither_store::Store;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Trees of a file that are opened, and bytes of their objects.
const MAX_TREES: usize = 64;
const MAX_TREE_BYTES: u64 = 64 << 20;
/// A program that reads anything of the first bytes opens the file itself, and will read the trees' objects as well.
const HEAD_BYTES: u64 = 512;
/// Ranges of a vector read that may be those of a step. Who names more at once has nothing left to ask for.
const MAX_OF_A_STEP: usize = 1000;
/// What a ROOT file begins with.
const MAGIC: &[u8] = b"root";

/// Schema and name of each tree, once they are known.
type Schemas = Arc<Mutex<Vec<(String, String)>>>;

/// The advisor of one open file.
pub(crate) struct LearningPrefetcher {
    cache: ColumnarPrefetcher<BasketMap>,
    schemas: Schemas,
    store: Option<Arc<Store>>,
}

impl fmt::Debug for LearningPrefetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foresight").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl Prefetcher for LearningPrefetcher {
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice {
        self.cache.observe(access, conditions)
    }
}

/// Begins to open the trees; it is told a byte that the program is waiting for.
type Begin = Box<dyn FnOnce(u64) + Send>;

/// Opens the trees when it is time.
#[derive(Default)]
pub(crate) struct LazyTreeOpener {
    begin: Mutex<Option<Begin>>,
    waits: AtomicU32,
    /// Only the first bytes tell whether there are any.
    by_content: bool,
    head_read: AtomicBool,
}

impl fmt::Debug for LazyTreeOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreesInTime").field("waits", &self.waits).finish_non_exhaustive()
    }
}

impl LazyTreeOpener {
    /// The program waits for a read of so many `ranges`, the first of them at `offset`.
    pub(crate) fn on_wait(&self, offset: u64, ranges: usize, opened_ahead: bool) {
        let before = self.waits.fetch_add(1, Ordering::Relaxed);
        if offset < MAGIC.len() as u64 {
            self.head_read.store(true, Ordering::Relaxed);
        }
        let enough = match opened_ahead {
            true => MAX_WAITS,
            false => u32::from(ranges > MAX_OF_A_STEP || offset < HEAD_BYTES),
        };
        if before < enough || (self.by_content && !self.head_read.load(Ordering::Relaxed)) {
            return;
        }
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begin) = begin {
            begin(offset);
        }
    }
}

/// The file is closed: what was learned is kept.
impl Drop for LearningPrefetcher {
    fn drop(&mut self) {
        let Some(store) = &self.store else { return };
        let schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        for (tree, set) in self.cache.handle().learned_sets() {
            if let Some((schema, name)) = schemas.get(tree) {
                store.put_learned(schema, name, set, SystemTime::now());
            }
        }
    }
}

/// Makes `file` prefetch columns of trees, once its trees are open; `by_offset` prefetches the rest.
pub(crate) fn attach(
    origin: &Arc<FileOrigin>,
    file: &CachedFile,
    by_offset: Box<dyn Prefetcher>,
) -> LazyTreeOpener {
    let context = &origin.context;
    let config = &context.config.tree_cache;
    let cache = ColumnarPrefetcher::new(config.columnar(), Some(by_offset));
    let by_content = !is_root_name(&origin.name());
    let schemas = Schemas::default();
    let store = context.store.clone().filter(|_| config.remember);
    let loader = TreeLoader {
        file: origin.unrecorded(),
        read: file.downgrade(),
        handle: cache.handle(),
        by_content,
        schemas: Arc::clone(&schemas),
        store: store.clone(),
    };
    let runtime = context.network.runtime().clone();
    let begin = move |read: u64| drop(runtime.spawn(loader.run(read)));
    file.set_advisor(Box::new(LearningPrefetcher { cache, schemas, store }));
    LazyTreeOpener { begin: Mutex::new(Some(Box::new(begin))), by_content, ..Default::default() }
}

/// Opens the trees of a file while the program reads it.
struct TreeLoader {
    /// The file below every cache: what does not fit into the cache is requested from the server.
    file: FileOrigin,
    /// The file as the program reads it.
    read: WeakFile,
    handle: ColumnarPrefetcherHandle<BasketMap>,
    by_content: bool,
    schemas: Schemas,
    store: Option<Arc<Store>>,
}

impl TreeLoader {
    /// `read` is a byte that the program is waiting for.
    async fn run(self, read: u64) {
        // That the trees cannot be read is not the program's concern unless it reads them.
        if !matches!(self.tell_trees(read).await, Ok(true)) {
            self.handle.set_no_layout();
        }
    }

    /// Tells the trees as soon as they are known; false if this is no ROOT file.
    async fn tell_trees(&self, read: u64) -> Result<bool> {
        if self.by_content && !self.is_root().await? {
            return Ok(false);
        }
        let (opening, known) = RootOpener::new(&self.file).with_store();
        if known {
            let validator = opening.validator();
            self.tell_trees_of(opening, known, read).await?;
            let Some(file) = self.read.upgrade() else { return Ok(true) };
            // The answer to the program's read tells whether what the store has is still true.
            file.read_untracked(std::slice::from_ref(&(read..read.saturating_add(1)))).await?;
            if file.version().is_none_or(|version| version.validator == validator) {
                return Ok(true);
            }
            self.file.forget_metadata();
            self.handle.drop_layout();
        } else {
            self.file.source.expect_bulk();
        }
        self.tell_trees_of(RootOpener::new(&self.file), false, read).await?;
        Ok(true)
    }

    async fn tell_trees_of(
        &self,
        mut opening: RootOpener<'_>,
        known: bool,
        read: u64,
    ) -> Result<()> {
        if read < HEAD_BYTES {
            opening = opening.through(self.read.clone());
        }
        let trees = trees(&mut opening).await?;
        let map = Arc::new(BasketMap::new(&trees.iter().collect::<Vec<_>>()));
        let advice = self.handle.set_layout(map, &self.learned(&trees));
        if let (false, Some(file)) = (advice.will_need.is_empty(), self.read.upgrade()) {
            file.hint(&advice.will_need, Duration::ZERO);
        }
        self.file.keep(opening.metadata_to_keep(known));
        Ok(())
    }

    /// Whether the first bytes, which the program is reading, are those of a ROOT file.
    async fn is_root(&self) -> Result<bool> {
        let Some(file) = self.read.upgrade() else { return Ok(false) };
        let head = 0..MAGIC.len() as u64;
        let found = file.read_untracked(std::slice::from_ref(&head)).await?;
        Ok(found.first().is_some_and(|bytes| bytes == MAGIC))
    }

    fn learned(&self, trees: &[Tree]) -> Vec<Vec<LearnedSet>> {
        let schemas = trees.iter().map(|tree| (schema_hash(tree), tree.name().to_owned()));
        let schemas: Vec<_> = schemas.collect();
        let known = |schema: &str| self.store.as_ref()?.learned(schema, SystemTime::now());
        let sets = schemas.iter().map(|(schema, _)| known(schema));
        let sets = sets.map(|known| known.map_or_else(Vec::new, |known| known.sets)).collect();
        *self.schemas.lock().unwrap_or_else(PoisonError::into_inner) = schemas;
        sets
    }
}

/// The trees of a file.
async fn trees(opening: &mut RootOpener<'_>) -> Result<Vec<Tree>> {
    let root = opening.root().await?;
    let keys = bounded(opening.tree_keys(&root).await?);
    let objects = keys.iter().map(|tree| tree.key.range());
    let missing: Vec<_> =
        objects.filter(|range| opening.bytes().get(range.clone()).is_none()).collect();
    if !missing.is_empty() {
        // All in one flight.
        opening.fetch(NeededRanges { required: missing, ..NeededRanges::default() }).await?;
    }
    let mut trees = Vec::with_capacity(keys.len());
    for key in &keys {
        trees.push(opening.tree(&root, Some(&key.path)).await?);
    }
    Ok(trees)
}

/// As many trees as are worth it: those that are first in the file.
fn bounded(mut keys: Vec<TreeKey>) -> Vec<TreeKey> {
    let mut room = MAX_TREE_BYTES;
    keys.truncate(MAX_TREES);
    keys.retain(|tree| match room.checked_sub(u64::from(tree.key.nbytes)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    });
    keys
}

/// Whether the last part of the path of a URL ends as the names of ROOT files do.
fn is_root_name(name: &str) -> bool {
    let path = name.split(['?', '#']).next().unwrap_or(name);
    path.len() > 5
        && path.get(path.len() - 5..).is_some_and(|end| end.eq_ignore_ascii_case(".root"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_files_are_known_by_name() {
        for name in ["http://host/a/b.root", "https://host/b.ROOT?token=x", "b.root"] {
            assert!(is_root_name(name), "{name}");
        }
        for name in ["http://host/a.root/b", "http://host/b?name=a.root", ".root", "", "é.rooö"] {
            assert!(!is_root_name(name), "{name}");
        }
    }
}
