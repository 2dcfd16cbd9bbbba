//! A tree of a file, open or being opened.

pub(crate) mod arrays;
pub(crate) mod draw;
pub(crate) mod job_report;
pub(crate) mod listing;
pub(crate) mod progress;
pub(crate) mod root_opener;
pub(crate) mod scan;
pub(crate) mod tree_url;
use crate::client::Client;
use crate::file::origin::FileOrigin;
use crate::tree::job_report::JobStart;
use crate::tree::listing::{TreeListing, describe_tree};
use crate::tree::root_opener::{OpenTree, RootOpener};
use futures_util::future::{BoxFuture, FutureExt, Shared};
use hither_core::error::{ErrorKind, Result};
use std::fmt;
use std::sync::Arc;

/// A tree of a file. It is opened in the background, and its first use waits for that: a program
/// that opens a thousand trees one after the other has them opened in parallel.
#[derive(Clone)]
pub struct RemoteTree {
    pub(crate) file: Arc<FileOrigin>,
    path: Option<String>,
    /// The beginning of its opening.
    pub(crate) began: JobStart,
    opened: Shared<BoxFuture<'static, Result<Arc<OpenTree>>>>,
}

impl fmt::Debug for RemoteTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTree")
            .field("file", &self.file.name())
            .field("path", &self.path)
            .finish()
    }
}

impl Client {
    /// Begins to open the tree at `path` in the file, or its only tree if none is named. Returns at
    /// once.
    ///
    /// # Errors
    ///
    /// As [`Client::open`]. Errors of the file or the tree are returned when the tree is used.
    pub fn open_tree(&self, url: &str, path: Option<&str>) -> Result<RemoteTree> {
        Ok(RemoteTree::new(self.origin(url)?, path.map(str::to_owned), true))
    }
}

impl RemoteTree {
    fn new(file: Arc<FileOrigin>, path: Option<String>, use_store: bool) -> Self {
        let began = JobStart::now(file.context.counters());
        let opening = open(Arc::clone(&file), path.clone(), use_store).boxed().shared();
        // It runs even if no caller waits for it.
        file.context.network.runtime().spawn(opening.clone().map(drop));
        Self { file, path, began, opened: opening }
    }

    /// Number of entries. Waits for the tree.
    ///
    /// # Errors
    ///
    /// The errors of opening the file and finding the tree.
    pub fn entries(&self, client: &Client) -> Result<u64> {
        Ok(client.block_on(self.opened())?.tree.entries())
    }

    /// The branches of the tree. Waits for the tree.
    ///
    /// # Errors
    ///
    /// As [`RemoteTree::entries`].
    pub fn listing(&self, client: &Client) -> Result<TreeListing> {
        client.block_on(self.listing_async())
    }

    /// Async version of [`RemoteTree::listing`], for the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteTree::entries`].
    pub async fn listing_async(&self) -> Result<TreeListing> {
        let open = self.opened().await?;
        Ok(describe_tree(&open.tree, self.path.as_deref().unwrap_or_else(|| open.tree.name())))
    }

    /// The validator of the version of the file that the tree was opened in, for the client's
    /// runtime. Takes one round trip if the store had the tree: the server confirms that version.
    ///
    /// # Errors
    ///
    /// As [`RemoteTree::entries`]; [`ErrorKind::Changed`] if the store had a tree of an older
    /// version, which is then removed from the store.
    pub async fn validator_async(&self) -> Result<Option<String>> {
        let open = self.opened().await?;
        if open.from_store
            && let Err(error) = self.file.first_byte(open.validator.clone()).await
        {
            if error.kind() == ErrorKind::Changed {
                self.file.forget_metadata();
            }
            return Err(error);
        }
        Ok(open.validator.clone())
    }

    pub(crate) async fn opened(&self) -> Result<Arc<OpenTree>> {
        self.opened.clone().await
    }

    /// The same tree, opened once more without stored metadata.
    pub(crate) fn reopen(&self) -> Self {
        self.file.source.forget_version();
        Self::new(Arc::clone(&self.file), self.path.clone(), false)
    }
}

async fn open(
    file: Arc<FileOrigin>,
    path: Option<String>,
    use_store: bool,
) -> Result<Arc<OpenTree>> {
    let opener = RootOpener::new(&file);
    let (mut opening, known) = if use_store { opener.with_store() } else { (opener, false) };
    if !known {
        file.source.expect_bulk();
    }
    let root = opening.root().await?;
    let tree = opening.tree(&root, path.as_deref()).await?;
    let mut open = opening.finish(tree, known);
    file.keep(open.keep.take());
    Ok(Arc::new(open))
}
