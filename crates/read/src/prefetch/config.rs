//! Configuration of read-ahead.

/// Configuration of a [`ReadAhead`](super::ReadAhead).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ReadAheadConfig {
    /// Maximum number of readers followed in one file. 16 by default.
    pub cursors: usize,
    /// Maximum fraction of the fetched bytes that is prefetched and dropped unread: 0.1 by default.
    pub waste_limit: f64,
    /// Bytes that may be dropped unread before the limit counts: 2 MiB by default.
    pub allowance_bytes: u64,
    /// The window that a cursor begins with: 128 KiB by default; up to two and a half times as much
    /// for a file that is read from its beginning.
    pub first_window_bytes: u64,
    /// The longest window, in bandwidth-delay products of the path: 4 by default. One keeps the
    /// path busy if the reader does not pause and requests are sent as soon as there is room. Four
    /// times as many for a file that is read from its beginning: short responses underestimate the
    /// bandwidth of a fast path. Up to ten times as many for a reader that has read far.
    pub path_factor: f64,
    /// The longest window where the path is not known: 8 MiB by default.
    pub unknown_path_bytes: u64,
    /// The largest block, in bytes: 256 KiB by default; 0 for none.
    pub block_bytes: u64,
    /// Learns the block size, up to [`ReadAheadConfig::block_bytes`], which is the default; else
    /// the size is fixed.
    pub learn_blocks: bool,
}

impl Default for ReadAheadConfig {
    fn default() -> Self {
        Self {
            cursors: 16,
            waste_limit: 0.1,
            allowance_bytes: 2 << 20,
            first_window_bytes: 128 << 10,
            path_factor: 4.0,
            unknown_path_bytes: 8 << 20,
            block_bytes: 256 << 10,
            learn_blocks: true,
        }
    }
}
