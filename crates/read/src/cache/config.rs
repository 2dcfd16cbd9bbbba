//! Limits of a cache.

/// Limits of a [`Cache`](super::Cache).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Bytes that are present, of all files. 64 MiB by default: twice the bandwidth-delay product
    /// of a path of 1 Gbit/s and 240 ms, and little compared with the memory that a batch system
    /// gives a job per processor.
    pub budget_bytes: u64,
    /// Maximum bytes that are cached or in flight before any read needed them. Half of the budget
    /// by default: prefetches must leave room for bytes that are read again.
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
