//! The connection of a file's trees, its [`ColumnarPrefetcher`] and the store.
//!
//! The trees of a ROOT file, recognized by its name or its first bytes, are opened when a program
//! shows that it reads the file piece by piece: it waits for a read in the middle of the file that
//! does not name thousands of ranges at once, or for its second read. The requests for the trees
//! are then in flight together with that read. In a file that was opened ahead, two further reads
//! may wait first. Files that are read without waiting need no trees.

use super::schema_hash;
use crate::file::origin::FileOrigin;
use crate::open_ahead::gate::MAX_WAITS;
use crate::tree::root_opener::RootOpener;
use hither_core::error::Result;
use hither_core::layout::LearnedSet;
use hither_core::sync::lock;
use hither_formats::NeededRanges;
use hither_formats::root::{BasketMap, RootFile, Tree, TreeKey};
use hither_read::cache::file::{CachedFile, WeakFile};
use hither_read::prefetch::columnar::{ColumnarPrefetcher, ColumnarPrefetcherHandle};
use hither_read::prefetch::{Access, Advice, PrefetchContext, Prefetcher};
use hither_store::Store;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The largest number of trees of a file that are opened, and of bytes of their objects.
const MAX_TREES: usize = 64;
const MAX_TREE_BYTES: u64 = 64 << 20;
/// The head of a file in bytes. A program that reads any of it opens the file itself, and will read
/// the objects of the trees as well.
const HEAD_BYTES: u64 = 512;
/// The largest number of ranges in a vector read of one step. A program that names more at once has
/// nothing left to prefetch.
const MAX_STEP_RANGES: usize = 1000;
/// The first bytes of a ROOT file.
const MAGIC: &[u8] = b"root";

/// Schema hash and name of each tree, once they are known.
type Schemas = Arc<Mutex<Vec<(String, String)>>>;

/// The prefetcher of one open file. Saves what it has learned when it is dropped.
pub(crate) struct LearningPrefetcher {
    cache: ColumnarPrefetcher<BasketMap>,
    schemas: Schemas,
    store: Option<Arc<Store>>,
}

impl fmt::Debug for LearningPrefetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearningPrefetcher").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl Prefetcher for LearningPrefetcher {
    fn observe(&mut self, access: &Access, conditions: &PrefetchContext) -> Advice {
        self.cache.observe(access, conditions)
    }
}

/// Begins to open the trees; its argument is the offset of a byte that the program waits for.
type Begin = Box<dyn FnOnce(u64) + Send>;

/// Opens the trees of a file once a program waits for its reads.
#[derive(Default)]
pub(crate) struct LazyTreeOpener {
    begin: Mutex<Option<Begin>>,
    waits: AtomicU32,
    /// Only the first bytes show whether the file has trees.
    by_content: bool,
    head_read: AtomicBool,
}

impl fmt::Debug for LazyTreeOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyTreeOpener").field("waits", &self.waits).finish_non_exhaustive()
    }
}

impl LazyTreeOpener {
    /// Records that the program waits for a read of `ranges` ranges, the first of them at `offset`.
    pub(crate) fn on_wait(&self, offset: u64, ranges: usize, opened_ahead: bool) {
        let before = self.waits.fetch_add(1, Ordering::Relaxed);
        if offset < MAGIC.len() as u64 {
            self.head_read.store(true, Ordering::Relaxed);
        }
        let min_waits = if opened_ahead {
            MAX_WAITS
        } else {
            u32::from(ranges > MAX_STEP_RANGES || offset < HEAD_BYTES)
        };
        if before < min_waits || (self.by_content && !self.head_read.load(Ordering::Relaxed)) {
            return;
        }
        let begin = lock(&self.begin).take();
        if let Some(begin) = begin {
            begin(offset);
        }
    }
}

/// Saves the learned sets when the file is closed.
impl Drop for LearningPrefetcher {
    fn drop(&mut self) {
        let Some(store) = &self.store else { return };
        let schemas = lock(&self.schemas);
        for (tree, set) in self.cache.handle().learned_sets() {
            if let Some((schema, name)) = schemas.get(tree) {
                store.put_learned(schema, name, set, SystemTime::now());
            }
        }
    }
}

/// Makes `file` prefetch columns of trees, once its trees are open; `by_offset` prefetches the
/// rest.
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
    file.set_prefetcher(Box::new(LearningPrefetcher { cache, schemas, store }));
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
    /// Opens the trees; `read` is the offset of a byte that the program waits for.
    async fn run(self, read: u64) {
        // An error of the trees does not concern a program that does not read them.
        if !matches!(self.set_layout(read).await, Ok(true)) {
            self.handle.set_no_layout();
        }
    }

    /// Passes the layout of the trees on as soon as it is known. Returns false if this is not a
    /// ROOT file.
    async fn set_layout(&self, read: u64) -> Result<bool> {
        if self.by_content && !self.is_root().await? {
            return Ok(false);
        }
        let (opening, known) = RootOpener::new(&self.file).with_store();
        if known {
            let validator = opening.validator();
            self.set_layout_of(opening, known, read).await?;
            let Some(file) = self.read.upgrade() else { return Ok(true) };
            // The response to the program's read validates the stored metadata.
            file.read_untracked(std::slice::from_ref(&(read..read.saturating_add(1)))).await?;
            if file.version().is_none_or(|version| version.validator == validator) {
                return Ok(true);
            }
            self.file.forget_metadata();
            self.handle.drop_layout();
        } else {
            self.file.source.expect_bulk();
        }
        self.set_layout_of(RootOpener::new(&self.file), false, read).await?;
        Ok(true)
    }

    async fn set_layout_of(
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

    /// Returns true if the first bytes, which the program is reading, are those of a ROOT file.
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
        *lock(&self.schemas) = schemas;
        sets
    }
}

/// The trees of a file.
async fn trees(opening: &mut RootOpener<'_>) -> Result<Vec<Tree>> {
    let root = opening.root().await?;
    let keys = bounded(opening.keys(&root, RootFile::trees).await?);
    let objects = keys.iter().map(|tree| tree.key.range());
    let missing: Vec<_> =
        objects.filter(|range| opening.bytes().get(range.clone()).is_none()).collect();
    if !missing.is_empty() {
        // All in one round trip.
        opening.fetch(NeededRanges { required: missing, ..NeededRanges::default() }).await?;
    }
    let mut trees = Vec::with_capacity(keys.len());
    for key in &keys {
        trees.push(opening.tree(&root, Some(&key.path)).await?);
    }
    Ok(trees)
}

/// The first trees of the file, within the limits.
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

/// Returns true if the path of a URL ends like the name of a ROOT file.
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
