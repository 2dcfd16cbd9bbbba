//! MKCOL and DELETE (RFC 4918 sections 9.3 and 9.6).

use crate::authorization::authorizer::Action;
use crate::backend::{BackendError, BackendErrorKind, EntryMetadata};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::copy_move::partial_directory;
use crate::method::preconditions::{Conditions, no_parent};
use crate::method::tree::upload::announce_trees;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use hither_core::storage::is_partial;
use hither_http::conditions::IF_EMPTY;
use http::StatusCode;

/// Creates a directory.
pub(crate) async fn make(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(request, &request.path, Action::Create)?;
    if is_partial(request.path.path()) {
        return Err(partial_directory());
    }
    if !request.body.is_empty() {
        let what = "MKCOL takes no body";
        return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let conditions = Conditions::read(context, request, None).await?;
    let precondition = Box::new(move |there: Option<&EntryMetadata>| {
        conditions.check(there)?;
        is_free(there)
    });
    let made = context.backend.make_directory(request.path.path(), precondition).await;
    made.map_err(not_made)?;
    let mut response = ServerResponse::empty(StatusCode::CREATED);
    announce_trees(context, &mut response);
    Ok(response)
}

/// The condition of a new directory.
pub(crate) fn is_free(there: Option<&EntryMetadata>) -> Result<(), BackendError> {
    match there {
        Some(_) => Err(BackendError::new(BackendErrorKind::AlreadyExists, "it exists")),
        None => Ok(()),
    }
}

/// The error of a directory that was not made.
pub(crate) fn not_made(error: BackendError) -> HttpError {
    match error.kind() {
        BackendErrorKind::AlreadyExists => {
            let what = "a file or directory of that name exists";
            HttpError::new(StatusCode::METHOD_NOT_ALLOWED, what)
        }
        _ => no_parent(error),
    }
}

/// Removes a file, or a directory with its contents, unless [`IF_EMPTY`] forbids that.
pub(crate) async fn delete(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(request, &request.path, Action::Modify)?;
    if request.path.is_root() {
        let what = "the root directory cannot be removed";
        return Err(HttpError::new(StatusCode::FORBIDDEN, what));
    }
    if request.text("depth").is_some_and(|depth| !depth.eq_ignore_ascii_case("infinity")) {
        let what = "DELETE removes a directory with its contents: depth must be infinity";
        return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
    }
    let conditions = Conditions::read(context, request, None).await?;
    let precondition = conditions.on_existing(&request.path);
    let whole = !request.headers.contains_key(IF_EMPTY);
    context.backend.remove(request.path.path(), whole, precondition).await?;
    context.unfinished.end(request.path.path());
    Ok(ServerResponse::empty(StatusCode::NO_CONTENT))
}
