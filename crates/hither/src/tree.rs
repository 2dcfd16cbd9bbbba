//! A tree that is open, or on its way to be.

pub(crate) mod arrays;
pub(crate) mod draw;
pub(crate) mod listing;
pub(crate) mod progress;
pub(crate) mod root_opener;
pub(crate) mod scan;
pub(crate) mod tree_url;
use crate::client::Client;
use crate::file::RemoteFile;
use crate::tree::listing::{TreeListing, describe_tree};
use crate::tree::root_opener::{OpenTree, RootOpener};
use futures_util::future::{BoxFuture, FutureExt, Shared};
use hither_core::error::Result;
use hither_store::FileMetadata;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// A tree of a file. Opening runs ahead in the background; whatever needs the tree first waits for it. A program that
/// opens a thousand trees one after the other thus has them opened in parallel.
#[derive(Clone)]
pub struct RemoteTree {
    pub(crate) file: RemoteFile,
    path: Option<String>,
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
    /// Begins to open the tree at `path` in the file, the only one if none is named. Returns at once.
    ///
    /// # Errors
    ///
    /// As [`Client::open`]. What is wrong with the file or the tree shows when the tree is used.
    pub fn open_tree(&self, url: &str, path: Option<&str>) -> Result<RemoteTree> {
        Ok(RemoteTree::new(self.file(url)?, path.map(str::to_owned), true))
    }
}

impl RemoteTree {
    fn new(file: RemoteFile, path: Option<String>, use_store: bool) -> Self {
        let opening = open(file.clone(), path.clone(), use_store).boxed().shared();
        // Whether anybody waits for it or not, it runs.
        file.shared.network.runtime().spawn(opening.clone().map(drop));
        Self { file, path, opened: opening }
    }

    /// Number of entries. Waits for the tree.
    ///
    /// # Errors
    ///
    /// Whatever opening the file and finding the tree failed with.
    pub fn entries(&self, client: &Client) -> Result<u64> {
        Ok(client.wait(self.opened())?.tree.entries())
    }

    /// What is in the tree. Waits for it.
    ///
    /// # Errors
    ///
    /// As [`RemoteTree::entries`].
    pub fn listing(&self, client: &Client) -> Result<TreeListing> {
        client.wait(self.listing_async())
    }

    /// The same, for who waits in another way. Runs on the client's runtime.
    ///
    /// # Errors
    ///
    /// As [`RemoteTree::entries`].
    pub async fn listing_async(&self) -> Result<TreeListing> {
        let open = self.opened().await?;
        Ok(describe_tree(&open.tree, self.path.as_deref().unwrap_or_else(|| open.tree.name())))
    }

    pub(crate) async fn opened(&self) -> Result<Arc<OpenTree>> {
        self.opened.clone().await
    }

    /// The same tree, opened once more, without what the store has of it.
    pub(crate) fn opened_anew(&self) -> Self {
        Self::new(self.file.clone(), self.path.clone(), false)
    }
}

async fn open(file: RemoteFile, path: Option<String>, use_store: bool) -> Result<Arc<OpenTree>> {
    let (mut opening, known) = match use_store {
        true => RootOpener::new(&file).with_store(),
        false => (RootOpener::new(&file), false),
    };
    if !known {
        file.source.expect_bulk();
    }
    let root = opening.root().await?;
    let tree = opening.tree(&root, path.as_deref()).await?;
    let mut open = opening.finish(tree, known);
    file.keep(open.keep.take());
    Ok(Arc::new(open))
}

impl RemoteFile {
    /// Starts writing the metadata of a file into the store; the client's end waits for it.
    pub(crate) fn keep(&self, metadata: Option<FileMetadata>) {
        let (Some(metadata), Some(key)) = (metadata, self.metadata_key()) else { return };
        let shared = Arc::clone(&self.shared);
        // It is a convenience: nobody needs to know whether it worked.
        let runtime = self.shared.network.runtime();
        self.shared.writes.enqueue(runtime, metadata.held_bytes(), move || {
            if let Some(store) = &shared.store {
                store.remember_metadata(&key, &metadata, SystemTime::now());
            }
        });
    }

    /// What the store has of the file, which may be taken for true unasked.
    pub(crate) fn fresh_metadata(&self) -> Option<FileMetadata> {
        if self.shared.config.staleness.is_zero() {
            return None;
        }
        self.remembered().filter(|it| self.shared.is_fresh(it))
    }

    /// The server has just said that the file is still the one with `validator`. Whoever accepts that it may have changed
    /// since counts from now on.
    pub(crate) fn confirmed(&self, validator: Option<String>) {
        if self.shared.config.staleness.is_zero() {
            return;
        }
        let (Some(store), Some(key)) = (self.shared.store.clone(), self.metadata_key()) else {
            return;
        };
        self.shared.writes.enqueue(self.shared.network.runtime(), 0, move || {
            let now = SystemTime::now();
            if let Some(known) = store.metadata(&key, now).filter(|it| it.validator == validator) {
                store.remember_metadata(&key, &known, now);
            }
        });
    }

    /// Drops what the store has of the file; tells whether there is anything to drop it from.
    pub(crate) fn forget(&self) -> bool {
        match (&self.shared.store, self.metadata_key()) {
            (Some(store), Some(key)) => {
                store.forget_metadata(&key);
                true
            }
            _ => false,
        }
    }
}
