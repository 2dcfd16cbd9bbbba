//! Names on servers and on this machine: patterns in URLs, walks through trees, and space that is
//! reserved for directories.

pub(crate) mod lots;
pub(crate) mod tree_walk;
pub(crate) mod url_pattern;
