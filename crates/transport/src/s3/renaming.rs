//! The renaming of an object: a copy, and the removal of the version that was copied.
//!
//! The store copies the version that was seen (`x-amz-copy-source-if-match`). Before that version
//! is removed, the client checks that the copy exists and that the source has not changed since.
//! Stores that compare versions when they remove get the condition, too (`If-Match`). At others, a
//! change between that check and the removal is lost.

use super::http_connector::{COPY_SOURCE, element};
use super::parts::unescaped;
use super::removal::encoded;
use super::{S3Storage, entity_tag};
use hither_core::error::{Error, ErrorKind, Result};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use object_store::ObjectMeta;

/// The condition on the version of the object that is copied.
const COPY_IF_MATCH: HeaderName = HeaderName::from_static("x-amz-copy-source-if-match");

/// The fields of a request with a condition on the version of an object.
pub(super) fn condition(name: HeaderName, object: &ObjectMeta) -> HeaderMap {
    let tag = entity_tag(object.e_tag.clone());
    let tag = tag.and_then(|tag| HeaderValue::from_str(&tag).ok());
    tag.map(|tag| (name, tag)).into_iter().collect()
}

impl S3Storage {
    /// Renames an object.
    pub(super) async fn rename_object(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        let Some(source) = self.file(from).await? else {
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
        let (tag, error) = match self.copy_version(&source, from, to).await {
            Ok(tag) => (tag, None),
            Err(error) if error.may_have_been_carried_out() => (None, Some(error)),
            Err(error) => return Err(error),
        };
        let (copy, left) = futures_util::try_join!(self.file(to), self.file(from))?;
        let source_tag = entity_tag(source.e_tag.clone());
        let is_copy = |copy: &ObjectMeta| {
            let is_it = match (&tag, entity_tag(copy.e_tag.clone())) {
                // The tag of a copy need not be that of its source.
                (Some(_), Some(there)) => [&tag, &source_tag].contains(&&Some(there)),
                _ => before.as_ref() != Some(copy),
            };
            copy.size == source.size && is_it
        };
        let removed = if left.as_ref().is_some_and(|left| *left != source) {
            Err(self.changed(from))
        } else if !copy.as_ref().is_some_and(is_copy) {
            let seen = match copy {
                None => "nothing under this name",
                Some(_) => "no copy under this name",
            };
            Err(error.unwrap_or_else(|| self.unseen(to, seen)))
        } else if left.is_some() {
            self.delete_version(&source, from).await
        } else {
            // Another client has removed it.
            Ok(())
        };
        removed.map_err(|error| match error.kind() {
            ErrorKind::Changed => error.context(format!(
                "nothing was removed, and {} may be a copy of an earlier version",
                self.shown(to)
            )),
            _ => error,
        })
    }

    /// Copies this version of an object. Returns the entity tag of the copy, if the store sends it.
    async fn copy_version(
        &self,
        source: &ObjectMeta,
        from: &str,
        to: &str,
    ) -> Result<Option<String>> {
        let mut fields = condition(COPY_IF_MATCH, source);
        let name = HeaderValue::from_str(&format!("{}/{}", self.bucket, encoded(from)));
        let invalid =
            |error| Error::new(ErrorKind::Invalid, format!("{}: {error}", self.shown(from)));
        fields.insert(COPY_SOURCE, name.map_err(invalid)?);
        let reply = self.request(Method::PUT, to, fields).await?;
        match reply.status {
            StatusCode::PRECONDITION_FAILED => Err(self.changed(from)),
            StatusCode::NOT_FOUND => Err(self.refused(&reply, from)),
            status if !status.is_success() => Err(self.refused(&reply, to)),
            _ => Ok(entity_tag(element(&reply.body, "ETag").map(|tag| unescaped(&tag)))),
        }
    }
}
