//! Storages and the paths in them, from URLs and local paths.
//!
//! The root of a storage is the root of its server, or of the local file system, so that two URLs
//! on one server are two paths in one storage. Doubled slashes in a URL count as one: servers treat
//! them so, and the two slashes at the beginning of paths in root:// URLs have no meaning over
//! HTTP.

use crate::client::Client;
#[cfg(feature = "s3")]
use crate::client::credentials::s3;
use crate::url_path::decoded;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{Storage, check_path, parent};
use hither_transport::{LocalStorage, Location, Protocol, WebDavStorage, XrootdStorage};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A path in a storage.
#[derive(Debug, Clone)]
pub struct StoragePath {
    /// The storage, rooted at the root of the server.
    pub storage: Arc<dyn Storage>,
    /// The name that identifies the storage, without secrets.
    pub server: String,
    pub(crate) root: StorageRoot,
    /// The path in it.
    pub path: String,
    /// The URL ends with a slash: it names a directory.
    pub directory: bool,
}

/// The root of a storage, for display.
#[derive(Debug, Clone)]
pub(crate) enum StorageRoot {
    Local,
    Server(Location),
    #[cfg(feature = "s3")]
    Bucket,
}

impl StoragePath {
    /// The display form of `path` in this storage: a URL without secrets, or a local path.
    #[must_use]
    pub fn display_url(&self, path: &str) -> String {
        match &self.root {
            StorageRoot::Local => format!("/{path}"),
            StorageRoot::Server(root) => root.below(path, path.is_empty()).to_string(),
            #[cfg(feature = "s3")]
            StorageRoot::Bucket => format!("{}{path}", self.server),
        }
    }

    /// Returns true if the storage is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.root, StorageRoot::Local)
    }
}

impl Client {
    /// The storage of `url` (`http://…`, `https://…`, `root://…`, `s3://BUCKET/KEY`, a local path
    /// or `file://…`), and the path in it. Sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] or [`ErrorKind::Unsupported`] for a URL of an unknown scheme or a
    /// path that is not UTF-8 when decoded; [`ErrorKind::Local`] if the working directory is gone.
    pub fn storage(&self, url: &str) -> Result<(Arc<dyn Storage>, String)> {
        self.storage_path(url).map(|named| (named.storage, named.path))
    }

    /// The storage of `url` and the path in it, with their display form.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`].
    pub fn storage_path(&self, url: &str) -> Result<StoragePath> {
        self.replicated_path(url, &[])
    }

    /// As [`Client::storage_path`]; copies read files below `url` from `replicas`, too.
    pub(crate) fn replicated_path(&self, url: &str, replicas: &[String]) -> Result<StoragePath> {
        if url.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "the URL is empty: name a file"));
        }
        let network = &self.context.network;
        if let Some(path) = local_path(url) {
            let directory = url.ends_with('/');
            let path = path_from_root(&path)?;
            let storage = Arc::new(LocalStorage::new("/", Arc::clone(self.context.counters())));
            return Ok(StoragePath {
                storage,
                server: "file:".to_owned(),
                root: StorageRoot::Local,
                path,
                directory,
            });
        }
        #[cfg(feature = "s3")]
        if let Some(rest) = url.strip_prefix("s3://") {
            return self.in_bucket(rest, replicas);
        }
        let named = Location::parse(url)?;
        let path = decoded(named.path())?;
        let directory = named.path().ends_with('/');
        let location = named.root();
        let server = location.cache_key();
        let finder = self.replica_finder(url, named.to_string(), replicas);
        let storage: Arc<dyn Storage> = match location.protocol() {
            Protocol::Http => Arc::new(
                WebDavStorage::new(location.clone(), Arc::clone(network))
                    .with_directory(if directory { &*path } else { parent(&path) })
                    .with_replicas(finder),
            ),
            Protocol::Xrootd => Arc::new(
                XrootdStorage::new(location.clone(), Arc::clone(network)).with_replicas(finder),
            ),
        };
        Ok(StoragePath { storage, server, root: StorageRoot::Server(location), path, directory })
    }
}

#[cfg(feature = "s3")]
impl Client {
    /// The bucket and the path of `BUCKET/KEY`. The key is taken literally: nothing in it is
    /// encoded.
    pub(crate) fn bucket(
        &self,
        text: &str,
        network: &Arc<hither_transport::Network>,
    ) -> Result<(hither_transport::S3Storage, String)> {
        let (bucket, key) = text.split_once('/').unwrap_or((text, ""));
        if bucket.contains('@') {
            let what = "s3:// URLs have no user and password: expected s3://BUCKET/KEY, with keys \
                        in the environment";
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        // One slash at the end says that the key is a directory. A store tells `d//` from `d/`.
        let path = key.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(key).to_owned();
        check_path(&path)?;
        let config = s3::configured(&self.context.config)?;
        let s3 = hither_transport::S3Storage::new(bucket, &config, Arc::clone(network))?;
        Ok((s3, path))
    }

    fn in_bucket(&self, text: &str, replicas: &[String]) -> Result<StoragePath> {
        let (s3, path) = self.bucket(text, &self.context.network)?;
        let url = format!("s3://{text}");
        let s3 = s3.with_replicas(self.replica_finder(&url, url.clone(), replicas));
        let directory = path.is_empty() || text.ends_with('/');
        let server = s3.name();
        Ok(StoragePath {
            storage: Arc::new(s3),
            server,
            root: StorageRoot::Bucket,
            path,
            directory,
        })
    }
}

/// The path of a local file, if `url` is one: `file:` URLs, and everything without a scheme.
pub(crate) fn local_path(url: &str) -> Option<PathBuf> {
    if let Some(rest) = url.strip_prefix("file:") {
        let path = rest
            .strip_prefix("//")
            .map_or(rest, |rest| rest.strip_prefix("localhost").unwrap_or(rest));
        return Some(PathBuf::from(path));
    }
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let is_url = scheme.is_some_and(|scheme| {
        !scheme.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    });
    (!is_url).then(|| PathBuf::from(url))
}

/// The path of a local file from the root. `..` goes up from where links lead to.
fn path_from_root(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::Local,
        };
        Error::new(kind, format!("cannot find {}: {error}", path.display()))
    };
    let mut whole = PathBuf::from("/");
    for component in std::path::absolute(path).map_err(failed)?.components() {
        match component {
            Component::ParentDir => {
                whole = std::fs::canonicalize(&whole).map_err(failed)?;
                whole.pop();
            }
            Component::Normal(name) => whole.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let text = whole.to_str().and_then(|text| text.strip_prefix('/')).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("{whole:?} is not UTF-8: rename it"))
    })?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientConfig;

    fn client() -> Client {
        Client::new(ClientConfig::default()).unwrap()
    }

    #[test]
    fn urls_are_paths_in_the_storage_of_their_server() {
        let client = client();
        for (url, server, path, directory) in [
            ("http://h/a%20b/c", "http://h:80/", "a b/c", false),
            ("http://h:81//eos/x/", "http://h:81/", "eos/x", true),
            ("http://h", "http://h:80/", "", true),
            ("http://h/a/../b", "http://h:80/", "b", false),
            ("/x//y/./z", "file:", "x/y/z", false),
            ("file:///x/", "file:", "x", true),
            ("/", "file:", "", true),
        ] {
            let named = client.storage_path(url).unwrap();
            assert_eq!(named.is_local(), server == "file:");
            let seen = (&*named.server, &*named.path, named.directory);
            assert_eq!(seen, (server, path, directory), "{url}");
        }
    }

    #[test]
    fn two_tokens_make_two_storages_without_the_tokens_in_their_names() {
        let client = client();
        let named = client.storage_path("http://h/a?authz=hush").unwrap();
        assert_ne!(named.server, client.storage_path("http://h/a").unwrap().server);
        assert_eq!(named.display_url("a b"), "http://h/a%20b");
        assert!(!named.server.contains("hush") && !format!("{named:?}").contains("hush"));
    }

    #[test]
    fn parent_folders_are_those_of_link_targets() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        let up = root.join("link/../x");
        let path = client().storage_path(up.to_str().unwrap()).unwrap().path;
        assert_eq!(PathBuf::from("/").join(path), root.join("a/x"));
        let relative = client().storage_path("not-there/yet").unwrap().path;
        let here = std::env::current_dir().unwrap();
        assert_eq!(PathBuf::from("/").join(relative), here.join("not-there/yet"));
    }

    #[test]
    fn invalid_urls_are_errors() {
        let client = client();
        for (url, kind) in [
            ("", ErrorKind::Invalid),
            ("http://h/a%2Fb", ErrorKind::Invalid),
            ("http://h/%ff", ErrorKind::Invalid),
            ("http://h/a%00", ErrorKind::Invalid),
            ("gopher://h/x", ErrorKind::Unsupported),
        ] {
            assert_eq!(client.storage_path(url).unwrap_err().kind(), kind, "{url:?}");
        }
    }
}
