//! ROOT files: header, directories, trees, branches, baskets.
//!
//! # Opening a tree
//!
//! A file is a header and a sequence of *keys*, each followed by an object. The header gives the
//! offset of the record of the top directory, and that record the offset of its list of keys, which
//! writers put near the end of the file. So the head and the tail of a file, fetched in one round
//! trip, usually contain everything that [`RootFile::open`] needs. The list of keys gives the exact
//! range of a tree's object, which [`RootFile::tree`] fetches in the second round trip. A tree's
//! object contains the offset and size of every *basket* of every branch: the ranges of each column
//! are known exactly, and the third round trip fetches the data.
//!
//! # Reading an object
//!
//! Objects are streamed: each class writes its base classes, then its members, with a byte count
//! before each class, so that a reader can skip unneeded parts. `class_members` lists the members
//! of each version of a class: the versions that ROOT has written since 2003 are built in; any
//! other version is looked up in the file's own class descriptions (`streamer_info`). Objects refer
//! to each other and to class names by their position in the buffer. The reader follows such
//! references on demand, each at most once, within a budget, so that a hostile file cannot make a
//! short buffer expensive.
//!
//! # Decoding a basket
//!
//! A basket is a key, a compressed payload of big-endian values, and, for columns of variable
//! length, the offset of each entry. Baskets that were never flushed are *embedded* in the tree's
//! object, uncompressed.
//!
//! Sources: ROOT's own streamers (`TFile`, `TDirectoryFile`, `TKey`, `TBufferFile`, `TTree`,
//! `TBranch`, `TBranchElement`, `TLeaf`, `TBasket`) and the format notes in `io/doc/TFile` of its
//! repository.

mod basket;
mod codec;
mod cursor;
mod directory;
mod file;
mod interpretation;
mod key;
mod object;
mod tree;

pub use codec::Decompressor;
pub use file::{RootFile, TreeKey};
pub use interpretation::column_type::ColumnType;
pub use interpretation::record_type::RecordType;
pub use interpretation::streamed_type::ListKind;
pub use key::Key;
pub use tree::Tree;
pub use tree::basket_map::BasketMap;
pub use tree::basket_table::BasketTable;
pub use tree::branch::Branch;
pub use tree::clusters::Clusters;
