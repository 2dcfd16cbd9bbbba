//! Answers that tell of many names, one after the other: the names are there from the beginning, what is known of each is
//! looked up as the answer is sent, so that a directory of any size takes little memory.

use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::DiskMetadata;
use crate::response::body::BlockSource;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Text is sent in blocks of about so many bytes.
const BLOCK_BYTES: usize = 48 << 10;
/// The room that one name may take above that.
const SLACK_BYTES: usize = 16 << 10;

/// How names are told.
pub(crate) trait ListingFormat: Send + Debug + 'static {
    /// What stands before the first one.
    fn head(&mut self, out: &mut String);
    /// One name, by its path below the root.
    fn name(&mut self, tree: &ConfinedDir, path: &str, meta: &DiskMetadata, out: &mut String);
    /// What stands after the last one.
    fn end(&mut self, out: &mut String);
}

/// See the module above.
#[derive(Debug)]
pub(crate) struct StreamedListing<F> {
    tree: Arc<ConfinedDir>,
    form: F,
    paths: std::vec::IntoIter<String>,
    begun: bool,
    over: bool,
}

impl<F: ListingFormat> StreamedListing<F> {
    pub(crate) fn new(tree: &Arc<ConfinedDir>, form: F, paths: Vec<String>) -> Self {
        let paths = paths.into_iter();
        Self { tree: Arc::clone(tree), form, paths, begun: false, over: false }
    }
}

impl<F: ListingFormat> BlockSource for StreamedListing<F> {
    fn next_bytes(&self) -> usize {
        if self.over { 0 } else { BLOCK_BYTES + SLACK_BYTES }
    }

    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut out = String::with_capacity(BLOCK_BYTES + SLACK_BYTES);
        if !self.begun {
            self.begun = true;
            self.form.head(&mut out);
        }
        while out.len() < BLOCK_BYTES {
            let Some(path) = self.paths.next() else {
                self.over = true;
                self.form.end(&mut out);
                break;
            };
            // What has gone meanwhile, or leads out of the tree, is not told of.
            if let Some(meta) = self.tree.meta_below(&path) {
                self.form.name(&self.tree, &path, &meta, &mut out);
            }
        }
        buffer.clear();
        buffer.extend_from_slice(out.as_bytes());
        Ok(buffer.len())
    }
}
