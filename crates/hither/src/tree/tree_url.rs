//! `URL:TREE`, the name of a tree in a file.

use crate::client::storage_path::local_path;
use hither_transport::{Location, redact_url};

/// A file and, perhaps, a tree in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeUrl {
    /// URL or local path of the file.
    pub url: String,
    /// Path of the tree in the file.
    pub tree: Option<String>,
}

impl TreeUrl {
    /// The URL without secrets (user, password, query), for display.
    #[must_use]
    pub fn shown(&self) -> String {
        match Location::parse(&self.url) {
            Ok(location) => location.to_string(),
            Err(_) if self.url.contains("://") => redact_url(&self.url),
            Err(_) => self.url.clone(),
        }
    }

    /// Splits `text` after `.root:` if that occurs, else at the last colon in the last component of
    /// the path, unless `.root` ends it: that is a file with a colon in its name. A colon before a
    /// port, in a query, or after a scheme does not split, nor does one in the name of a local file
    /// that exists. A colon at the end splits off no tree.
    ///
    /// ```
    /// use hither::TreeUrl;
    /// let target = TreeUrl::parse("http://host:8080/data/run.root:dir/Events");
    /// assert_eq!(target.url, "http://host:8080/data/run.root");
    /// assert_eq!(target.tree.as_deref(), Some("dir/Events"));
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if local_path(text).is_some_and(|path| path.is_file()) {
            return Self { url: text.to_owned(), tree: None };
        }
        let path_start = match text.find("://") {
            Some(scheme) => {
                let authority = scheme + 3;
                text[authority..].find('/').map_or(text.len(), |slash| authority + slash)
            }
            None => 0,
        };
        let path = &text[path_start..];
        let split = path.find(".root:").map(|at| at + ".root".len()).or_else(|| {
            let last = path.rfind('/').map_or(0, |slash| slash + 1);
            let component = &path[last..];
            let end = component.find('?').unwrap_or(component.len());
            let is_file = component[..end].ends_with(".root");
            component[..end].rfind(':').filter(|_| !is_file).map(|colon| last + colon)
        });
        match split {
            Some(at) if path.len() > at + 1 => Self {
                url: text[..path_start + at].to_owned(),
                tree: Some(path[at + 1..].to_owned()),
            },
            // A colon with nothing after it names no tree.
            Some(at) if path_start > 0 || at > 0 => {
                Self { url: text[..path_start + at].to_owned(), tree: None }
            }
            _ => Self { url: text.to_owned(), tree: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_that_split_and_colons_that_do_not() {
        for (text, url, tree) in [
            ("http://h:80/f.root", "http://h:80/f.root", None),
            ("http://h:80/f.root:T", "http://h:80/f.root", Some("T")),
            ("http://h/f.root:T;2", "http://h/f.root", Some("T;2")),
            ("http://h/f.root:a/b/T", "http://h/f.root", Some("a/b/T")),
            ("http://h/f.root:", "http://h/f.root", None),
            ("http://h/x?token=a:b", "http://h/x?token=a:b", None),
            ("http://h/data:T", "http://h/data", Some("T")),
            ("http://h:80", "http://h:80", None),
            ("/local/f.root:T", "/local/f.root", Some("T")),
            ("f.root", "f.root", None),
            ("file:///x/f.root:T", "file:///x/f.root", Some("T")),
            ("http://h/a:b.root", "http://h/a:b.root", None),
            ("http://h/a:b.root?x=y", "http://h/a:b.root?x=y", None),
            ("http://h/a:b.root:T", "http://h/a:b.root", Some("T")),
            ("a:b.root", "a:b.root", None),
            ("http://h/a:b:", "http://h/a:b", None),
            ("", "", None),
        ] {
            let parsed = TreeUrl::parse(text);
            assert_eq!((parsed.url.as_str(), parsed.tree.as_deref()), (url, tree), "{text:?}");
        }
    }

    #[test]
    fn a_local_file_of_exactly_that_name_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("x.root:Events").to_str().unwrap().to_owned();
        assert_eq!(TreeUrl::parse(&text).tree.as_deref(), Some("Events"));
        std::fs::write(&text, b"").unwrap();
        assert_eq!(TreeUrl::parse(&text), TreeUrl { url: text, tree: None });
    }
}
