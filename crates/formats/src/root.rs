//! ROOT files: header, directories, trees, branches, baskets.
//!
//! # How a tree is found
//!
//! A file is a header and a row of *keys*, each followed by an object. The header tells where the
//! top directory's record is, the record where its list of keys is; writers put that list near the
//! end of the file. So the head and the tail of a file, fetched in one round trip, usually hold
//! everything that [`RootFile::open`] needs. The list of keys gives the exact place of a tree's
//! object, which [`RootFile::tree`] fetches in the second round trip. A tree's object contains the
//! offset and size of every *basket* of every branch; from there on each column is known to the
//! byte, and the third round trip brings the data.
//!
//! # How an object is read
//!
//! Objects are streamed: each class writes its base classes, then its members, with a byte count
//! before each class, so that what is not needed can be skipped. `class_members` says which members
//! a version of a class has: the versions that ROOT has written since 2003 are built in, for any
//! other version the file's own class descriptions (`streamer_info`) are asked. Objects refer to
//! each other and to class names by their position in the buffer; such references are followed on
//! demand, at most once each, with a budget, so that a hostile file cannot make a short buffer
//! expensive.
//!
//! # How a basket is decoded
//!
//! A basket is a key, a compressed payload of big-endian values, and for columns of variable length
//! the offset of each entry. Baskets that were never flushed are *embedded* in the tree's object,
//! uncompressed.
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
