//! A minimal writer of ROOT files: trees of branches in the layouts of `TTree` 20, `TBranch` 13 and
//! `TBranchElement` 10, and class descriptions.
//!
//! It writes everything as given, sensible or not: the bytes of baskets come from the caller. So it
//! can write files that ROOT itself would not, which tests of a reader need most.
#![expect(clippy::unwrap_used, reason = "sizes in tests fit")]

mod compress;
mod file;
pub mod samples;
mod streamer_info;
mod tree;
mod write_buffer;

pub use compress::pack;
pub use file::{write, write_with_classes};
pub use streamer_info::{Class, Member};

/// A leaf of a branch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leaf {
    /// `TLeafF` and the like.
    pub class: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its title, with dimensions: `x[n][2]`.
    pub title: &'static str,
    /// Values in one item.
    pub len: i32,
    /// Integers are unsigned.
    pub unsigned: bool,
    /// The leaf that counts the items.
    pub counter: Option<&'static str>,
}

/// A basket.
#[derive(Debug, Clone, Default)]
pub struct Basket {
    /// Entries in it.
    pub entries: usize,
    /// Big-endian values.
    pub data: Vec<u8>,
    /// Offsets of the entries in the data, for columns of variable length.
    pub table: Option<Vec<usize>>,
}

/// The properties that make a branch a `TBranchElement`. Its leaves are then of class
/// `TLeafElement`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Element {
    /// The class of the variable, or the one that the member belongs to.
    pub class_name: &'static str,
    /// Its version.
    pub class_version: i16,
    /// Number of the member; -1 for variables.
    pub id: i32,
    /// 0, or 3, 4, 31 or 41 for collections and their members.
    pub kind: i32,
    /// `TStreamerInfo`'s code for the leaf.
    pub code: i32,
}

/// A branch.
#[derive(Debug, Clone, Default)]
pub struct Branch {
    /// Its name.
    pub name: &'static str,
    /// Its leaves.
    pub leaves: Vec<Leaf>,
    /// The element; `None` for a `TBranch`.
    pub element: Option<Element>,
    /// The baskets in the file.
    pub baskets: Vec<Basket>,
    /// The last basket, inside the tree.
    pub embedded: Option<Basket>,
    /// The branches below.
    pub branches: Vec<Self>,
}

/// A tree.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// `T`, or `dir/T`.
    pub path: &'static str,
    /// Its version under this name.
    pub cycle: i16,
    /// Its branches.
    pub branches: Vec<Branch>,
}

/// Options of a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// 64-bit offsets everywhere.
    pub large: bool,
    /// `ZL`, `XZ`, `L4`, `ZS` or `CS`; `None` for uncompressed payloads.
    pub codec: Option<[u8; 2]>,
    /// Bytes of plain payload per compressed block.
    pub block: Option<usize>,
}

impl Branch {
    /// Entries in all its baskets.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.baskets.iter().chain(&self.embedded).map(|basket| basket.entries).sum()
    }
}
