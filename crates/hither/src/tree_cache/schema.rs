//! Hash of a tree's schema, under which learned sets are stored.

use hither_formats::root::Tree;
use xxhash_rust::xxh64::Xxh64;

/// Hashes the schema of a tree: the same for all files of a dataset, different as soon as a branch
/// or its type differs.
pub(crate) fn schema_hash(tree: &Tree) -> String {
    // Two seeds make 128 bits: enough that no two schemas collide by chance.
    let mut halves = [Xxh64::new(0), Xxh64::new(1)];
    let mut add = |text: &str| {
        for half in &mut halves {
            half.update(&(text.len() as u64).to_le_bytes());
            half.update(text.as_bytes());
        }
    };
    add(tree.name());
    for branch in tree.branches() {
        add(branch.name());
        add(&branch.type_name());
    }
    halves.iter().map(|half| format!("{:016x}", half.digest())).collect()
}
