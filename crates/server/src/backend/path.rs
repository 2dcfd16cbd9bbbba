//! The path of a request as a path below the served root.
//!
//! A path that different readers could understand differently is rejected here, before a file
//! system sees it: `.` and `..`, plain or encoded; an encoded slash or NUL; control characters;
//! text that is not UTF-8 or wrongly encoded. Doubled slashes count as one, as grid clients write
//! them.

use crate::http_error::HttpError;
use hither_core::storage::join;
use http::uri::Authority;
use http::{StatusCode, Uri};
use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode,
};
use std::fmt;

/// The prefix of private names, which files and directories of this server have while they are
/// written or removed. Clients never see such names.
pub(crate) const PRIVATE: &str = ".hither-put-";
/// The longest path in bytes: the limit of Linux.
const MAX_BYTES: usize = 4096;
/// The maximum number of names in a path. Code that walks a tree goes no deeper.
pub(crate) const MAX_DEPTH: usize = 128;
/// The characters besides letters and digits that are not percent-encoded in a path (RFC 3986
/// section 3.3, without those that text around URLs uses as quotes).
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'+')
    .remove(b'=')
    .remove(b'@')
    .remove(b',')
    .remove(b':');

/// A path below the served root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamespacePath {
    path: String,
    /// True if the client wrote it with a slash at the end.
    is_directory: bool,
}

impl NamespacePath {
    /// Parses the path of a request target.
    pub(crate) fn parse(path: &str) -> Result<Self, HttpError> {
        let refuse = |what| Err(HttpError::new(StatusCode::BAD_REQUEST, what));
        let Some(rest) = path.strip_prefix('/') else {
            return refuse("the request target is not a path");
        };
        if path.len() > 3 * MAX_BYTES {
            return Err(HttpError::new(StatusCode::URI_TOO_LONG, "the path is too long"));
        }
        let mut decoded = String::with_capacity(rest.len());
        for component in rest.split('/').filter(|component| !component.is_empty()) {
            if !is_well_encoded(component) {
                return refuse("the path has a \"%\" that two hexadecimal digits do not follow");
            }
            let Ok(name) = percent_decode_str(component).decode_utf8() else {
                return refuse("the path is not valid UTF-8");
            };
            check_name(&name)?;
            if !decoded.is_empty() {
                decoded.push('/');
            }
            decoded.push_str(&name);
        }
        if decoded.len() > MAX_BYTES || decoded.split('/').count() > MAX_DEPTH {
            return Err(HttpError::new(StatusCode::URI_TOO_LONG, "the path is too long"));
        }
        Ok(Self { path: decoded, is_directory: path.ends_with('/') })
    }

    /// The path `relative` below this one, which is not percent-encoded. The same paths are refused
    /// as by [`Self::parse`].
    pub(crate) fn below(&self, relative: &str) -> Result<Self, HttpError> {
        relative.split('/').try_for_each(check_name)?;
        let path = self.join(relative);
        if path.len() > MAX_BYTES || path.split('/').count() > MAX_DEPTH {
            return Err(HttpError::new(StatusCode::URI_TOO_LONG, "the path is too long"));
        }
        Ok(Self { path, is_directory: false })
    }

    /// A path at which a backend has found something.
    pub(crate) fn resolved(path: String) -> Self {
        Self { path, is_directory: false }
    }

    /// Parses a `Destination` field, which must name a path on this server, called `host`.
    pub(crate) fn destination(field: &str, host: Option<&Authority>) -> Result<Self, HttpError> {
        let bad = |what| HttpError::new(StatusCode::BAD_REQUEST, what);
        if field.starts_with('/') {
            return Self::parse(field);
        }
        let uri: Uri = field.parse().map_err(|_| bad("Destination is neither a URL nor a path"))?;
        let authority = uri.authority().ok_or_else(|| bad("Destination names no host"))?;
        if host != Some(authority) {
            let what = "Destination is on another server";
            return Err(HttpError::new(StatusCode::BAD_GATEWAY, what));
        }
        Self::parse(uri.path())
    }

    /// The path without slashes at the ends; empty for the root.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns true if the client wrote it as a directory, with a slash at the end.
    pub(crate) fn is_directory(&self) -> bool {
        self.is_directory
    }

    pub(crate) fn is_root(&self) -> bool {
        self.path.is_empty()
    }

    /// The parent directory, and the name in it; none for the root.
    pub(crate) fn split(&self) -> Option<(&str, &str)> {
        match self.path.rsplit_once('/') {
            Some(split) => Some(split),
            None if self.path.is_empty() => None,
            None => Some(("", &self.path)),
        }
    }

    /// The path of the entry `name` in this directory.
    pub(crate) fn join(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Returns true if `other` is this path or lies below it.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        let rest = other.path.strip_prefix(&self.path);
        rest.is_some_and(|rest| self.is_root() || rest.is_empty() || rest.starts_with('/'))
    }

    /// The path as that of a URL, with a slash at the end for a directory.
    pub(crate) fn href(&self, is_directory: bool) -> String {
        href(&self.path, is_directory)
    }
}

impl fmt::Display for NamespacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.path)
    }
}

/// Fails for a name that no path may have.
fn check_name(name: &str) -> Result<(), HttpError> {
    let refuse = |what| Err(HttpError::new(StatusCode::BAD_REQUEST, what));
    if matches!(name, "." | "..") {
        return refuse("the path contains \".\" or \"..\"");
    }
    if name.chars().any(|c| c == '/' || c.is_control()) {
        return refuse("the path contains an encoded slash or a control character");
    }
    if name.starts_with(PRIVATE) { Err(HttpError::not_found()) } else { Ok(()) }
}

/// Encodes a path below the root as the path of a URL.
pub(crate) fn href(path: &str, is_directory: bool) -> String {
    let mut href = String::with_capacity(path.len() + 2);
    push_href(&mut href, path);
    if is_directory || href.is_empty() {
        href.push('/');
    }
    href
}

/// Appends the encoded components of a path to a URL, a slash before each.
pub(crate) fn push_href(url: &mut String, path: &str) {
    for component in path.split('/').filter(|component| !component.is_empty()) {
        url.push('/');
        url.extend(utf8_percent_encode(component, PLAIN));
    }
}

/// Encodes the bytes of one name.
pub(crate) fn encoded_name(name: &[u8]) -> String {
    percent_encode(name, PLAIN).to_string()
}

fn is_well_encoded(component: &str) -> bool {
    let mut parts = component.as_bytes().split(|byte| *byte == b'%');
    parts.next();
    parts.all(|part| part.get(..2).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_names_below_the_root() {
        for (path, name, is_directory) in [
            ("/", "", true),
            ("/a/b.root", "a/b.root", false),
            ("//a///b/", "a/b", true),
            ("/with%20space/100%25", "with space/100%", false),
            ("/%C3%BC", "ü", false),
            ("/...", "...", false),
        ] {
            let place = NamespacePath::parse(path).unwrap();
            assert_eq!((place.path(), place.is_directory()), (name, is_directory), "{path}");
        }
    }

    #[test]
    fn ambiguous_and_private_paths_are_rejected() {
        for path in [
            "",
            "a",
            "*",
            "/..",
            "/a/../b",
            "/%2e%2E/a",
            "/a/.",
            "/a%2fb",
            "/a%00",
            "/a%0ab",
            "/%ff",
            "/%c0%ae%c0%ae/",
            "/%",
            "/%4",
            "/%zz",
            "/%+1",
        ] {
            assert!(NamespacePath::parse(path).is_err(), "{path}");
        }
        assert!(NamespacePath::parse("/.hither-put-1").is_err());
        assert!(NamespacePath::parse(&format!("/{}", "a".repeat(5000))).is_err());
        assert!(NamespacePath::parse(&"/a".repeat(MAX_DEPTH)).is_ok());
        assert!(NamespacePath::parse(&"/a".repeat(MAX_DEPTH + 1)).is_err());
    }

    #[test]
    fn destinations_are_on_this_server() {
        let there =
            |field| NamespacePath::destination(field, Some(&Authority::from_static("host:80")));
        assert_eq!(there("http://HOST:80/a%20b").unwrap().path(), "a b");
        assert_eq!(there("/a").unwrap().path(), "a");
        for field in ["http://other:80/a", "host:80", "a", "http://host:80/../a", "http://host/a"] {
            assert!(there(field).is_err(), "{field}");
        }
    }

    #[test]
    fn a_directory_holds_its_entries() {
        let place = |path| NamespacePath::parse(path).unwrap();
        assert!(place("/").holds(&place("/a")) && place("/a").holds(&place("/a/b")));
        assert!(place("/a").holds(&place("/a/")) && !place("/a").holds(&place("/ab")));
    }

    proptest! {
        #[test]
        fn names_survive_urls(components in prop::collection::vec("[^/\\p{Cc}]{1,12}", 0..4)) {
            let path = components.join("/");
            prop_assume!(!components.iter().any(|name| name == "." || name == ".."));
            let place = NamespacePath::parse(&href(&path, false)).unwrap();
            prop_assert_eq!(place.path(), path);
        }

        #[test]
        fn any_text_is_a_path_below_the_root_or_rejected(path in "\\PC{0,40}") {
            if let Ok(place) = NamespacePath::parse(&path) {
                prop_assert!(hither_core::storage::check_path(place.path()).is_ok());
            }
        }
    }
}
