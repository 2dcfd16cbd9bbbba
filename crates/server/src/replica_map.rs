//! Replicas of whole folders on other servers, as the settings name them.
//!
//! A file below such a folder is said to have a replica at each of its URLs, under the same name;
//! nobody asks there whether that is so.

use crate::backend::path::{NamespacePath, href};
use hither_core::error::{Error, ErrorKind, Result};
use serde::Deserialize;

/// A folder of which there are copies elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaSettings {
    /// The folder, below the root of what is served; `/` for all of it.
    pub path: String,
    /// URLs of the folder elsewhere, the best first.
    pub urls: Vec<String>,
}

/// See the module above.
#[derive(Debug, Default)]
pub(crate) struct ReplicaMap {
    /// Folders and their URLs without slashes at the ends, the deepest first.
    folders: Vec<(NamespacePath, Vec<String>)>,
}

impl ReplicaMap {
    /// # Errors
    /// A path that is none, or a URL of a kind that files are not read by.
    pub(crate) fn new(settings: &[ReplicaSettings]) -> Result<Self> {
        let invalid = |what: String| Error::new(ErrorKind::Invalid, format!("replicas: {what}"));
        let mut folders = Vec::new();
        for ReplicaSettings { path, urls } in settings {
            let place = NamespacePath::parse(path).map_err(|refusal| {
                invalid(format!("{path:?} is not a path like {:?}: {}", "/store", refusal.what))
            })?;
            if urls.is_empty() {
                return Err(invalid(format!("{path} has no urls")));
            }
            if let Some(url) = urls.iter().find(|url| !hither_http::metalink::is_readable(url)) {
                let kinds = "an absolute http, https, dav, davs, root or roots URL";
                return Err(invalid(format!("{url:?} cannot be used, expected {kinds}")));
            }
            let urls = urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
            folders.push((place, urls));
        }
        folders.sort_by_key(|(place, _)| std::cmp::Reverse(place.path().len()));
        Ok(Self { folders })
    }

    /// Where else a file is; nowhere, if nobody said so.
    pub(crate) fn urls(&self, place: &NamespacePath) -> Vec<String> {
        let Some((folder, urls)) = self.folders.iter().find(|(folder, _)| folder.holds(place))
        else {
            return Vec::new();
        };
        let below = place.path().strip_prefix(folder.path()).unwrap_or_default();
        let below = below.trim_start_matches('/');
        let url = |base: &String| match base.starts_with("http") || base.starts_with("dav") {
            true => format!("{base}{}", href(below, false)),
            // Names in XRootD's URLs are as they are.
            false => format!("{base}/{below}"),
        };
        urls.iter().map(url).collect()
    }

    /// True if there are no replicas at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(text: &str) -> Result<ReplicaMap> {
        ReplicaMap::new(&crate::settings::Settings::from_toml(text)?.replicas)
    }

    #[test]
    fn names_are_put_behind_the_urls_of_the_deepest_folder() {
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
    fn what_is_no_folder_and_no_url_is_refused() {
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
