//! Answers that tell of many names, one after the other: the names are there from the beginning, what is known of each is
//! looked up as the answer is sent, so that a directory of any size takes little memory.

use crate::files::tree::{Meta, Tree};
use crate::sending::body::Supply;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Text is sent in blocks of about so many bytes.
const BLOCK_BYTES: usize = 48 << 10;
/// The room that one name may take above that.
const SLACK_BYTES: usize = 16 << 10;

/// How names are told.
pub(crate) trait Form: Send + Debug + 'static {
    /// What stands before the first one.
    fn head(&mut self, out: &mut String);
    /// One name, by its path below the root.
    fn name(&mut self, tree: &Tree, path: &str, meta: &Meta, out: &mut String);
    /// What stands after the last one.
    fn end(&mut self, out: &mut String);
}

/// See the module above.
#[derive(Debug)]
pub(crate) struct Listing<F> {
    tree: Arc<Tree>,
    form: F,
    paths: std::vec::IntoIter<String>,
    begun: bool,
    over: bool,
}

impl<F: Form> Listing<F> {
    pub(crate) fn new(tree: &Arc<Tree>, form: F, paths: Vec<String>) -> Self {
        let paths = paths.into_iter();
        Self { tree: Arc::clone(tree), form, paths, begun: false, over: false }
    }
}

impl<F: Form> Supply for Listing<F> {
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
