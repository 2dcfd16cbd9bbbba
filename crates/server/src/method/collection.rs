//! MKCOL and DELETE (RFC 4918 sections 9.3 and 9.6).

use crate::answer::ServerResponse;
use crate::authorization::authorizer::Action;
use crate::backend::disk::confined_dir::{ConfinedDir, DiskMetadata, EntryKind};
use crate::backend::path::NamespacePath;
use crate::context::{ServerContext, ServerRequest};
use crate::http_error::HttpError;
use crate::method::put::no_parent;
use hither_http::conditions::{ConditionResult, evaluate};
use http::StatusCode;
use http::header::HeaderMap;
use std::io;
use std::time::SystemTime;

/// Makes a directory.
pub(crate) async fn make(
    site: &ServerContext,
    call: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    site.authorize(call, &call.place, Action::Create)?;
    if !call.body.is_empty() {
        let what = "a directory is made without a body";
        return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let (place, headers) = (call.place.clone(), call.headers.clone());
    site.disk
        .run_durably(move |tree| -> Result<(), HttpError> {
            let there = tree.look(place.path())?;
            check_conditions(&headers, there.as_ref())?;
            if there.is_some() {
                return Err(occupied());
            }
            tree.make_directory(place.path()).map_err(|error| match error.kind() {
                // Somebody was quicker.
                io::ErrorKind::AlreadyExists => occupied(),
                _ => no_parent(error.into()),
            })?;
            Ok(tree.sync_name(place.path())?)
        })
        .await?;
    Ok(ServerResponse::empty(StatusCode::CREATED))
}

fn occupied() -> HttpError {
    let what = "there is something of that name already";
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, what)
}

/// Removes a file, or a directory with all that is in it.
pub(crate) async fn delete(
    site: &ServerContext,
    call: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    site.authorize(call, &call.place, Action::Modify)?;
    if call.place.is_root() {
        return Err(HttpError::new(StatusCode::FORBIDDEN, "the root cannot be removed"));
    }
    if call.text("depth").is_some_and(|depth| !depth.eq_ignore_ascii_case("infinity")) {
        let what = "a directory goes with all that is in it";
        return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
    }
    let (place, headers) = (call.place.clone(), call.headers.clone());
    let space = site.space.clone();
    site.disk
        .run(move |tree| {
            let check = || check_conditions(&headers, existing(tree, &place)?.as_ref());
            check()?;
            space.remove(tree, place.path(), check)
        })
        .await?;
    Ok(ServerResponse::empty(StatusCode::NO_CONTENT))
}

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
