//! COPY and MOVE (RFC 4918 sections 9.8 and 9.9) within the tree.
//!
//! A COPY with a `Source`, or with a `Destination` on another server, is a third-party copy:
//! [`crate::third_party`].

use crate::authorization::authorizer::Action;
use crate::backend::path::NamespacePath;
use crate::backend::{
    BackendError, BackendErrorKind, ChangeOptions, ChangePrecondition, EntryMetadata,
};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::{Conditions, no_parent};
use crate::method::put::mtime::{accepted, client_mtime};
use crate::method::unfinished_files::UnfinishedFile;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::third_party;
use hither_core::storage::is_partial;
use http::{StatusCode, header};
use std::sync::Arc;

pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let bad = |what| HttpError::new(StatusCode::BAD_REQUEST, what);
    let moves = request.method.as_str() == "MOVE";
    if request.headers.contains_key("source") && !moves {
        let url = request.text("source").ok_or_else(|| bad("the field Source is not a URL"))?;
        return match (&context.settings().third_party, request.headers.contains_key("destination"))
        {
            (_, true) => {
                Err(bad("the request has both Source and Destination, expected one of them"))
            }
            (Some(third), false) => third_party::pull::handle(context, third, request, url).await,
            (None, false) => {
                let what = "third-party copies are disabled: the settings have no [third_party]";
                Err(HttpError::new(StatusCode::NOT_IMPLEMENTED, what))
            }
        };
    }
    context.authorize(request, &request.path, if moves { Action::Modify } else { Action::Read })?;
    let field = request.text("destination").ok_or_else(|| bad("the request has no Destination"))?;
    let to = match (
        NamespacePath::destination(field, request.host.as_ref()),
        &context.settings().third_party,
    ) {
        (Err(refusal), Some(third)) if refusal.status == StatusCode::BAD_GATEWAY && !moves => {
            return third_party::push::handle(context, third, request, field).await;
        }
        (to, _) => to?,
    };
    let may_replace = context.authorize_writing(request, &to)?;
    let replace = request.overwrites()?;
    if request.path.is_root() || to.is_root() {
        let what = "the root directory cannot be moved, copied or replaced";
        return Err(HttpError::new(StatusCode::FORBIDDEN, what));
    }
    let deep = match request.text("depth") {
        None => true,
        Some(depth) if depth.eq_ignore_ascii_case("infinity") => true,
        Some("0") if !moves => false,
        Some(_) => {
            return Err(bad(
                "this Depth does not apply to this request: expected infinity, or 0 for COPY",
            ));
        }
    };
    let backend = &context.backend;
    let mut from = request.path.clone();
    // A copy follows a link, a move moves it.
    if !moves
        && let Err(error) = backend.stat(from.path()).await
        && error.kind() == BackendErrorKind::Link
    {
        from = context.link_target(request, from.path(), error).await?;
    }
    check_on_disk(context, from.path(), moves).await?;
    // Until the file has its name, its writer keeps it in the count.
    let _counted = check_partial(context, request, &from, &to).await?;
    let conditions = Conditions::read(context, request, Some(&to)).await?;
    let precondition = checks(conditions, &from, &to, deep);
    // A file that was written in parts gets its time with its name.
    let is_upload = moves && is_partial(from.path());
    let modified = if is_upload { client_mtime(request)? } else { None };
    let options = ChangeOptions { replace: replace && may_replace, modified, precondition };
    let changed = if moves {
        backend.rename(from.path(), to.path(), options).await
    } else {
        let links = context.tree_filter(request).links();
        backend.copy(from.path(), to.path(), deep, options, links).await
    };
    let created = match changed {
        Err(error) if error.kind() == BackendErrorKind::AlreadyExists => {
            return Err(target_exists(context, request, &to, error, (replace, may_replace)));
        }
        Err(error) => return Err(not_changed(context, from.path(), error).await),
        Ok(created) => created,
    };
    if moves {
        context.unfinished.rename(from.path(), to.path());
    }
    let status = if created { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let answer = ServerResponse::empty(status).with(header::LOCATION, &to.href(to.is_directory()));
    Ok(if modified.is_some() { accepted(answer) } else { answer })
}

/// Counts a partial file that a copy or a move makes of another file.
async fn check_partial(
    context: &ServerContext,
    request: &ServerRequest,
    from: &NamespacePath,
    to: &NamespacePath,
) -> Result<Option<UnfinishedFile>, HttpError> {
    let moves = request.method.as_str() == "MOVE";
    if !is_partial(to.path()) || moves && is_partial(from.path()) {
        return Ok(None);
    }
    let there = context.backend.stat(from.path()).await?;
    if there.is_directory() {
        return Err(partial_directory());
    }
    let bytes = there.size.unwrap_or_default();
    context.unfinished.begin(context, request, to, bytes).await.map(Some)
}

/// The error of a directory with the name of a partial file, in which files would be hidden.
pub(crate) fn partial_directory() -> HttpError {
    let what = "only files that are being written have names of this form";
    HttpError::new(StatusCode::FORBIDDEN, what)
}

/// The error of a change of `from` that failed: 404 if that is missing, 409 if the parent of the
/// target is (RFC 4918 sections 9.8.5 and 9.9.4).
async fn not_changed(context: &ServerContext, from: &str, error: BackendError) -> HttpError {
    if error.kind() != BackendErrorKind::NotFound {
        return error.into();
    }
    let is_missing = |it: BackendError| it.kind() == BackendErrorKind::NotFound;
    let source = context.backend.stat(from).await;
    if source.is_err_and(is_missing) { error.into() } else { no_parent(error) }
}

/// The error of a target that exists already.
fn target_exists(
    context: &ServerContext,
    request: &ServerRequest,
    to: &NamespacePath,
    error: BackendError,
    (replace, may_replace): (bool, bool),
) -> HttpError {
    if !replace {
        return HttpError::may_not_overwrite("the destination");
    }
    if may_replace {
        return error.into();
    }
    // A client that may only create is denied, and does not learn what exists.
    let denied = context.authorize(request, to, Action::Modify).err();
    denied.unwrap_or_else(|| HttpError::new(StatusCode::PRECONDITION_FAILED, error.to_string()))
}

/// Fails if a copy of this path would stage files from tape. A move reads nothing.
async fn check_on_disk(context: &ServerContext, path: &str, moves: bool) -> Result<(), HttpError> {
    let Some(tape) = context.tape.as_ref().filter(|_| !moves) else { return Ok(()) };
    if context.backend.stat(path).await?.is_directory() {
        let what = "a directory may have files on tape: copy its files one by one";
        return Err(HttpError::new(StatusCode::CONFLICT, what));
    }
    tape.check_on_disk(path).await
}

/// The conditions on source and target of a COPY or MOVE of `from` to `to`.
fn checks(
    conditions: Conditions,
    from: &NamespacePath,
    to: &NamespacePath,
    deep: bool,
) -> ChangePrecondition {
    let from = from.clone();
    let to = to.clone();
    let conditions = conditions.on_change(&from);
    Box::new(move |there, target| {
        conditions(there, target)?;
        let forbidden = |what| Err(BackendError::new(BackendErrorKind::PermissionDenied, what));
        if from.path() == to.path() {
            return forbidden("source and destination are the same file");
        }
        let is_directory = there.is_some_and(EntryMetadata::is_directory);
        if is_directory && from.holds(&to) && deep || to.holds(&from) {
            return forbidden("source and destination lie one within the other");
        }
        Ok(())
    })
}
