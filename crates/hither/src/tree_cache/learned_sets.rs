//! Learned sets of branches: listing, export and import.

use crate::client::Client;
use crate::tree::listing::each_tree;
use crate::tree_cache::schema_hash;
use hither_core::error::{Error, ErrorKind, Result};
use hither_store::{LearnedTree, Store};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::SystemTime;

/// The version of the export format.
const VERSION: u32 = 1;

/// The learned sets of a tree in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LearnedListing {
    /// Path of the tree in the file.
    pub path: String,
    /// Sets of branches that programs read together, by the schema of the tree; none if no program
    /// has read it yet.
    pub learned: LearnedTree,
}

/// An export of learned sets, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedExport {
    /// Version of the format: 1.
    hither_learned: u32,
    /// The schemas, and the sets of each.
    trees: Vec<LearnedTree>,
}

impl LearnedExport {
    /// The export of `listings`, without empty sets and duplicates.
    #[must_use]
    pub fn new(listings: &[LearnedListing]) -> Self {
        let mut trees: Vec<LearnedTree> = Vec::new();
        for LearnedListing { learned, .. } in listings {
            let known = trees.iter().any(|tree| tree.schema == learned.schema);
            if !learned.sets.is_empty() && !known {
                trees.push(learned.clone());
            }
        }
        Self { hither_learned: VERSION, trees }
    }

    /// The schemas, and the sets of each.
    #[must_use]
    pub fn trees(&self) -> &[LearnedTree] {
        &self.trees
    }
}

impl Client {
    /// The learned sets of the trees of a file, or only of the tree at `path`. Sets are shared by
    /// all files with the same schema.
    ///
    /// # Errors
    ///
    /// As [`Client::list_trees`]; [`ErrorKind::Local`] if there is no store.
    pub fn learned(&self, url: &str, path: Option<&str>) -> Result<Vec<LearnedListing>> {
        let store = self.learned_store()?;
        let describe = |path: &str, tree: &hither_formats::root::Tree| {
            (path.to_owned(), schema_hash(tree), tree.name().to_owned())
        };
        let trees = self.block_on(each_tree(&*self.origin(url)?, path, describe))?;
        let listing = |(path, schema, tree): (String, String, String)| {
            let learned = store.learned(&schema, SystemTime::now());
            let learned = learned.unwrap_or_else(|| LearnedTree { schema, tree, sets: Vec::new() });
            LearnedListing { path, learned }
        };
        Ok(trees.into_iter().map(listing).collect())
    }

    /// Adds exported sets to the store, as if they had been learned here; all or none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Local`] if there is no store, [`ErrorKind::Unsupported`] for another version of
    /// the format, [`ErrorKind::Corrupt`] if any set could not have been learned.
    pub fn import_learned(&self, package: &LearnedExport) -> Result<()> {
        let store = self.learned_store()?;
        if package.hither_learned != VERSION {
            let what = format!(
                "learned sets of version {}, expected version {VERSION}",
                package.hither_learned
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if let Some(damaged) = package.trees.iter().find(|tree| !tree.is_plausible()) {
            let what = format!(
                "the learned sets of tree {:?} are damaged: expected names of branches",
                damaged.tree
            );
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        for tree in &package.trees {
            store.import_learned(tree, SystemTime::now());
        }
        Ok(())
    }

    fn learned_store(&self) -> Result<Arc<Store>> {
        let why = || match self.store_error() {
            Some(error) => error.clone(),
            None => Error::new(ErrorKind::Local, "no store is configured for learned branches"),
        };
        self.context.store.clone().ok_or_else(why)
    }
}
