//! `URL:TREE`, the name of a tree in a file.

use crate::client::storage_path::local_path;
use hither_transport::{Location, redact_url};

/// The end of the names of ROOT files.
const ROOT: &str = ".root";

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

    /// Splits `text` at the last colon behind `.root` or, for a part of a data set, `.root.1`, as
    /// uproot does. If there is none, it splits at the last colon in the last component of the
    /// path, unless `.root` or `.root.1` ends it: that is a file with a colon in its name. A colon
    /// before a port, in the query of a URL, or after a scheme does not split, nor does one in the
    /// name of a local file that exists. A colon at the end of `text` names no tree: what is before
    /// it is the file.
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
        if let Some(url) = text.strip_suffix(':') {
            return Self { url: url.to_owned(), tree: None };
        }
        let (start, end) = match text.find("://") {
            Some(scheme) => {
                let authority = scheme + 3;
                let rest = &text[authority..];
                let start = rest.find('/').unwrap_or(rest.len());
                // What follows the tree may hold a question mark, but not the path before it.
                let end = rest.find('?').unwrap_or(rest.len());
                (authority + start, authority + end.max(start))
            }
            None => (0, text.len()),
        };
        let path = &text[start..end];
        let mut colons = path.rmatch_indices(':').map(|(at, _)| at);
        let split = colons.find(|at| is_root_file(&path[..*at])).or_else(|| {
            let last = path.rfind('/').map_or(0, |slash| slash + 1);
            let component = &path[last..];
            let colon = component.rfind(':').filter(|_| !is_root_file(component));
            colon.map(|colon| last + colon)
        });
        match split.map(|at| start + at) {
            Some(at) => Self { url: text[..at].to_owned(), tree: Some(text[at + 1..].to_owned()) },
            None => Self { url: text.to_owned(), tree: None },
        }
    }
}

/// Returns true for the names of files by which a tree is recognised: `run.root`, `run.ROOT.1`.
fn is_root_file(name: &str) -> bool {
    let numbered = name
        .rsplit_once('.')
        .filter(|(_, part)| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let name = numbered.map_or(name, |(name, _)| name);
    let end = name.len().checked_sub(ROOT.len()).and_then(|at| name.get(at..));
    end.is_some_and(|end| end.eq_ignore_ascii_case(ROOT))
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
            ("h/scope:f.root.1", "h/scope:f.root.1", None),
            ("http://h/scope:f.root.1?x=y", "http://h/scope:f.root.1?x=y", None),
            ("http://h/scope:f.root.1:T", "http://h/scope:f.root.1", Some("T")),
            ("root://h//f.root.12:a/T:x", "root://h//f.root.12", Some("a/T:x")),
            ("s3://b/f.ROOT:T", "s3://b/f.ROOT", Some("T")),
            ("f.root:a.root:T", "f.root:a.root", Some("T")),
            ("http://h/f.root.:T", "http://h/f.root.", Some("T")),
            ("http://h/é:oot:T", "http://h/é:oot", Some("T")),
            ("http://h/scope:run7?sig=x:", "http://h/scope:run7?sig=x", None),
            ("http://h/scope:f.root?sig=a:b.root:c", "http://h/scope:f.root?sig=a:b.root:c", None),
            ("x.root:run7:", "x.root:run7", None),
            ("http://h/f.root:T?x", "http://h/f.root", Some("T?x")),
            ("http://h:", "http://h", None),
            (":T", "", Some("T")),
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
