//! What is in a file: trees, branches, types, baskets, sizes.

use crate::client::Client;
use crate::file::RemoteFile;
use crate::opening::Opening;
use hither_core::error::{ErrorKind, Result};
use hither_formats::Step;
use hither_formats::root::{Branch, RootFile, Tree, TreeKey};
use serde::Serialize;

/// A tree, described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TreeListing {
    /// Path in the file.
    pub path: String,
    /// Title.
    pub title: String,
    /// Number of entries.
    pub entries: u64,
    /// Branches, in the order of the tree.
    pub branches: Vec<BranchListing>,
}

/// A branch, described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BranchListing {
    /// Name by which expressions call it.
    pub name: String,
    /// C++ type, with dimensions.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Why its values cannot be read by this version; none if they can.
    pub unsupported: Option<String>,
    /// Number of baskets.
    pub baskets: usize,
    /// Bytes as stored.
    pub compressed_bytes: u64,
    /// Bytes unpacked.
    pub uncompressed_bytes: u64,
}

impl Client {
    /// Lists the trees of a file, or only the one at `path`.
    ///
    /// # Errors
    ///
    /// Whatever opening the file may fail with; [`hither_core::ErrorKind::NotFound`] for a tree that is not there.
    pub fn list_trees(&self, url: &str, path: Option<&str>) -> Result<Vec<TreeListing>> {
        let described = |path: &str, tree: &Tree| describe_tree(tree, path);
        self.wait(each_tree(&self.file(url)?, path, described))
    }

    /// The paths of the trees of a file, which are not read. Runs on the client's runtime.
    ///
    /// # Errors
    ///
    /// Whatever opening the file may fail with.
    pub async fn tree_paths(&self, url: &str) -> Result<Vec<String>> {
        let file = self.file(url)?;
        let (mut opening, root) = open_root(&file).await?;
        let keys = opening.tree_keys(&root).await?;
        file.keep(opening.metadata_to_keep(true));
        file.remember_endpoint();
        Ok(keys.into_iter().map(|tree| tree.path).collect())
    }
}

/// Shows the trees of a file to `look`, or only the one at `path`.
pub(crate) async fn each_tree<T>(
    file: &RemoteFile,
    path: Option<&str>,
    look: impl Fn(&str, &Tree) -> T,
) -> Result<Vec<T>> {
    let (mut opening, root) = open_root(file).await?;
    let paths = match path {
        Some(path) => vec![path.to_owned()],
        None => opening.tree_keys(&root).await?.into_iter().map(|tree| tree.path).collect(),
    };
    let mut seen = Vec::new();
    for path in paths {
        let tree = opening.tree(&root, Some(&path)).await?;
        seen.push(look(&path, &tree));
    }
    file.remember_endpoint();
    Ok(seen)
}

async fn open_root(file: &RemoteFile) -> Result<(Opening<'_>, RootFile)> {
    let (mut opening, known) = Opening::new(file).with_store();
    if known && !opening.is_fresh() {
        // One round trip instead of two, to know that what the store has is still true.
        match file.first_byte(opening.validator()).await {
            Err(error) if error.kind() == ErrorKind::Changed => {
                file.forget();
                opening = Opening::new(file);
            }
            checked => {
                drop(checked?);
                file.confirmed(opening.validator());
            }
        }
    }
    let root = opening.root().await?;
    Ok((opening, root))
}

/// A tree that is known under `path`.
pub(crate) fn describe_tree(tree: &Tree, path: &str) -> TreeListing {
    TreeListing {
        path: path.to_owned(),
        title: tree.title().to_owned(),
        entries: tree.entries(),
        branches: tree.branches().map(describe).collect(),
    }
}

fn describe(branch: &Branch) -> BranchListing {
    let baskets = branch.baskets();
    BranchListing {
        name: branch.name().to_owned(),
        type_name: branch.type_name(),
        unsupported: branch.column_type().err().map(|error| error.to_string()),
        baskets: baskets.len(),
        compressed_bytes: baskets.compressed_bytes(),
        uncompressed_bytes: baskets.uncompressed_bytes(),
    }
}

impl Opening<'_> {
    /// All trees of the file.
    pub(crate) async fn tree_keys(&mut self, root: &RootFile) -> Result<Vec<TreeKey>> {
        loop {
            match root.trees(self.bytes()).map_err(|error| self.at_fault(error))? {
                Step::Done(trees) => return Ok(trees),
                Step::Need(need) => self.fetch(need).await?,
            }
        }
    }
}
