//! TreeCache of a client: opens the trees of a file while a program reads it as bytes, and gives
//! their layout to core's predictor (`hither_read::prefetch::columnar`), whose learned sets it
//! keeps in the store.
//!
//! Queries and arrays do not use it: they know which baskets they need (`tree::scan`).

pub(crate) mod learned_sets;
pub(crate) mod learning;
mod schema;

use hither_read::prefetch::columnar::ColumnarConfig;
pub(crate) use learning::LazyTreeOpener;
pub(crate) use schema::schema_hash;

/// Prefetching of tree data for programs that read a file byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeCacheConfig {
    /// Turns it on; default true.
    pub enabled: bool,
    /// The number of entries after which the branches read so far predict those that will be read;
    /// default 100.
    pub learn_entries: u64,
    /// Maximum bytes of a file that are fetched ahead and not read yet; default 32 MiB. The
    /// client's cache bounds them as well.
    pub budget_bytes: u64,
    /// Keeps learned branches in the client's store, if it has one, and uses them again; default
    /// true.
    pub remember: bool,
}

impl Default for TreeCacheConfig {
    fn default() -> Self {
        Self { enabled: true, learn_entries: 100, budget_bytes: 32 << 20, remember: true }
    }
}

impl TreeCacheConfig {
    /// Limits of the predictor.
    fn columnar(&self) -> ColumnarConfig {
        ColumnarConfig { learn_entries: self.learn_entries, budget_bytes: self.budget_bytes }
    }
}
