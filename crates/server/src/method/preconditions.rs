//! Conditional requests: `If-Match`, `If-None-Match` and their like, for methods that change something.

use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::metadata::{DiskMetadata, EntryKind};
use crate::backend::path::NamespacePath;
use crate::http_error::HttpError;
use hither_http::conditions::{ConditionResult, evaluate};
use http::StatusCode;
use http::header::HeaderMap;
use std::time::SystemTime;

/// What is to be moved, copied or removed: there has to be something. None for a link that leads nowhere.
pub(crate) fn existing(
    tree: &ConfinedDir,
    place: &NamespacePath,
) -> Result<Option<DiskMetadata>, HttpError> {
    let meta = match tree.meta(place.path()) {
        Ok(meta) => meta,
        // The link itself may go.
        Err(_) if tree.is_link(place.path())? => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match place.is_directory() && meta.kind != EntryKind::Directory {
        true => Err(HttpError::not_found()),
        false => Ok(Some(meta)),
    }
}

/// Fails unless the preconditions of a request that changes something hold.
pub(crate) fn check_conditions(
    headers: &HeaderMap,
    there: Option<&DiskMetadata>,
) -> Result<(), HttpError> {
    let version = there.map(|meta| meta.version(SystemTime::now()));
    match evaluate(headers, version.as_ref(), false) {
        ConditionResult::Proceed => Ok(()),
        ConditionResult::Failed | ConditionResult::NotModified => {
            Err(HttpError::failed_precondition())
        }
    }
}

/// Where there is no directory, that is a conflict (RFC 4918 section 9.7.1).
pub(crate) fn no_parent(refusal: HttpError) -> HttpError {
    match refusal.status {
        StatusCode::NOT_FOUND => HttpError::conflict(),
        _ => refusal,
    }
}
