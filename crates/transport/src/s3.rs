//! A bucket of an S3 object store as a storage.
//!
//! The crate `object_store` implements the protocol: signatures, copies, multipart uploads. Its
//! requests use the connections of this crate, with their timeouts and counters. Reads do not pass
//! through it: a URL is signed, and [`HttpSource`](crate::HttpSource) reads it, see `s3/source.rs`.
//! The crate requests lists, but this crate parses them, because `object_store` accepts any
//! document (`s3/listing.rs`); and it signs removals (`s3/removal.rs`).
//!
//! A bucket has no directories. One exists as long as it contains a file: creating one does
//! nothing, a file may be put where there is none, and removing the last file removes it. A file
//! cannot be renamed, either: the server copies it, and the old one is removed. Files appear when
//! they are complete, small ones as one PUT and others as a multipart upload, whose parts have the
//! same length, except the last.

mod http_connector;
mod listing;
mod parts;
mod removal;
mod renaming;
mod source;
mod upload;

use crate::context::MonotonicClock;
use crate::http::server_reason::quoted;
use crate::location::secrets::redact_url;
use crate::network::Network;
use crate::replica_discovery::ReplicaFinder;
use async_trait::async_trait;
use hither_auth::Secret;
use hither_checksum::{Algorithm, Checksum};
use hither_core::error::Effect;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::retry::{self, Failed};
use hither_core::storage::{
    DirEntry, FileKind, Listing, PutOptions, Storage, Upload, check_new_name, check_path,
    check_version,
};
use hither_core::{ReplicaSet, Source, is_entity_tag};
use hither_replicas::Replica;
use http::HeaderMap;
use http_connector::PooledHttpService;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, RetryConfig};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The longest name of a bucket; the oldest ones at Amazon's have up to 255 characters.
const MAX_BUCKET: usize = 255;

/// The configuration of an object store.
#[derive(Debug, Clone, Default)]
pub struct S3Config {
    /// URL of the server; by default Amazon's.
    pub endpoint: Option<String>,
    /// Region; by default `us-east-1`.
    pub region: Option<String>,
    /// Access key id; without it nothing is signed.
    pub access_key_id: Option<String>,
    /// Secret access key.
    pub secret_access_key: Option<Secret>,
    /// Session token of temporary keys.
    pub session_token: Option<Secret>,
}

/// A bucket.
#[derive(Debug, Clone)]
pub struct S3Storage {
    bucket: String,
    /// The URL of the bucket.
    url: String,
    region: String,
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
    let shown = redact_url(endpoint);
    let what =
        format!("{shown:?} is not an endpoint of an object store: expected https://host:port");
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
            (Some(id), Some(key)) => Some((id.as_str(), key.expose())),
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
        let region = config.region.as_deref().unwrap_or("us-east-1");
        let amazon = format!("https://s3.{region}.amazonaws.com");
        let endpoint = config.endpoint.as_deref().unwrap_or(&amazon);
        check_endpoint(endpoint)?;
        let endpoint = endpoint.trim_end_matches('/');
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(region)
            .with_endpoint(endpoint)
            .with_skip_signature(identity.is_none())
            // The connections of this crate decide about that.
            .with_allow_http(true)
            .with_retry(retry)
            .with_http_connector(PooledHttpService::new(Arc::clone(&network), keys.is_some()));
        // Without a key, one that is never sent: else the library asks the machine for one.
        let (id, key) = keys.unwrap_or(("anonymous", "anonymous"));
        builder = builder.with_access_key_id(id).with_secret_access_key(key);
        if let Some(token) = &config.session_token {
            builder = builder.with_token(token.expose());
        }
        let store = builder.build().map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("s3://{bucket}: {error}")).with_source(error)
        })?;
        let store = Arc::new(store);
        let url = format!("{endpoint}/{bucket}");
        let bucket = bucket.to_owned();
        let region = region.to_owned();
        Ok(Self { bucket, url, region, store, network, identity, replicas: None })
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
            let what = format!("{:?} is not the name of an object", self.shown(path));
            let what = format!("{what}{}", quoted(&error.to_string()));
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
        let key = self.named(path)?;
        let attempt = || async {
            let error = match self.store.head(&key).await {
                Ok(meta) => return Ok(Some(meta)),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => self.failed(path, error),
            };
            if !http_connector::is_internal(&error) {
                return Err(Failed::finally(error));
            }
            // Some stores keep files in directories and fail at one (s3s-fs 0.14), however often
            // it is requested. Other stores may have an object of that name, too, which a list of
            // its key shows.
            let is_only_directory = match self.is_directory(path).await {
                Ok(true) => self.is_listed(path).await.map(|is_listed| !is_listed),
                result => result,
            };
            match is_only_directory {
                Ok(true) => Ok(None),
                Ok(false) => Err(Failed::from(error)),
                // The list was repeated already.
                Err(failed)
                    if matches!(failed.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) =>
                {
                    Err(Failed::finally(failed))
                }
                Err(_) => Err(Failed::from(error)),
            }
        };
        let policy = self.network.config().retry_policy();
        retry::run(&policy, &MonotonicClock::start(), attempt).await
    }

    fn exists(&self, path: &str) -> Error {
        Error::new(ErrorKind::AlreadyExists, format!("{} exists already", self.shown(path)))
    }

    /// Fails if an object may not be written under this name. Returns the one that is there.
    async fn check_target(
        &self,
        path: &str,
        overwrite: bool,
        expected: Option<&DirEntry>,
    ) -> Result<Option<ObjectMeta>> {
        let there = self.file(path).await?;
        match expected {
            Some(expected) => {
                check_version(expected, there.clone().map(entry).as_ref(), self.shown(path))?;
            }
            None if !overwrite && there.is_some() => return Err(self.exists(path)),
            None => {}
        }
        Ok(there)
    }

    /// The error of a change that the store has confirmed, but that its metadata do not show.
    fn unseen(&self, path: &str, seen: &str) -> Error {
        let what = format!(
            "{}: the object store reported success, and a look shows {seen}: it may show changes \
             late, or another program changes the same object; look again before this is repeated",
            self.shown(path)
        );
        Error::new(ErrorKind::Protocol, what).with_effect(Effect::Change)
    }

    fn changed(&self, path: &str) -> Error {
        let what = format!("{} was changed meanwhile by another program", self.shown(path));
        Error::new(ErrorKind::Changed, what)
    }

    fn missing(&self, path: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("{} does not exist", self.shown(path)))
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
    // An error of the connections of this crate is the real cause; else the innermost one, whose
    // context describes the operation of the library.
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
            "{bucket:?} is not the name of a bucket: expected up to {MAX_BUCKET} letters, digits, \".\", \"-\" and \"_\""
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
        validator: entity_tag(meta.e_tag),
    }
}

/// The entity tag of an object as its responses have it. Some stores list it without quotes, or an
/// empty one.
fn entity_tag(listed: Option<String>) -> Option<String> {
    let tag = listed?;
    let bare = tag.trim_matches('"');
    match (bare.is_empty(), is_entity_tag(&tag)) {
        (true, _) => None,
        (false, true) => Some(tag),
        (false, false) => Some(format!("\"{bare}\"")),
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
        self.list_directory(path).await
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        Ok(self.object(path)?.replica.source)
    }

    fn replicas(&self, path: &str) -> Result<Option<Arc<dyn ReplicaSet>>> {
        let Some(finder) = &self.replicas else { return Ok(None) };
        Ok(finder
            .find_beside(&self.shown(path), || Ok(self.object(path)?.replica))?
            .map(|found| found as _))
    }

    async fn put(&self, path: &str, options: PutOptions) -> Result<Box<dyn Upload>> {
        let key = self.named(path)?;
        let upload = upload::S3Upload::start(self.clone(), path, key, options).await?;
        Ok(Box::new(upload) as Box<dyn Upload>)
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.named(path)?;
        // A bucket reports no error for a missing file.
        let Some(object) = self.file(path).await? else {
            if self.is_directory(path).await? {
                let what = format!("cannot remove {}: it is not empty", self.shown(path));
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            return Err(self.missing(path));
        };
        self.delete_object(&object, path, HeaderMap::new()).await
    }

    async fn remove_version(&self, expected: &DirEntry) -> Result<bool> {
        let Some(object) = self.file(&expected.path).await? else {
            return Err(self.missing(&expected.path));
        };
        let there = entry(object.clone());
        if there.validator.is_none()
            || there.validator != expected.validator
            || there.size != expected.size
        {
            return Ok(false);
        }
        self.delete_version(&object, &expected.path).await.map(|()| true)
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        self.delete_tree(path).await
    }

    async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        self.named(from)?;
        self.named(to)?;
        check_new_name(from, to, &self.shown(""))?;
        self.rename_object(from, to, overwrite).await
    }

    async fn make_directory(&self, path: &str) -> Result<()> {
        self.named(path)?;
        if self.file(path).await?.is_some() || self.is_directory(path).await? {
            return Err(self.exists(path));
        }
        Ok(())
    }

    async fn checksum(&self, path: &str, _: Algorithm) -> Result<Option<Checksum>> {
        // An entity tag is sometimes an MD5, but it is unknown when.
        match self.file(path).await? {
            Some(_) => Ok(None),
            None => Err(self.missing(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_tag_is_that_of_the_object() {
        let of = |tag: &str| entity_tag(Some(tag.to_owned()));
        assert_eq!(of("\"ab-2\"").as_deref(), Some("\"ab-2\""));
        assert_eq!(of("ab-2").as_deref(), Some("\"ab-2\""), "rclone's");
        assert_eq!((of(""), of("\"\""), entity_tag(None)), (None, None, None), "versitygw's");
    }
}
