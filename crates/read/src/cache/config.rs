//! Limits of a cache.

/// Limits of a [`Cache`](super::Cache).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Bytes that are present, of all files. 64 MiB by default: twice what a path of 1 Gbit/s and
    /// 240 ms has under way, and little beside the memory that a batch system leaves a job for each
    /// processor.
    pub budget_bytes: u64,
    /// Maximum bytes that are cached or in flight before any read needed them. Half of the budget
    /// by default: what is fetched ahead must leave room for what is read again.
    pub ahead_bytes: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self::with_budget(64 << 20)
    }
}

impl CacheConfig {
    /// The default for a budget, in bytes.
    #[must_use]
    pub const fn with_budget(budget_bytes: u64) -> Self {
        Self { budget_bytes, ahead_bytes: budget_bytes / 2 }
    }
}
