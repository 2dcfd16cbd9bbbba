//! The contents of a file: trees, branches, types, baskets, sizes.

use crate::client::Client;
use crate::file::origin::FileOrigin;
use crate::tree::RemoteTree;
use crate::tree::root_opener::RootOpener;
use hither_core::error::{Error, ErrorKind, Result};
use hither_formats::root::{Branch, Clusters, RecordType, RootFile, Tree, TreeKey};
use hither_formats::{DecodeResult, FormatError, SparseBytes};
use serde::Serialize;
use std::num::NonZeroU64;

/// The trees and RNTuples of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileListing {
    /// Its trees.
    pub trees: Vec<TreeListing>,
    /// The paths of its RNTuples, which are not read.
    pub ntuples: Vec<String>,
}

/// A description of a tree.
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

/// A description of a branch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BranchListing {
    /// Name in expressions.
    pub name: String,
    /// C++ type, with dimensions.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The reason why this version cannot read its values; none if it can.
    pub unsupported: Option<String>,
    /// How columns make up its entries, of a branch that is not one plain column.
    #[serde(skip)]
    pub record: Option<RecordType>,
    /// Number of baskets.
    pub baskets: usize,
    /// Compressed bytes.
    pub compressed_bytes: u64,
    /// Uncompressed bytes.
    pub uncompressed_bytes: u64,
}

impl Client {
    /// Lists the trees and RNTuples of a file, or only the tree at `path`.
    ///
    /// # Errors
    ///
    /// The errors of opening the file; [`hither_core::ErrorKind::NotFound`] for a missing tree.
    pub fn list_trees(&self, url: &str, path: Option<&str>) -> Result<FileListing> {
        let file = self.origin(url)?;
        self.block_on(async {
            let (mut opening, root) = open_root(&file).await?;
            let described = |path: &str, tree: &Tree| describe_tree(tree, path);
            let trees = opening.each_tree(&root, path, described).await?;
            let ntuples = match path {
                Some(_) => Vec::new(),
                None => opening.paths(&root, RootFile::ntuples).await?,
            };
            file.remember_endpoint();
            Ok(FileListing { trees, ntuples })
        })
    }

    /// The paths of the trees of a file, and those of its RNTuples. None of them is read. Runs on
    /// the client's runtime.
    ///
    /// # Errors
    ///
    /// The errors of opening the file.
    pub async fn tree_paths(&self, url: &str) -> Result<(Vec<String>, Vec<String>)> {
        let file = self.origin(url)?;
        let (mut opening, root) = open_root(&file).await?;
        let trees = opening.paths(&root, RootFile::trees).await?;
        let ntuples = opening.paths(&root, RootFile::ntuples).await?;
        file.keep(opening.metadata_to_keep(true));
        file.remember_endpoint();
        Ok((trees, ntuples))
    }
}

/// The largest number of partitions of a tree: more are a mistake, and would fill the memory.
const MAX_PARTITIONS: u64 = 1 << 22;

impl RemoteTree {
    /// The first entries of partitions of about `step` entries, ascending, then the number of
    /// entries. Partitions end where clusters end, so that no two of them read the same basket;
    /// within a cluster only if that is larger than two steps, or if clusters are unknown.
    ///
    /// # Errors
    ///
    /// The errors of opening the file and finding the tree; [`ErrorKind::Invalid`] for more than
    /// four million partitions.
    pub async fn partitions(&self, step: NonZeroU64) -> Result<Vec<u64>> {
        let open = self.opened().await?;
        partitions(open.tree.clusters(), open.tree.entries(), step)
    }
}

fn partitions(clusters: &Clusters, entries: u64, step: NonZeroU64) -> Result<Vec<u64>> {
    if entries / step > MAX_PARTITIONS {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("steps of {step} entries are too small for a tree of {entries}"),
        ));
    }
    let step = step.get();
    let mut starts = vec![0];
    let mut at: u64 = 0;
    while at < entries {
        let least = at.saturating_add(step);
        let end = clusters.holding(least - 1).map_or(least, |cluster| cluster.end);
        let end = if end > at.saturating_add(step.saturating_mul(2)) { least } else { end };
        at = end.clamp(at + 1, entries);
        starts.push(at);
    }
    Ok(starts)
}

/// Calls `look` with the trees of a file, or only with the one at `path`.
pub(crate) async fn each_tree<T>(
    file: &FileOrigin,
    path: Option<&str>,
    look: impl Fn(&str, &Tree) -> T,
) -> Result<Vec<T>> {
    let (mut opening, root) = open_root(file).await?;
    let seen = opening.each_tree(&root, path, look).await?;
    file.remember_endpoint();
    Ok(seen)
}

async fn open_root(file: &FileOrigin) -> Result<(RootOpener<'_>, RootFile)> {
    let (mut opening, known) = RootOpener::new(file).with_store();
    if known && !opening.is_fresh() {
        // One round trip instead of two validates the stored metadata.
        match file.first_byte(opening.validator()).await {
            Err(error) if error.kind() == ErrorKind::Changed => {
                file.forget_metadata();
                file.source.forget_version();
                opening = RootOpener::new(file);
            }
            checked => {
                drop(checked?);
                file.renew_metadata(opening.validator());
            }
        }
    }
    let root = opening.root().await?;
    Ok((opening, root))
}

/// The description of the tree at `path`.
pub(crate) fn describe_tree(tree: &Tree, path: &str) -> TreeListing {
    TreeListing {
        path: path.to_owned(),
        title: tree.title().to_owned(),
        entries: tree.entries(),
        branches: tree
            .branches()
            .filter(|branch| !branch.is_size())
            .map(|it| describe(tree, it))
            .collect(),
    }
}

/// The reason why the values of a branch cannot be read.
fn unsupported(tree: &Tree, branch: &Branch) -> Option<String> {
    let Some(record) = branch.record() else {
        return branch.column_type().err().map(|error| error.to_string());
    };
    let columns = record.columns();
    if columns.is_empty() {
        return Some(format!("branch `{}` stores nothing", branch.name()));
    }
    columns.into_iter().find_map(|path| {
        tree.branch(path).and_then(Branch::column_type).err().map(|error| error.to_string())
    })
}

fn describe(tree: &Tree, branch: &Branch) -> BranchListing {
    let baskets = branch.baskets();
    BranchListing {
        name: branch.name().to_owned(),
        type_name: branch.type_name(),
        unsupported: unsupported(tree, branch),
        record: branch.record().cloned(),
        baskets: baskets.len(),
        compressed_bytes: baskets.compressed_bytes(),
        uncompressed_bytes: baskets.uncompressed_bytes(),
    }
}

/// [`RootFile::trees`] or [`RootFile::ntuples`].
type FindKeys = fn(&RootFile, &SparseBytes) -> Result<DecodeResult<Vec<TreeKey>>, FormatError>;

impl RootOpener<'_> {
    /// Calls `look` with the trees of the file, or only with the one at `path`.
    async fn each_tree<T>(
        &mut self,
        root: &RootFile,
        path: Option<&str>,
        look: impl Fn(&str, &Tree) -> T,
    ) -> Result<Vec<T>> {
        let paths = match path {
            Some(path) => vec![path.to_owned()],
            None => self.paths(root, RootFile::trees).await?,
        };
        let mut seen = Vec::new();
        for path in paths {
            let tree = self.tree(root, Some(&path)).await?;
            seen.push(look(&path, &tree));
        }
        Ok(seen)
    }

    /// The paths of all objects of the file that `find` returns.
    async fn paths(&mut self, root: &RootFile, find: FindKeys) -> Result<Vec<String>> {
        Ok(self.keys(root, find).await?.into_iter().map(|found| found.path).collect())
    }

    /// The keys of all objects of the file that `find` returns.
    pub(crate) async fn keys(&mut self, root: &RootFile, find: FindKeys) -> Result<Vec<TreeKey>> {
        loop {
            match find(root, self.bytes()).map_err(|error| self.in_file(error))? {
                DecodeResult::Data(found) => return Ok(found),
                DecodeResult::NeedsData(need) => self.fetch(need).await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn starts(cluster: u64, entries: u64, step: u64) -> Vec<u64> {
        let step = NonZeroU64::new(step).unwrap();
        partitions(&Clusters::of_size(cluster, entries), entries, step).unwrap()
    }

    #[test]
    fn partitions_end_with_clusters() {
        assert_eq!(starts(100, 1000, 250), [0, 300, 600, 900, 1000]);
        assert_eq!(starts(100, 210, 40), [0, 40, 100, 140, 200, 210]);
        assert_eq!(starts(100, 250, 60), [0, 100, 200, 250]);
        assert_eq!(starts(0, 250, 100), [0, 100, 200, 250]);
        assert_eq!(starts(100, 0, 100), [0]);
    }

    #[test]
    fn too_many_partitions_are_refused() {
        let one = NonZeroU64::MIN;
        let refused = partitions(&Clusters::default(), u64::MAX, one).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }

    proptest! {
        #[test]
        fn partitions_have_every_entry_once(
            cluster in 0..300u64, entries in 0..2000u64, step in 1..500u64
        ) {
            let starts = starts(cluster, entries, step);
            prop_assert_eq!(starts.first(), Some(&0));
            prop_assert_eq!(starts.last(), Some(&entries));
            for pair in starts.windows(2) {
                prop_assert!(pair[0] < pair[1] && pair[1] - pair[0] <= 2 * step);
            }
        }
    }
}
