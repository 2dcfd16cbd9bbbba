//! One open file, local or remote.

pub(crate) mod assembly;
pub(crate) mod direct;
pub(crate) mod disk_cache;
pub(crate) mod open_options;
pub(crate) mod origin;
pub(crate) mod positional;
pub(crate) mod read_path;
pub(crate) mod stream;

use crate::client::Client;
use crate::client::storage_path::local_path;
use crate::file::open_options::OpenOptions;
use crate::file::origin::{FileLocation, FileOrigin};
use crate::file::read_path::{ReadPath, compose};
use crate::open_ahead::prefetched::PrefetchedEnds;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::{Endpoint, SourceReport};
use hither_transport::{Location, is_metalink};
use serde::Serialize;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// An open file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteFile {
    pub(crate) origin: Arc<FileOrigin>,
    pub(crate) path: Arc<ReadPath>,
}

/// Metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileStat {
    /// Size in bytes.
    pub size: u64,
    /// Entity tag or date of the last change, as the server gives it.
    pub validator: Option<String>,
}

/// Up to this size, one connection is as fast as several: a few initial windows.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;

/// Bytes of a long read that are planned at a time: a few requests, enough to keep every connection
/// busy. Further bytes follow when fewer are in flight.
pub(crate) const WINDOW_BYTES: u64 = 32 << 20;

impl Client {
    /// Opens a file by URL (`http://…`) or local path (also `file://…`). Returns at once, except
    /// for a Metalink document (`….meta4`, `….metalink`, `…?metalink`), which is fetched first.
    ///
    /// Files that are opened before they are used are opened in the background, in parallel: as
    /// soon as a file is opened before the previous one of the same server was used, size, version,
    /// head and tail of both and of all that follow are fetched, in this order and bounded per
    /// server. The first use of a file waits for that. A single file, or one that is used before
    /// the next is opened, causes no request but those of its reads.
    ///
    /// # Errors
    ///
    /// As [`Client::file`]. A missing remote file is reported at its first use, a missing local
    /// file here.
    pub fn open(&self, url: &str) -> Result<RemoteFile> {
        self.open_with(url, OpenOptions::default())
    }

    /// Variant of [`Client::open`] with options.
    ///
    /// # Errors
    ///
    /// As [`Client::open`].
    pub fn open_with(&self, url: &str, options: OpenOptions) -> Result<RemoteFile> {
        let file = self.file_with(url, options)?;
        if let Some(task) = file.path.open_ahead().filter(|_| options.open_ahead) {
            self.open_ahead.was_opened(task);
        }
        Ok(file)
    }

    /// Variant of [`Client::open`] without open-ahead: reads cause the only requests.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] or [`ErrorKind::Unsupported`] for URLs of unknown schemes. A missing
    /// remote file is reported at its first use, a missing local file here.
    pub fn file(&self, url: &str) -> Result<RemoteFile> {
        self.file_with(url, OpenOptions::default())
    }

    fn file_with(&self, url: &str, options: OpenOptions) -> Result<RemoteFile> {
        let location = self.locate_file(url)?;
        let (origin, path) = compose(&self.context, &self.open_ahead, location, options)?;
        Ok(RemoteFile { origin, path: Arc::new(path) })
    }

    /// A file below every cache, for trees.
    pub(crate) fn origin(&self, url: &str) -> Result<Arc<FileOrigin>> {
        Ok(Arc::new(FileOrigin::open(&self.context, self.locate_file(url)?)?))
    }

    /// The location of a file, after its Metalink document was fetched if the URL names one.
    fn locate_file(&self, url: &str) -> Result<FileLocation> {
        if url.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "the URL is empty: name a file"));
        }
        if let Some(path) = local_path(url) {
            return Ok(FileLocation::Local(path));
        }
        #[cfg(feature = "s3")]
        let mirrors = self.config().mirrors.of(url);
        let mirrors = mirrors.iter().map(|url| Location::parse(url)).collect::<Result<_>>()?;
        #[cfg(feature = "s3")]
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, path) = self.bucket(rest, &self.context.network)?;
            return Ok(FileLocation::Object { object: bucket.object(&path)?, mirrors });
        }
        let first = Location::parse(url)?;
        if !is_metalink(&first) {
            return Ok(FileLocation::Servers { first, listed: None, mirrors });
        }
        let mut listed = self.block_on(self.context.network.discover_replicas(&first))?;
        if listed.locations.is_empty() {
            let what = "the Metalink document lists no replica of the file";
            return Err(Error::new(ErrorKind::NotFound, what));
        }
        let first = listed.locations.remove(0);
        Ok(FileLocation::Servers { first, listed: Some(listed), mirrors })
    }
}

impl RemoteFile {
    /// Opens the file once more, with other options: reads of both open files are of one version,
    /// and fail when the file has changed. The two share replicas and memory. Takes a round trip
    /// only if nothing was read yet.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::stat`].
    pub fn open_again(&self, client: &Client, options: OpenOptions) -> Result<Self> {
        let path = client.block_on(self.path.open_again(&self.origin, options))?;
        Ok(Self { origin: Arc::clone(&self.origin), path: Arc::new(path) })
    }

    /// Reports of the replicas, and the reasons why some are no longer used.
    #[must_use]
    pub fn replicas(&self) -> (Vec<SourceReport>, Vec<String>) {
        self.origin.replicas()
    }

    /// The URL or path, without secrets.
    #[must_use]
    pub fn name(&self) -> String {
        self.origin.name()
    }

    /// The properties of the server as far as they are known.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.origin.endpoint()
    }

    /// Size and validator. Takes one round trip, unless the file was opened ahead or read before,
    /// or stored metadata may be used without validation.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] and other errors of a server; [`ErrorKind::Unavailable`],
    /// [`ErrorKind::Timeout`]; [`ErrorKind::Invalid`] for a directory, where the server reports it.
    pub fn stat(&self, client: &Client) -> Result<FileStat> {
        client.block_on(self.stat_async())
    }

    /// Async version of [`RemoteFile::stat`], for the client's runtime. If the server does not
    /// state the size, the end of the file is searched for; from a server that sends only whole
    /// files, all of it is read.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::stat`].
    pub async fn stat_async(&self) -> Result<FileStat> {
        let (size, validator) = match self.reported_version().await? {
            (None, validator) => (self.origin.last_byte(validator.clone()).await?.size, validator),
            reported => reported,
        };
        let size = size.ok_or_else(|| {
            let what = format!("{}: the server does not send the size of the file", self.name());
            Error::new(ErrorKind::Protocol, what)
        })?;
        self.origin.remember_endpoint();
        Ok(FileStat { size, validator })
    }

    /// Size and validator, as far as the server states them.
    pub(crate) async fn reported_version(&self) -> Result<(Option<u64>, Option<String>)> {
        if let Some(version) = self.path.version_read() {
            return Ok((version.size, version.validator));
        }
        if let Some(ends) = self.prefetched_ends().await? {
            return Ok((ends.size, ends.validator.clone()));
        }
        if let Some(known) = self.origin.fresh_metadata() {
            return Ok((Some(known.size), known.validator));
        }
        let response = self.origin.first_byte(None).await?;
        // A page about a directory has neither a version nor ranges.
        let is_page = response.validator.is_none() && response.unasked_bytes > 0;
        if response.size.is_none() || is_page {
            self.origin.check_no_directory().await?;
        }
        self.origin.remember_endpoint();
        Ok((response.size, response.validator))
    }

    /// Interval from the first request of open-ahead until the file was open. None if the file was
    /// not opened ahead, or is not open yet.
    #[must_use]
    pub fn open_ahead_interval(&self) -> Option<Range<Instant>> {
        let interval = self.path.open_ahead()?.open_ahead_interval()?;
        Some(interval.start.into_std()..interval.end.into_std())
    }

    /// The prefetched ends of a file that is opened ahead; this use of the file waits for them.
    pub(crate) async fn prefetched_ends(&self) -> Result<Option<Arc<PrefetchedEnds>>> {
        match self.path.open_ahead() {
            Some(task) => task.first_use().await,
            None => Ok(None),
        }
    }
}
