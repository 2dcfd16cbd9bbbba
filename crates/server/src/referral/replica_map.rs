//! Replicas of whole directories on other servers, from the settings.
//!
//! A file below such a directory is assumed to have a replica of the same name at each of its URLs;
//! the server does not check that.

use crate::backend::path::{NamespacePath, push_href};
use hither_core::error::{Error, ErrorKind, Result};
use hither_transport::redact_url;
use serde::Deserialize;

/// A directory that has copies elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct ReplicaSettings {
    /// The directory, below the root of what is served; `/` for all of it.
    pub path: String,
    /// URLs of the directory elsewhere, the preferred one first.
    pub urls: Vec<String>,
}

/// The URLs of replicated directories.
#[derive(Debug, Default)]
pub(crate) struct ReplicaMap {
    /// Directories and their URLs without slashes at the ends, the deepest first.
    folders: Vec<(NamespacePath, Vec<String>)>,
}

impl ReplicaMap {
    /// # Errors
    /// A path is invalid, or files cannot be read by a URL's scheme.
    pub(crate) fn new(settings: &[ReplicaSettings]) -> Result<Self> {
        let invalid = |what: String| Error::new(ErrorKind::Invalid, format!("replicas: {what}"));
        let mut folders = Vec::new();
        for ReplicaSettings { path, urls } in settings {
            let folder = NamespacePath::parse(path).map_err(|error| {
                invalid(format!("{path:?} is not a path like {:?}: {}", "/store", error.what))
            })?;
            if urls.is_empty() {
                return Err(invalid(format!("{path} has no urls")));
            }
            if let Some(url) = urls.iter().find(|url| !hither_http::metalink::is_readable(url)) {
                let kinds = "an absolute http, https, dav, davs, root or roots URL";
                let url = redact_url(url);
                return Err(invalid(format!("{url:?} cannot be used, expected {kinds}")));
            }
            let urls = urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
            folders.push((folder, urls));
        }
        folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.path().len()));
        Ok(Self { folders })
    }

    /// The URLs of a file's replicas; none if no directory above it has any.
    pub(crate) fn urls(&self, path: &NamespacePath) -> Vec<String> {
        let Some((folder, urls)) = self.folders.iter().find(|(folder, _)| folder.holds(path))
        else {
            return Vec::new();
        };
        let below = path.path().strip_prefix(folder.path()).unwrap_or_default();
        let below = below.trim_start_matches('/');
        urls.iter().map(|base| url_below(base, below)).collect()
    }

    /// Returns true if there are no replicas.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }
}

/// The URL of `path` below `base`, a URL without a slash at its end. XRootD's URLs are not escaped.
#[must_use]
pub fn url_below(base: &str, path: &str) -> String {
    if base.starts_with("http") || base.starts_with("dav") {
        let mut url = String::with_capacity(base.len() + path.len() + 1);
        url.push_str(base);
        push_href(&mut url, path);
        if path.is_empty() {
            url.push('/');
        }
        url
    } else {
        format!("{base}/{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(text: &str) -> Result<ReplicaMap> {
        ReplicaMap::new(&crate::settings::Settings::from_toml(text)?.replicas)
    }

    #[test]
    fn names_are_appended_to_the_urls_of_the_deepest_folder() {
        let replicas = replicas(
            "[[replicas]]\npath = '/'\nurls = ['https://all.example']\n\
             [[replicas]]\npath = '/a/b'\nurls = ['https://near.example/x/', 'root://far.example//y']",
        )
        .unwrap();
        for (path, expected) in [
            ("/a/c%20d", vec!["https://all.example/a/c%20d"]),
            ("/a/bc", vec!["https://all.example/a/bc"]),
            ("/a/b/c%20d", vec!["https://near.example/x/c%20d", "root://far.example//y/c d"]),
        ] {
            assert_eq!(replicas.urls(&NamespacePath::parse(path).unwrap()), expected, "{path}");
        }
        assert!(ReplicaMap::default().urls(&NamespacePath::parse("/a").unwrap()).is_empty());
    }

    #[test]
    fn an_error_names_the_invalid_path_or_url() {
        for (path, url, named) in [
            ("store", "https://a.example", "store"),
            ("/a/../b", "https://a.example", "/a/../b"),
            ("/a", "ftp://a.example", "ftp://a.example"),
            ("/a", "/b", "/b"),
        ] {
            let text = format!("[[replicas]]\npath = '{path}'\nurls = ['{url}']");
            let error = replicas(&text).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        assert!(replicas("[[replicas]]\npath = '/a'\nurls = []").is_err());
    }
}
