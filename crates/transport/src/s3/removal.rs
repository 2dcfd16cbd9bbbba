//! The removal of objects, by their keys.
//!
//! A key need not be the path of a file: programs create objects that stand for folders, whose keys
//! end with a slash. The crate `object_store` cannot name them, and it removes single objects by
//! `DeleteObjects`, whose response says in its body what was removed. So each object is removed by
//! a request of its own, which the status answers.

use super::S3Storage;
use super::http_connector::{PooledHttpService, refused};
use crate::http::call::HttpResponse;
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use hither_core::error::{Error, ErrorKind, Result};
use http::{Method, Request, StatusCode};
use object_store::aws::AwsAuthorizer;
use object_store::client::HttpRequestBody;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::cmp::Reverse;
use std::sync::Arc;

/// Parallel requests that remove objects.
const AT_ONCE: usize = 16;

/// The bytes that the signature has encoded in the path of a URL.
const ENCODED: AsciiSet =
    NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

impl S3Storage {
    /// Sends a request without a body for the object of any key.
    async fn request(&self, method: Method, key: &str) -> Result<HttpResponse> {
        if key.split('/').any(|name| matches!(name, "." | "..")) {
            let what = format!("{}: no URL can have this name", self.shown(key));
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let uri = format!("{}/{}", self.url, utf8_percent_encode(key, &ENCODED));
        let request = Request::builder().method(method).uri(uri).body(HttpRequestBody::empty());
        let mut request = request.map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("{}: {error}", self.shown(key)))
        })?;
        if self.identity.is_some() {
            let credential = self.store.credentials().get_credential().await;
            let credential = credential.map_err(|error| self.failed(key, error))?;
            let signer = AwsAuthorizer::new(&credential, "s3", &self.region);
            let signed = signer.try_authorize(&mut request, None);
            signed.map_err(|error| self.failed(key, error))?;
        }
        let service = PooledHttpService::new(Arc::clone(&self.network), self.identity.is_some());
        let reply = service.exchange(request.map(|_| Bytes::new())).await;
        Ok(reply.map_err(|error| error.context(self.shown(key)))?.1)
    }

    /// Removes an object. One that may have been removed is looked at.
    pub(super) async fn delete(&self, key: &str) -> Result<()> {
        let error = match self.request(Method::DELETE, key).await {
            Ok(reply) if reply.status.is_success() => return Ok(()),
            Ok(reply) => self.not_deleted(&reply, key),
            Err(error) => error,
        };
        let is_doubtful = error.may_have_been_carried_out() || error.kind() == ErrorKind::NotFound;
        if is_doubtful && self.request(Method::HEAD, key).await?.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        Err(error)
    }

    fn not_deleted(&self, reply: &HttpResponse, key: &str) -> Error {
        let kind = match reply.status {
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => ErrorKind::Unsupported,
            _ => ErrorKind::Unavailable,
        };
        let answer = format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        Error::new(kind, format!("{}: {}", self.shown(key), refused(&answer)))
    }

    /// Removes the file at `path`, and all objects below it.
    pub(super) async fn delete_tree(&self, path: &str) -> Result<()> {
        self.named(path)?;
        let found = self.pages(path, None, |_| false).await?;
        let mut keys: Vec<_> = found.objects.into_iter().map(|object| object.key).collect();
        keys.extend(self.file(path).await?.map(|_| path.to_owned()));
        if keys.is_empty() {
            return Err(self.missing(path));
        }
        // Stores that keep files in directories remove only empty ones: those come last, the
        // deepest ones first.
        let rank = |key: &String| {
            if key.ends_with('/') { key.matches('/').count() } else { usize::MAX }
        };
        keys.sort_by_key(|key| Reverse(rank(key)));
        for keys in keys.chunk_by(|a, b| rank(a) == rank(b)) {
            let keys = stream::iter(keys.iter().map(Ok));
            keys.try_for_each_concurrent(AT_ONCE, |key| self.delete(key)).await?;
        }
        Ok(())
    }
}
