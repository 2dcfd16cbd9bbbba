//! Opening of a file, for the first time or again.

use crate::cache::file::work::DriverWork;
use crate::cache::file::{CachedFile, CachedFileInner, CachedFileState, NoPrefetch, Open, Spawn};
use crate::cache::{Cache, CacheKey};
use crate::sync::{Mutex, lock};
use crate::{PrefetchContext, ReaderConfig};
use futures_util::task::AtomicWaker;
use hither_core::Source;
use std::sync::{Arc, OnceLock};

impl CachedFile {
    /// Opens `source`, the file that `key` names, for reading through `cache`. `spawn` runs the
    /// futures that fetch. Nothing is fetched before the first read, and nothing is prefetched
    /// without a prefetcher or a hint.
    #[must_use]
    pub fn new(
        source: Arc<dyn Source>,
        cache: Arc<Cache>,
        key: CacheKey,
        config: ReaderConfig,
        spawn: Spawn,
    ) -> Self {
        let (entry, opened) = cache.open(&key);
        Self::of_entry((source, cache, key, config, spawn), entry, opened, false)
    }

    /// Opens the file again: both open files read one version, that of the bytes in memory from now
    /// on, and reads of both fail when it has changed.
    #[must_use]
    pub fn open_again(&self) -> Self {
        let file = self.shared();
        let mut state = lock(&file.state);
        state.bound = true;
        let opened = file.cache.open_again(state.entry, state.opened);
        let parts = (
            Arc::clone(&file.source),
            Arc::clone(&file.cache),
            file.key.clone(),
            file.config,
            Arc::clone(&file.spawn),
        );
        Self::of_entry(parts, state.entry, opened, true)
    }

    fn of_entry(
        (source, cache, key, config, spawn): (
            Arc<dyn Source>,
            Arc<Cache>,
            CacheKey,
            ReaderConfig,
            Spawn,
        ),
        entry: u64,
        opened: u64,
        bound: bool,
    ) -> Self {
        let conditions = PrefetchContext {
            size: None,
            link: source.link(),
            limits: source.limits(),
            ahead_bytes: 0,
            ahead_budget_bytes: cache.config().ahead_bytes,
            wasted_bytes: 0,
            fetched_bytes: 0,
        };
        let state = CachedFileState {
            prefetcher: Box::new(NoPrefetch),
            entry,
            opened,
            bound,
            conditions,
            work: DriverWork::default(),
            driving: false,
            closed: false,
        };
        let file = CachedFileInner {
            source,
            cache,
            key,
            config,
            spawn,
            state: Mutex::new(state),
            driver: AtomicWaker::new(),
            recorder: OnceLock::new(),
        };
        Self { open: Arc::new(Open { file: Arc::new(file) }) }
    }
}
