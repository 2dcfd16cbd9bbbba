//! The methods of HTTP and WebDAV, one file for each or for a pair of them.

pub(crate) mod autoindex;
pub(crate) mod copy_move;
pub(crate) mod digest_fields;
pub(crate) mod get;
pub(crate) mod lots;
pub(crate) mod metalink;
pub(crate) mod mkcol_delete;
pub(crate) mod preconditions;
pub(crate) mod propfind;
pub(crate) mod proppatch;
pub(crate) mod put;
pub(crate) mod query;
pub(crate) mod streamed_listing;
pub(crate) mod tape;
pub(crate) mod tree;
pub(crate) mod unfinished_files;
