//! The body of a `QUERY` on a directory.
//!
//! One byte states the request: `W` for a walk, followed by the position after which it continues;
//! `M` for the metadata of some paths, `C` for their content. A list has one item after the other:
//! the number of bytes that a path has in common with the one before it, the number of further
//! bytes (both LEB128), and these.

use super::{MAX_PATHS, check_path};
use crate::vector::leb128::{self, put};
use std::collections::HashSet;

/// The body of a `QUERY` on a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeQuery {
    /// Everything below the directory by name, in the order of [`WalkOrder`](super::WalkOrder).
    Walk {
        /// Only entries after this position: the path of the last record received, with a slash at
        /// the end if that was a directory. Empty for all.
        after: String,
    },
    /// The metadata of these paths.
    Metadata(Vec<String>),
    /// These files with their bytes, as far as they fit into a record.
    Content(Vec<String>),
}

/// A body that is not a valid query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeQueryError {
    /// The body does not begin with a known request.
    #[error("the query of the tree begins with none of the bytes W, M and C")]
    Kind,
    /// The list ends within a path, or a path leads elsewhere.
    #[error("path {path} of the query is not a path below the directory")]
    Path {
        /// The path, counted from 0.
        path: usize,
    },
    /// A path comes twice.
    #[error("path {path} of the query is there twice")]
    Twice {
        /// The path, counted from 0.
        path: usize,
    },
    /// There are too many paths.
    #[error("the query has more than {MAX_PATHS} paths")]
    TooMany,
}

impl TreeQuery {
    /// The maximum size of a body in bytes.
    pub const MAX_BYTES: usize = 4 << 20;

    /// Encodes the body.
    ///
    /// ```
    /// use hither_http::tree::TreeQuery;
    /// let query = TreeQuery::Content(vec!["run/a".to_owned(), "run/b".to_owned()]);
    /// assert_eq!(query.encode(), b"C\0\x05run/a\x04\x01b");
    /// assert_eq!(TreeQuery::decode(&query.encode()), Ok(query));
    /// ```
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, paths) = match self {
            Self::Walk { after } => return [b"W", after.as_bytes()].concat(),
            Self::Metadata(paths) => (b'M', paths),
            Self::Content(paths) => (b'C', paths),
        };
        let mut body = vec![kind];
        let mut last = "";
        for path in paths {
            let pairs = last.bytes().zip(path.bytes());
            let common = pairs.take_while(|(one, other)| one == other).count();
            let further = path.as_bytes().get(common..).unwrap_or_default();
            put(&mut body, common as u64);
            put(&mut body, further.len() as u64);
            body.extend_from_slice(further);
            last = path;
        }
        body
    }

    /// Parses a body.
    ///
    /// # Errors
    /// See [`TreeQueryError`].
    pub fn decode(body: &[u8]) -> Result<Self, TreeQueryError> {
        match body.split_first() {
            Some((b'W', after)) => {
                let bad = TreeQueryError::Path { path: 0 };
                let after = std::str::from_utf8(after).map_err(|_| bad.clone())?;
                let path = after.strip_suffix('/').unwrap_or(after);
                let is_position = after.is_empty() || check_path(path);
                is_position.then(|| Self::Walk { after: after.to_owned() }).ok_or(bad)
            }
            Some((b'M', list)) => decode_list(list).map(Self::Metadata),
            Some((b'C', list)) => decode_list(list).map(Self::Content),
            _ => Err(TreeQueryError::Kind),
        }
    }
}

fn decode_list(mut rest: &[u8]) -> Result<Vec<String>, TreeQueryError> {
    let mut paths: Vec<String> = Vec::new();
    let mut bytes = Vec::new();
    while !rest.is_empty() {
        let bad = TreeQueryError::Path { path: paths.len() };
        if paths.len() == MAX_PATHS {
            return Err(TreeQueryError::TooMany);
        }
        let path = next_path(&mut rest, &mut bytes).ok_or(bad)?;
        paths.push(path);
    }
    let mut seen = HashSet::with_capacity(paths.len());
    match paths.iter().position(|path| !seen.insert(path.as_str())) {
        Some(path) => Err(TreeQueryError::Twice { path }),
        None => Ok(paths),
    }
}

/// Takes the next path of a list; `bytes` are those of the one before it.
fn next_path(rest: &mut &[u8], bytes: &mut Vec<u8>) -> Option<String> {
    let common = usize::try_from(leb128::take(rest).ok()?).ok()?;
    let further = usize::try_from(leb128::take(rest).ok()?).ok()?;
    if common > bytes.len() {
        return None;
    }
    let (further, after) = rest.split_at_checked(further)?;
    *rest = after;
    bytes.truncate(common);
    bytes.extend_from_slice(further);
    let path = std::str::from_utf8(bytes).ok()?;
    check_path(path).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_query_is_refused() {
        let decode = |body: &[u8]| TreeQuery::decode(body).unwrap_err();
        assert_eq!(decode(b""), TreeQueryError::Kind);
        assert_eq!(decode(b"X"), TreeQueryError::Kind);
        for path in ["..", "a/../b", "/a", "a//b", "a/", ".", "a\0b"] {
            let body = TreeQuery::Content(vec!["good".to_owned(), path.to_owned()]).encode();
            assert_eq!(decode(&body), TreeQueryError::Path { path: 1 }, "{path}");
            let body = TreeQuery::Walk { after: format!("{path}/") }.encode();
            assert_eq!(decode(&body), TreeQueryError::Path { path: 0 }, "{path}");
        }
        assert_eq!(decode(b"C\x01\x00"), TreeQueryError::Path { path: 0 });
        assert_eq!(decode(b"C\x00\x05ab"), TreeQueryError::Path { path: 0 });
        assert_eq!(decode(b"M\x00\x01a\x00\x01a"), TreeQueryError::Twice { path: 1 });
        let many = (0..=MAX_PATHS).map(|n| n.to_string()).collect();
        assert_eq!(decode(&TreeQuery::Metadata(many).encode()), TreeQueryError::TooMany);
        let long = vec!["x".repeat(super::super::MAX_PATH_BYTES + 1)];
        assert_eq!(decode(&TreeQuery::Content(long).encode()), TreeQueryError::Path { path: 0 });
    }

    proptest! {
        #[test]
        fn queries_round_trip(paths in prop::collection::hash_set("[a-c]{1,3}(/[a-cä]{1,3}){0,3}", 0..40)) {
            let paths: Vec<String> = paths.into_iter().collect();
            for query in [TreeQuery::Metadata(paths.clone()), TreeQuery::Content(paths)] {
                prop_assert_eq!(TreeQuery::decode(&query.encode()), Ok(query));
            }
        }

        #[test]
        fn any_bytes_are_a_query_or_refused(body in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(query) = TreeQuery::decode(&body) {
                prop_assert_eq!(TreeQuery::decode(&query.encode()), Ok(query));
            }
        }
    }
}
