//! The files of a directory tree as a stream of records, in either direction: many small files in
//! one response or one request. `docs/protocols/tree.md` is the specification.
//!
//! A `QUERY` on a directory has a [`TreeQuery`] as its body: it requests a *walk*, which names
//! everything below the directory, or some files by their paths. A `POST` to a directory has files
//! as its body. All streams consist of the same records: [`TreeWriter`] writes them, [`TreeReader`]
//! reads them, and [`WalkOrder`] checks that the records of a walk are a tree.
//!
//! A server that supports this sends `Accept-Query: "application/vnd.hither.tree-query.v1"` with
//! responses about directories, and if it accepts uploads `Accept-Post:
//! application/vnd.hither.tree.v1`.

mod query;
mod reader;
mod record;
mod walk_order;
mod writer;

pub use query::{TreeQuery, TreeQueryError};
pub use reader::{TreeError, TreeReader};
pub use record::{MAX_RESULT_BYTES, TreeEntry, TreeRecord, check_path};
pub use walk_order::{WalkOrder, WalkOrderError};
pub use writer::TreeWriter;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// Media type of a [`TreeQuery`].
pub const QUERY_TYPE: &str = "application/vnd.hither.tree-query.v1";
/// Media type of a stream of records.
pub const TREE_TYPE: &str = "application/vnd.hither.tree.v1";
/// Maximum size of a path in bytes.
pub const MAX_PATH_BYTES: usize = 4096;
/// Maximum number of names in a path.
pub const MAX_DEPTH: usize = 128;
/// Maximum number of bytes of a file in a record; a larger file is only named.
pub const MAX_CONTENT_BYTES: u32 = 1 << 20;
/// Maximum number of paths in one [`TreeQuery`], and of files and directories in one upload.
pub const MAX_PATHS: usize = 4096;
/// Maximum sum of the contents of one upload, in bytes.
pub const MAX_UPLOAD_BYTES: u64 = 64 << 20;
/// The field with the media types that a POST may have (Linked Data Platform 1.0 section 7.1).
pub const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");

/// Returns true if a response with this header states that a [`TreeQuery`] is accepted.
#[must_use]
pub fn is_understood(headers: &HeaderMap) -> bool {
    crate::vector::accepts_query(headers, QUERY_TYPE)
}

/// Returns true if a response with this header states that records are accepted by POST.
#[must_use]
pub fn takes_uploads(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT_POST).into_iter();
    values.any(|value| {
        let mut types = value.as_bytes().split(|byte| *byte == b',');
        types.any(|media_type| media_type.trim_ascii().eq_ignore_ascii_case(TREE_TYPE.as_bytes()))
    })
}

/// Returns true if a body with this header is a stream of records.
#[must_use]
pub fn is_tree(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    media_type.eq_ignore_ascii_case(TREE_TYPE.as_bytes())
}
