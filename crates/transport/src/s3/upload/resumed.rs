//! An upload that an earlier attempt began.

use super::{PART_BYTES, UploadMethod};
use crate::s3::S3Storage;
use crate::s3::parts::StoredPart;
use hither_core::error::{ErrorKind, Result};
use hither_core::storage::PutOptions;
use hither_core::sync::lock;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tracing::debug;

/// The upload that an earlier attempt began, unless the store shows that it lacks some of its
/// parts. An upload may have been aborted since, by another program or a rule of the bucket.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] and [`ErrorKind::Timeout`]: the state of the parts is unknown, and
/// they are kept for another attempt.
pub(super) async fn resumed(
    s3: &S3Storage,
    path: &str,
    key: &Path,
    options: &PutOptions,
) -> Result<Option<UploadMethod>> {
    use ErrorKind::{PermissionDenied, Timeout, Unauthenticated, Unavailable};
    let method = options.resume.as_deref().and_then(|token| parse(token, options.size));
    let Some(method) = method else { return Ok(None) };
    let UploadMethod::Parts { id, part_bytes, done } = &method else { return Ok(None) };
    let stored = match s3.parts(path, key, id).await {
        // A user who may upload may not always list. The store compares the tags of all parts when
        // the upload is completed.
        Err(error) if matches!(error.kind(), PermissionDenied | Unauthenticated) => {
            return Ok(Some(method));
        }
        Err(error) if matches!(error.kind(), Unavailable | Timeout) => return Err(error),
        stored => stored,
    };
    let is_stored = |(number, tag): (&u64, &String)| {
        let start = number.saturating_mul(*part_bytes);
        let bytes = options.size.saturating_sub(start).min(*part_bytes);
        let part = stored.as_ref().ok().and_then(|stored| stored.get(number));
        // Not every list has the tags.
        let has_tag = |part: &StoredPart| {
            part.tag.as_deref().is_none_or(|stored| stored == tag.trim_matches('"'))
        };
        part.is_some_and(|part| part.bytes == bytes && has_tag(part))
    };
    if lock(done).iter().all(is_stored) && stored.is_ok() {
        return Ok(Some(method));
    }
    debug!(path, ?stored, "an upload cannot be continued");
    // Its parts would stay in the store, and cost money.
    drop(s3.store.abort_multipart(key, id).await);
    Ok(None)
}

/// Parses the value of [`Upload::token`], if it fits a file of this size.
fn parse(token: &str, size: u64) -> Option<UploadMethod> {
    let mut lines = token.lines();
    let (part_bytes, id) = lines.next()?.split_once(' ')?;
    let part_bytes = part_bytes.parse().ok().filter(|&bytes: &u64| bytes >= PART_BYTES)?;
    let parts = size.div_ceil(part_bytes);
    let mut done = BTreeMap::new();
    for line in lines {
        let (number, tag) = line.split_once(' ')?;
        let number = number.parse().ok().filter(|&number: &u64| number < parts)?;
        done.insert(number, tag.to_owned());
    }
    Some(UploadMethod::Parts { id: id.to_owned(), part_bytes, done: Mutex::new(done) })
}
