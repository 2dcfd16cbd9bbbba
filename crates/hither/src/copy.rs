//! Copies of files and directories, and comparisons, between any two storages.

pub(crate) mod local_time;
mod sources;
pub(crate) mod third_party;
mod tuning;

use crate::client::Client;
use crate::client::put::Replaceable;
use crate::client::storage_path::StoragePath;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::DirEntry;
use hither_transfer::{
    CheckOptions, CheckSummary, CopyOptions, CopyPath, CopyProgress, CopySummary, Destination,
    OverwritePolicy, SyncOptions, TreeDifference,
};
use std::path::Path;
use std::sync::Arc;
use tuning::ClientTuning;

/// The folder of the journals, within the store.
const JOURNALS: &str = "copies";

impl Client {
    /// The options of a copy with the connections of this client and a journal in its store.
    #[must_use]
    pub fn copy_options(&self) -> CopyOptions {
        let mut options = CopyOptions::default();
        options.max_workers = self.config().transport.max_connections;
        options.retry = self.config().reader.retry;
        let store = self.config().store.as_ref().filter(|_| self.store_error().is_none());
        options.journal = store.map(|store| store.join(JOURNALS));
        let network = Arc::clone(&self.context.network);
        let store = self.context.store.clone();
        options.tuning = Some(Arc::new(ClientTuning::new(network, store)));
        options
    }

    /// Copies `sources` to `destination`, all of them URLs or local paths. `/.` at the end of a
    /// directory means only its contents. A Metalink document, on a server or here, stands for the
    /// files that it describes. Files are read from all their replicas: those of the configuration,
    /// those that documents and servers name, and `replicas`, further URLs of the one source. The
    /// destination `-` is the standard output, `/dev/null` discards the bytes.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`] and [`hither_transfer::copy`]; [`ErrorKind::Invalid`] for replicas of
    /// several sources. Errors of single files are in the summary.
    pub async fn copy(
        &self,
        sources: &[String],
        replicas: &[String],
        destination: &str,
        options: CopyOptions,
        progress: Arc<CopyProgress>,
    ) -> Result<CopySummary> {
        if !replicas.is_empty() && sources.len() > 1 {
            let what = format!(
                "replicas are those of one source, but there are {}: copy them one by one",
                sources.len()
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let mut paths = Vec::with_capacity(sources.len());
        for source in sources {
            paths.extend(self.copy_sources(source, replicas).await?);
        }
        let destination = match destination {
            "-" => Destination::Output,
            "/dev/null" => Destination::Discard,
            path => Destination::Path(self.copy_path(path, &[])?),
        };
        hither_transfer::copy(paths, destination, options, progress).await
    }

    /// Makes the directory `destination` equal to the directory `source`, URLs or local paths. Each
    /// difference is passed to `found`.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`] and [`hither_transfer::sync`]. Errors of single files are in the
    /// summary.
    pub async fn sync(
        &self,
        source: &str,
        destination: &str,
        options: SyncOptions,
        progress: Arc<CopyProgress>,
        found: impl Fn(&TreeDifference) + Send + Sync + 'static,
    ) -> Result<CopySummary> {
        let source = self.copy_path(source, &[])?;
        let destination = self.copy_path(destination, &[])?;
        hither_transfer::sync(source, destination, options, progress, found).await
    }

    /// Compares the directories `source` and `destination`, URLs or local paths. Each difference is
    /// passed to `found`.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`] and [`hither_transfer::check`]. Errors of single names are in the
    /// summary.
    pub async fn check(
        &self,
        source: &str,
        destination: &str,
        options: CheckOptions,
        progress: Arc<CopyProgress>,
        found: impl Fn(TreeDifference) + Send + Sync,
    ) -> Result<CheckSummary> {
        let source = self.copy_path(source, &[])?;
        let destination = self.copy_path(destination, &[])?;
        hither_transfer::check(source, destination, options, progress, found).await
    }

    /// Copies the local file at `path` to exactly `url`, and returns the entry of the new file. An
    /// interrupted attempt is resumed, if the client has a store.
    ///
    /// # Errors
    ///
    /// As [`Client::storage`] and [`hither_transfer::upload`]; [`ErrorKind::AlreadyExists`] if
    /// there is a file that may not be replaced; [`ErrorKind::Changed`] if it is of another version
    /// than the one that may be replaced.
    pub async fn put_file(
        &self,
        url: &str,
        path: &Path,
        replaceable: impl Into<Replaceable>,
    ) -> Result<DirEntry> {
        let mut target = self.storage_path(url)?.into_copy_path();
        let replaceable = replaceable.into();
        if matches!(replaceable, Replaceable::Version(_)) {
            // The storage compares the versions.
            target.local = None;
        }
        self.copy_file(self.local_copy_path(path)?, target, replaceable).await
    }

    /// Copies the file at `url` to exactly the local path `path`, and returns the entry of the new
    /// file. The file is read from all its replicas; an interrupted attempt is resumed, if the
    /// client has a store.
    ///
    /// # Errors
    ///
    /// As [`Client::put_file`].
    pub async fn get_file(&self, url: &str, path: &Path, overwrite: bool) -> Result<DirEntry> {
        let source = self.replicated_path(url, &[])?.into_copy_path();
        self.copy_file(source, self.local_copy_path(path)?, overwrite.into()).await
    }

    async fn copy_file(
        &self,
        source: CopyPath,
        target: CopyPath,
        replaceable: Replaceable,
    ) -> Result<DirEntry> {
        let mut options = self.copy_options();
        options.existing = match replaceable {
            Replaceable::Nothing => OverwritePolicy::Refuse,
            Replaceable::Any | Replaceable::Version(_) => OverwritePolicy::Replace,
        };
        if let Replaceable::Version(expected) = replaceable {
            // With a journal, the file of an earlier attempt would count as done.
            options.journal = None;
            options.expected = Some(expected);
        }
        hither_transfer::upload(source, target, options, Arc::default()).await
    }

    /// Copies the local file at `path` to exactly `url`, with these options.
    ///
    /// # Errors
    ///
    /// As [`Client::copy`].
    pub async fn copy_from_file(
        &self,
        path: &Path,
        url: &str,
        options: CopyOptions,
        progress: Arc<CopyProgress>,
    ) -> Result<CopySummary> {
        let source = self.local_copy_path(path)?;
        let target = Destination::File(self.copy_path(url, &[])?);
        hither_transfer::copy(vec![source], target, options, progress).await
    }

    pub(crate) fn copy_path(&self, text: &str, replicas: &[String]) -> Result<CopyPath> {
        let contents = text == "." || text.ends_with("/.");
        let plain = if text == "." { text } else { text.strip_suffix("/.").unwrap_or(text) };
        let path = self.replicated_path(plain, replicas)?.into_copy_path();
        Ok(CopyPath { is_directory: contents || path.is_directory, contents, ..path })
    }

    /// A local path, even one that looks like a URL.
    fn local_copy_path(&self, path: &Path) -> Result<CopyPath> {
        let invalid = |why: String| Error::new(ErrorKind::Invalid, why);
        let absolute = std::path::absolute(path)
            .map_err(|error| invalid(format!("{} is not a path: {error}", path.display())))?;
        let text = absolute
            .to_str()
            .ok_or_else(|| invalid(format!("{} is not UTF-8: rename it", path.display())))?;
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
