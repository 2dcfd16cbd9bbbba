//! The removal of objects, by their keys.
//!
//! A key need not be the path of a file: programs create objects that stand for folders, whose keys
//! end with a slash. The crate `object_store` cannot name them, and it removes single objects by
//! `DeleteObjects`, whose response lists the removed objects in its body. So each object is removed
//! by a request of its own, whose status is the result. Stores send the same status for objects
//! that they do not have, so the removal is then checked (for a tree, by one list).

use super::S3Storage;
use super::http_connector::{PooledHttpService, refused};
use super::renaming::condition;
use crate::http::call::HttpResponse;
use crate::http::status_error;
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use hither_core::error::{Error, ErrorKind, Result};
use hither_http::object_list::{ListedObject, ObjectList};
use http::{HeaderMap, Method, Request, StatusCode, header};
use object_store::ObjectMeta;
use object_store::aws::AwsAuthorizer;
use object_store::client::HttpRequestBody;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Parallel requests that remove objects.
const AT_ONCE: usize = 16;

/// The bytes that the signature has encoded in the path of a URL.
const ENCODED: AsciiSet =
    NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A key as URLs have it.
pub(super) fn encoded(key: &str) -> PercentEncode<'_> {
    utf8_percent_encode(key, &ENCODED)
}

impl S3Storage {
    /// Sends a request with these fields and without a body for the object of any key.
    pub(super) async fn request(
        &self,
        method: Method,
        key: &str,
        fields: HeaderMap,
    ) -> Result<HttpResponse> {
        if key.split('/').any(|name| matches!(name, "." | "..")) {
            let what = format!("{}: no URL can have this name", self.shown(key));
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let uri = format!("{}/{}", self.url, encoded(key));
        let request = Request::builder().method(method).uri(uri).body(HttpRequestBody::empty());
        let mut request = request.map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("{}: {error}", self.shown(key)))
        })?;
        request.headers_mut().extend(fields);
        if self.identity.is_some() {
            let credential = self.store.credentials().get_credential().await;
            let credential = credential.map_err(|error| self.failed(key, error))?;
            let signer = AwsAuthorizer::new(&credential, "s3", &self.region);
            let signed = signer.try_authorize(&mut request, None);
            signed.map_err(|error| self.failed(key, error))?;
        }
        let service = PooledHttpService::new(Arc::clone(&self.network), self.identity.is_some());
        let reply = service.exchange(request.map(|_| Bytes::new()), true).await;
        Ok(reply.map_err(|error| error.context(self.shown(key)))?.1)
    }

    /// Requests the removal of an object. Returns the error to report if the object turns out to be
    /// still there, where the response leaves that open.
    async fn delete(&self, key: &str, fields: HeaderMap) -> Result<Option<Error>> {
        match self.request(Method::DELETE, key, fields).await {
            Ok(reply) if reply.status.is_success() => Ok(None),
            Ok(reply) if reply.status == StatusCode::PRECONDITION_FAILED => Err(self.changed(key)),
            Ok(reply) => match self.refused(&reply, key) {
                error if error.kind() == ErrorKind::NotFound => Ok(Some(error)),
                error => Err(error),
            },
            Err(error) if error.may_have_been_carried_out() => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    /// Removes this object, and checks that it is removed. Fields may have a condition.
    pub(super) async fn delete_object(
        &self,
        object: &ObjectMeta,
        path: &str,
        fields: HeaderMap,
    ) -> Result<()> {
        let unseen = self.delete(path, fields).await?;
        let there = match self.file(path).await {
            // Stores do not report a missing name to users who may not list.
            Err(denied) if unseen.is_none() && denied.kind() == ErrorKind::PermissionDenied => None,
            there => there?,
        };
        // Another version is that of another client.
        if there.as_ref() != Some(object) {
            return Ok(());
        }
        Err(unseen.unwrap_or_else(|| self.unseen(path, "that it is still there")))
    }

    /// Removes this version of an object, in one step with the comparison where the store can.
    pub(super) async fn delete_version(&self, object: &ObjectMeta, path: &str) -> Result<()> {
        let fields = condition(header::IF_MATCH, object);
        let is_conditional = !fields.is_empty();
        match self.delete_object(object, path, fields).await {
            Err(error) if is_conditional && error.kind() == ErrorKind::Unsupported => {
                self.delete_object(object, path, HeaderMap::new()).await
            }
            deleted => deleted,
        }
    }

    /// The error of a response that refuses a change.
    pub(super) fn refused(&self, reply: &HttpResponse, key: &str) -> Error {
        let kind = match reply.status {
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            status if status_error::lacks_method(status) => ErrorKind::Unsupported,
            _ => ErrorKind::Unavailable,
        };
        let answer = format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        Error::new(kind, format!("{}: {}", self.shown(key), refused(&answer)))
    }

    /// Removes the file at `path`, and all objects below it.
    pub(super) async fn delete_tree(&self, path: &str) -> Result<()> {
        self.named(path)?;
        let mut found = self.pages(path, None, |_| false).await?.objects;
        let file = self.file(path).await?;
        if found.is_empty() && file.is_none() {
            return Err(self.missing(path));
        }
        // Stores that keep files in directories remove only empty ones: those come last, the
        // deepest ones first.
        let rank = |key: &str| {
            if key.ends_with('/') { key.matches('/').count() } else { usize::MAX }
        };
        found.sort_by_key(|object| Reverse(rank(&object.key)));
        for objects in found.chunk_by(|a, b| rank(&a.key) == rank(&b.key)) {
            let objects = stream::iter(objects.iter().map(Ok));
            objects.try_for_each_concurrent(AT_ONCE, |object| self.delete_listed(object)).await?;
        }
        if let Some(file) = file {
            self.delete_object(&file, path, HeaderMap::new()).await?;
        }
        self.check_gone(path, &found).await
    }

    /// Removes an object of a list, and checks it if it may not have been removed.
    async fn delete_listed(&self, ListedObject { key, .. }: &ListedObject) -> Result<()> {
        let Some(unseen) = self.delete(key, HeaderMap::new()).await? else { return Ok(()) };
        let there = self.request(Method::HEAD, key, HeaderMap::new()).await?;
        if there.status == StatusCode::NOT_FOUND { Ok(()) } else { Err(unseen) }
    }

    /// Fails if one of these objects is still below `path`.
    async fn check_gone(&self, path: &str, removed: &[ListedObject]) -> Result<()> {
        if removed.is_empty() {
            return Ok(());
        }
        let removed: HashMap<_, _> = removed.iter().map(|object| (&*object.key, object)).collect();
        // Another version is that of another client.
        let is_left = |object: &&ListedObject| removed.get(&*object.key) == Some(object);
        let is_any_left = |found: &ObjectList| found.objects.iter().any(|it| is_left(&it));
        let there = self.pages(path, None, is_any_left).await?;
        match there.objects.iter().find(is_left) {
            Some(left) => Err(self.unseen(&left.key, "that it is still there")),
            None => Ok(()),
        }
    }
}
