//! A bucket of an S3 object store as a storage.
//!
//! The crate `object_store` implements the protocol: signatures, lists, multipart uploads. Its
//! requests use the connections of this crate, with their timeouts and counters. Reads do not pass
//! through it: a URL is signed, and [`HttpSource`](crate::HttpSource) reads it, see `s3/source.rs`.
//!
//! A bucket has no directories. One exists as long as it contains a file: creating one does
//! nothing, a file may be put where there is none, and removing the last file removes it. A file
//! cannot be renamed, either: the server copies it, and the old one is removed. Files appear when
//! they are complete, small ones as one PUT and others as a multipart upload, whose parts have the
//! same length, except the last.

mod http_connector;
mod parts;
mod source;
mod upload;

use crate::http::server_reason::quoted;
use crate::network::Network;
use crate::replica_discovery::ReplicaFinder;
use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use hither_core::checksum::{Algorithm, Checksum};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{
    DirEntry, FileKind, Listing, PutOptions, Storage, Upload, check_path, check_version,
};
use hither_core::{Replica, Replicas, Source};
use http_connector::PooledHttpService;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, ListResult, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig,
};
use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The longest name of a bucket; the oldest ones at Amazon's have up to 255 characters.
const MAX_BUCKET: usize = 255;

/// Parallel requests that remove files.
const AT_ONCE: usize = 16;

/// The configuration of an object store.
#[derive(Clone, Default)]
pub struct S3Config {
    /// URL of the server; by default Amazon's.
    pub endpoint: Option<String>,
    /// Region; by default `us-east-1`.
    pub region: Option<String>,
    /// Access key id; without it nothing is signed.
    pub access_key_id: Option<String>,
    /// Secret access key.
    pub secret_access_key: Option<String>,
    /// Session token of temporary keys.
    pub session_token: Option<String>,
}

impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Config")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// A bucket.
#[derive(Debug, Clone)]
pub struct S3Storage {
    bucket: String,
    store: Arc<AmazonS3>,
    network: Arc<Network>,
    /// Digest of the key that requests are signed with; none if they are not signed.
    identity: Option<String>,
    replicas: Option<ReplicaFinder>,
}

/// A file in a bucket, for reading.
#[derive(Debug)]
pub struct S3Object {
    /// Its bytes.
    pub replica: Replica,
    /// The URL under which caches know it.
    pub url: String,
    /// Digest of the key that it is read with; empty without one.
    pub identity: String,
}

/// Fails unless the endpoint is the URL of a server.
fn check_endpoint(endpoint: &str) -> Result<()> {
    let uri = endpoint.parse::<http::Uri>().ok();
    let is_url = uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    if is_url {
        return Ok(());
    }
    let what =
        format!("{endpoint:?} is no endpoint of an object store: expected https://host:port");
    Err(Error::new(ErrorKind::Invalid, what))
}

impl S3Storage {
    /// The bucket of this name. Nothing is requested yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for an invalid endpoint or name.
    pub fn new(bucket: &str, config: &S3Config, network: Arc<Network>) -> Result<Self> {
        check_bucket(bucket)?;
        let keys = match (&config.access_key_id, &config.secret_access_key) {
            (Some(id), Some(key)) => Some((id.as_str(), key.as_str())),
            (None, None) => None,
            _ => {
                let what = format!("s3://{bucket}: one of access key id and secret key is missing");
                return Err(Error::new(ErrorKind::Invalid, what));
            }
        };
        let identity = keys.map(|(id, _)| {
            let mut digest = DefaultHasher::new();
            id.hash(&mut digest);
            format!("{:016x}", digest.finish())
        });
        // The connections of this crate repeat requests.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(config.region.as_deref().unwrap_or("us-east-1"))
            .with_skip_signature(identity.is_none())
            // The connections of this crate decide about that.
            .with_allow_http(true)
            .with_retry(retry)
            .with_http_connector(PooledHttpService::new(Arc::clone(&network), keys.is_some()));
        if let Some(endpoint) = &config.endpoint {
            check_endpoint(endpoint)?;
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        // Without a key, one that is never sent: else the library asks the machine for one.
        let (id, key) = keys.unwrap_or(("anonymous", "anonymous"));
        builder = builder.with_access_key_id(id).with_secret_access_key(key);
        if let Some(token) = &config.session_token {
            builder = builder.with_token(token);
        }
        let store = builder.build().map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("s3://{bucket}: {error}")).with_source(error)
        })?;
        let store = Arc::new(store);
        Ok(Self { bucket: bucket.to_owned(), store, network, identity, replicas: None })
    }

    /// Finds replicas of its files with `finder`.
    #[must_use]
    pub fn with_replicas(self, finder: ReplicaFinder) -> Self {
        Self { replicas: Some(finder), ..self }
    }

    /// The file at `path`. Nothing is requested yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a path that cannot be the name of a file.
    pub fn object(&self, path: &str) -> Result<S3Object> {
        let key = self.named(path)?;
        let source = source::PresignedSource::new(self.clone(), path.to_owned(), key)?;
        let location = source.location();
        let replica = Replica { source: Arc::new(source), server: location.origin(), digest: None };
        let url = format!("{}{}", location.origin(), location.path());
        Ok(S3Object { replica, url, identity: self.identity.clone().unwrap_or_default() })
    }

    fn shown(&self, path: &str) -> String {
        format!("s3://{}/{path}", self.bucket)
    }

    /// The path in the bucket.
    fn key(&self, path: &str) -> Result<Path> {
        check_path(path)?;
        Path::parse(path).map_err(|error| {
            let what = format!("{}: not a valid object name: {error}", self.shown(path));
            Error::new(ErrorKind::Unsupported, what)
        })
    }

    fn named(&self, path: &str) -> Result<Path> {
        if path.is_empty() {
            let what = format!("{} is a bucket: add the path of an object", self.shown(""));
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        self.key(path)
    }

    fn failed(&self, path: &str, error: object_store::Error) -> Error {
        failed(&self.shown(path), error)
    }

    /// The metadata of a file; `None` if there is none of this name.
    async fn file(&self, path: &str) -> Result<Option<ObjectMeta>> {
        match self.store.head(&self.named(path)?).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => {
                let error = self.failed(path, error);
                // Some stores keep files in directories and fail at one (s3s-fs 0.14: 500).
                let stumbled = error.kind() == ErrorKind::Unavailable;
                if stumbled && self.is_directory(path).await? { Ok(None) } else { Err(error) }
            }
        }
    }

    async fn is_directory(&self, path: &str) -> Result<bool> {
        let prefix = self.key(path)?;
        let first = self.store.list(Some(&prefix)).next().await;
        Ok(first.transpose().map_err(|error| self.failed(path, error))?.is_some())
    }

    fn exists(&self, path: &str) -> Error {
        Error::new(ErrorKind::AlreadyExists, format!("{} exists already", self.shown(path)))
    }

    /// Fails if an object may not be written under this name.
    async fn check_target(
        &self,
        path: &str,
        overwrite: bool,
        expected: Option<&DirEntry>,
    ) -> Result<()> {
        if let Some(expected) = expected {
            let there = self.file(path).await?.map(entry);
            return check_version(expected, there.as_ref(), self.shown(path));
        }
        if !overwrite && self.file(path).await?.is_some() {
            return Err(self.exists(path));
        }
        Ok(())
    }

    fn missing(&self, path: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("{} does not exist", self.shown(path)))
    }

    /// All pages of a list of the objects below `prefix`, up to the `delimiter` in their names.
    async fn pages(
        &self,
        path: &str,
        prefix: Option<&Path>,
        delimiter: Option<&'static str>,
    ) -> Result<ListResult> {
        let prefix = prefix.map(|prefix| format!("{prefix}/"));
        let mut all = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Default::default(),
        };
        let mut tokens = HashSet::new();
        let mut page_token = None;
        loop {
            let delimiter = delimiter.map(Into::into);
            let options = PaginatedListOptions { delimiter, page_token, ..Default::default() };
            let page = self.store.list_paginated(prefix.as_deref(), options).await;
            let page = page.map_err(|error| self.failed(path, error))?;
            all.common_prefixes.extend(page.result.common_prefixes);
            all.objects.extend(page.result.objects);
            page_token = page.page_token;
            let Some(token) = &page_token else { return Ok(all) };
            if !tokens.insert(token.clone()) {
                let what = "the object store names a page of its list that it has sent before";
                let what = format!("{}: {what}", self.shown(path));
                return Err(Error::new(ErrorKind::Protocol, what));
            }
        }
    }

    /// Removes an object. One that may have been removed is looked at.
    async fn delete(&self, path: &str, key: &Path) -> Result<()> {
        match self.store.delete(key).await.map_err(|error| self.failed(path, error)) {
            Err(error) if error.may_have_been_carried_out() => match self.file(path).await? {
                Some(_) => Err(error),
                None => Ok(()),
            },
            removed => removed,
        }
    }

    async fn list_directory(&self, path: &str) -> Result<Vec<DirEntry>> {
        let prefix = self.key(path)?;
        let prefix = (!path.is_empty()).then_some(&prefix);
        let found = self.pages(path, prefix, Some("/")).await?;
        let mut entries: Vec<_> = found.common_prefixes.iter().map(directory).collect();
        entries.extend(found.objects.into_iter().map(entry));
        // An object that stands for the directory itself, as some programs create them.
        entries.retain(|entry| entry.path != path);
        if entries.is_empty() && !path.is_empty() {
            return match self.file(path).await? {
                Some(_) => {
                    let what = format!("{} is not a directory", self.shown(path));
                    Err(Error::new(ErrorKind::Invalid, what))
                }
                None => Err(self.missing(path)),
            };
        }
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }
}

/// The error for a failed operation of `object_store`.
fn failed(name: &str, error: object_store::Error) -> Error {
    use object_store::Error as Store;
    let kind = match &error {
        Store::NotFound { .. } => ErrorKind::NotFound,
        Store::AlreadyExists { .. } | Store::Precondition { .. } => ErrorKind::AlreadyExists,
        Store::PermissionDenied { .. } => ErrorKind::PermissionDenied,
        Store::Unauthenticated { .. } => ErrorKind::Unauthenticated,
        Store::NotSupported { .. } | Store::NotImplemented { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Unavailable,
    };
    // An error of the connections of this crate is the real cause; else the innermost one, of which
    // the texts around it tell what the library did.
    let mut last: &dyn std::error::Error = &error;
    while let Some(inner) = last.source() {
        if let Some(ours) = inner.downcast_ref::<Error>() {
            return ours.clone().context(name);
        }
        last = inner;
    }
    let text = last.to_string();
    let why = match text.split_once(STATUS) {
        Some((_, answer)) => http_connector::refused(answer),
        None => {
            format!("the answer is not one of an object store: check the endpoint{}", quoted(&text))
        }
    };
    Error::new(kind, format!("{name}: {why}"))
}

/// The text of the library before the status of a response and its body.
const STATUS: &str = "non-2xx status code: ";

/// Fails unless a bucket can have this name, which goes into URLs.
fn check_bucket(bucket: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if bucket.is_empty() {
        let what = "s3:// names no bucket: add its name, as in s3://bucket/ (the store's own \
                    programs list them)";
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    if bucket.len() > MAX_BUCKET || !bucket.chars().all(is_allowed) {
        let what = format!(
            "{bucket:?} is no name of a bucket: expected up to {MAX_BUCKET} letters, digits, \".\", \"-\" and \"_\""
        );
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}

fn directory(prefix: &Path) -> DirEntry {
    DirEntry::new(prefix.as_ref(), FileKind::Directory, 0)
}

fn entry(meta: ObjectMeta) -> DirEntry {
    DirEntry {
        path: meta.location.as_ref().to_owned(),
        kind: FileKind::File,
        size: Some(meta.size),
        modified: Some(meta.last_modified.into()),
        validator: meta.e_tag,
    }
}

#[async_trait]
impl Storage for S3Storage {
    fn name(&self) -> String {
        self.shown("")
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        let key = self.key(path)?;
        if path.is_empty() {
            return Ok(directory(&key));
        }
        match self.file(path).await? {
            Some(meta) => Ok(entry(meta)),
            None if self.is_directory(path).await? => Ok(directory(&key)),
            None => Err(self.missing(path)),
        }
    }

    async fn list(&self, path: &str) -> Result<Listing> {
        self.list_directory(path).await.map(Listing::from)
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        Ok(self.object(path)?.replica.source)
    }

    fn replicas(&self, path: &str) -> Result<Option<Arc<Replicas>>> {
        let Some(finder) = &self.replicas else { return Ok(None) };
        finder.find_beside(&self.shown(path), || Ok(self.object(path)?.replica))
    }

    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        let key = self.named(path)?;
        let upload = upload::S3Upload::start(self.clone(), path, key, options).await?;
        Ok(Box::new(upload) as Box<dyn Upload>)
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let key = self.named(path)?;
        // A bucket reports no error for a missing file.
        if self.file(path).await?.is_none() {
            if self.is_directory(path).await? {
                let what = format!("cannot remove {}: it is not empty", self.shown(path));
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            return Err(self.missing(path));
        }
        self.delete(path, &key).await
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        let key = self.named(path)?;
        let found = self.pages(path, Some(&key), None).await?;
        let below: Vec<_> = found.objects.into_iter().map(|meta| meta.location).collect();
        let own = self.file(path).await?;
        if below.is_empty() && own.is_none() {
            return Err(self.missing(path));
        }
        let all = below.into_iter().chain(own.map(|meta| meta.location));
        stream::iter(all.map(Ok))
            .try_for_each_concurrent(AT_ONCE, |location| async move {
                self.delete(location.as_ref(), &location).await
            })
            .await
    }

    async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        let source = self.named(from)?;
        let target = self.named(to)?;
        let Some(ObjectMeta { size, .. }) = self.file(from).await? else {
            if self.is_directory(from).await? {
                let what = format!(
                    "{} is a directory: on an object store only files can be renamed",
                    self.shown(from)
                );
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            return Err(self.missing(from));
        };
        // Not every store supports conditional copies. Another client may create the file in
        // between.
        let before = self.file(to).await?;
        if !overwrite && before.is_some() {
            return Err(self.exists(to));
        }
        let options = CopyOptions::new().with_mode(CopyMode::Overwrite);
        let copied = self.store.copy_opts(&source, &target, options).await;
        match copied.map_err(|error| self.failed(to, error)) {
            Err(error) if !error.may_have_been_carried_out() => return Err(error),
            copied => {
                // Nothing is removed before its copy was seen.
                let copy = self.file(to).await?;
                let is_old = before.is_some_and(|it| copy.as_ref().is_some_and(|copy| *copy == it));
                if is_old || copy.is_none_or(|copy| copy.size != size) {
                    copied?;
                    let what = format!("{} was not copied to {}", self.shown(from), self.shown(to));
                    return Err(Error::new(ErrorKind::Protocol, what));
                }
            }
        }
        self.delete(from, &source).await
    }

    async fn make_directory(&self, path: &str) -> Result<()> {
        self.named(path)?;
        if self.file(path).await?.is_some() || self.is_directory(path).await? {
            return Err(self.exists(path));
        }
        Ok(())
    }

    async fn checksum(&self, path: &str, _: Algorithm) -> Result<Option<Checksum>> {
        // An entity tag is sometimes an MD5, but nothing says when.
        match self.file(path).await? {
            Some(_) => Ok(None),
            None => Err(self.missing(path)),
        }
    }
}
