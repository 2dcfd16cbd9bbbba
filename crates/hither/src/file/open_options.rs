//! Options of an open file.

/// Options of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    pub(crate) tree_cache: bool,
    pub(crate) open_ahead: bool,
}

impl OpenOptions {
    /// Prefetches tree data that the program has not requested. On by default; a program that knows
    /// the layout of its trees and requests everything at once turns it off.
    #[must_use]
    pub fn tree_cache(mut self, on: bool) -> Self {
        self.tree_cache = on;
        self
    }

    /// Fetches the ends of the file in the background before its first use. On by default; a
    /// program that reads a whole file turns it off.
    #[must_use]
    pub fn open_ahead(mut self, on: bool) -> Self {
        self.open_ahead = on;
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { tree_cache: true, open_ahead: true }
    }
}
