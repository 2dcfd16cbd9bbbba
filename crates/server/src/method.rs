//! The methods of HTTP and WebDAV, a file for each or for a pair of them.

pub(crate) mod arriving;
pub(crate) mod collection;
pub(crate) mod get;
pub(crate) mod listing;
pub(crate) mod page;
pub(crate) mod patch;
pub(crate) mod properties;
pub(crate) mod propfind;
pub(crate) mod put;
pub(crate) mod query;
pub(crate) mod relocate;
