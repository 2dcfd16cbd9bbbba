//! MKCOL and DELETE (RFC 4918 sections 9.3 and 9.6).

use crate::authorization::authorizer::Action;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::{check_conditions, existing, no_parent};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use http::StatusCode;
use std::io;

/// Makes a directory.
pub(crate) async fn make(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(request, &request.path, Action::Create)?;
    if !request.body.is_empty() {
        let what = "MKCOL takes no body";
        return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let (place, headers) = (request.path.clone(), request.headers.clone());
    context
        .disk
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
    let what = "a file or directory of that name exists";
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, what)
}

/// Removes a file, or a directory with all that is in it.
pub(crate) async fn delete(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(request, &request.path, Action::Modify)?;
    if request.path.is_root() {
        return Err(HttpError::new(StatusCode::FORBIDDEN, "the root directory cannot be removed"));
    }
    if request.text("depth").is_some_and(|depth| !depth.eq_ignore_ascii_case("infinity")) {
        let what = "DELETE removes a directory with its contents: depth must be infinity";
        return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
    }
    let (place, headers) = (request.path.clone(), request.headers.clone());
    let space = context.space.clone();
    context
        .disk
        .run(move |tree| {
            let check = || check_conditions(&headers, existing(tree, &place)?.as_ref());
            check()?;
            space.remove(tree, place.path(), check)
        })
        .await?;
    Ok(ServerResponse::empty(StatusCode::NO_CONTENT))
}
