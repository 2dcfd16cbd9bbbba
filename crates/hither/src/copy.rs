//! Copies of files and directories, between any two storages.

use crate::client::Client;
use crate::client::storage_path::StoragePath;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::DirEntry;
use hither_transfer::{
    CopyOptions, CopyPath, CopyProgress, CopySummary, Destination, OverwritePolicy,
};
use hither_transport::Location;
use std::path::Path;
use std::sync::Arc;

/// The folder of the journals, within the store.
const JOURNALS: &str = "copies";

impl Client {
    /// The options of a copy with the connections of this client and a journal in its store.
    #[must_use]
    pub fn copy_options(&self) -> CopyOptions {
        let mut options = CopyOptions::default();
        options.max_workers = self.config().transport.max_connections;
        let store = self.config().store.as_ref().filter(|_| self.store_error().is_none());
        options.journal = store.map(|store| store.join(JOURNALS));
        options
    }

    /// Copies `sources` to `destination`, all of them URLs or local paths. A directory of which
    /// only the contents are meant ends with `/.`. The destination `-` is the standard output,
    /// `/dev/null` discards the bytes.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`] and [`hither_transfer::copy`]. Errors of single files are in the
    /// summary.
    pub async fn copy(
        &self,
        sources: &[String],
        destination: &str,
        options: CopyOptions,
        progress: Arc<CopyProgress>,
    ) -> Result<CopySummary> {
        let replicated =
            sources.iter().filter(|source| !self.config().mirrors.of(source).is_empty());
        let replicated = replicated.filter_map(|source| Location::parse(source).ok());
        let notice =
            |source| format!("{source}: copied from this server only: copies use no replicas");
        let notices: Vec<_> = replicated.map(notice).collect();
        let sources = sources.iter().map(|source| self.copy_path(source));
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let destination = match destination {
            "-" => Destination::Output,
            "/dev/null" => Destination::Discard,
            path => Destination::Place(self.copy_path(path)?),
        };
        let mut summary = hither_transfer::copy(sources, destination, options, progress).await?;
        summary.notices.extend(notices);
        Ok(summary)
    }

    /// Copies the local file at `path` to exactly `url`, and returns the entry of the new file. An
    /// interrupted attempt is resumed, if the client has a store.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`] and [`hither_transfer::upload`]; [`ErrorKind::AlreadyExists`] if
    /// there is a file and `overwrite` is false.
    pub async fn put_file(&self, url: &str, path: &Path, overwrite: bool) -> Result<DirEntry> {
        let target = self.storage_path(url)?.into_copy_path();
        let source = self.local_copy_path(path)?;
        let mut options = self.copy_options();
        options.existing =
            if overwrite { OverwritePolicy::Replace } else { OverwritePolicy::Refuse };
        hither_transfer::upload(source, target, options, Arc::default()).await
    }

    fn copy_path(&self, text: &str) -> Result<CopyPath> {
        let contents = text == "." || text.ends_with("/.");
        let plain = if text == "." { text } else { text.strip_suffix("/.").unwrap_or(text) };
        let path = self.storage_path(plain)?.into_copy_path();
        Ok(CopyPath { is_directory: contents || path.is_directory, contents, ..path })
    }

    /// A local path, even one that looks like a URL.
    fn local_copy_path(&self, path: &Path) -> Result<CopyPath> {
        let invalid = |why: String| Error::new(ErrorKind::Invalid, why);
        let absolute = std::path::absolute(path)
            .map_err(|error| invalid(format!("{} is not a path: {error}", path.display())))?;
        let text = absolute.to_str().ok_or_else(|| {
            invalid(format!("{} is not UTF-8: upload its bytes instead", path.display()))
        })?;
        self.storage_path(text).map(StoragePath::into_copy_path)
    }
}

impl StoragePath {
    /// The source or target of a copy.
    #[must_use]
    pub fn into_copy_path(self) -> CopyPath {
        let local = self.is_local().then(|| Path::new("/").join(&self.path));
        let Self { storage, path, directory, .. } = self;
        CopyPath { storage, path, local, is_directory: directory, contents: false }
    }
}
