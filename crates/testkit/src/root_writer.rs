//! A minimal writer of ROOT files: trees of branches in the layouts of `TTree` 20, `TBranch` 13 and
//! `TBranchElement` 10, and class descriptions.
//!
//! It writes any structure as given, even if invalid: the caller supplies the bytes of baskets. So
//! it can write files that ROOT itself would not write, which tests of a reader need most.
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
    /// `TLeafF` or another class.
    pub class: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its title, with dimensions: `x[n][2]`.
    pub title: &'static str,
    /// Number of values per item.
    pub len: i32,
    /// True for unsigned integers.
    pub unsigned: bool,
    /// The leaf that contains the number of items.
    pub counter: Option<&'static str>,
}

/// A basket.
#[derive(Debug, Clone, Default)]
pub struct Basket {
    /// Number of entries.
    pub entries: usize,
    /// Big-endian values.
    pub data: Vec<u8>,
    /// Offsets of the entries in the data, for columns of variable length.
    pub table: Option<Vec<usize>>,
}

/// The properties of a `TBranchElement`. The leaves of such a branch are of class `TLeafElement`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Element {
    /// The class of the variable, or of the object that the member belongs to.
    pub class_name: &'static str,
    /// Its version.
    pub class_version: i16,
    /// Number of the member; -1 for variables.
    pub id: i32,
    /// 0; or 3, 4, 31 or 41 for collections and their members.
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
    /// The child branches.
    pub branches: Vec<Self>,
}

/// A tree.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// `T`, or `dir/T`.
    pub path: &'static str,
    /// Its version number under this name.
    pub cycle: i16,
    /// Its branches.
    pub branches: Vec<Branch>,
}

/// Options of a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// True for 64-bit offsets everywhere.
    pub large: bool,
    /// `ZL`, `XZ`, `L4`, `ZS` or `CS`; `None` for uncompressed payloads.
    pub codec: Option<[u8; 2]>,
    /// Maximum bytes of plain payload per compressed block.
    pub block: Option<usize>,
}

impl Branch {
    /// Number of entries in all its baskets.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.baskets.iter().chain(&self.embedded).map(|basket| basket.entries).sum()
    }
}
