//! COPY and MOVE (RFC 4918 sections 9.8 and 9.9) within the tree.
//!
//! A COPY with a `Source`, or with a `Destination` on another server, is a third-party copy: [`crate::third_party`].

use crate::authorization::authorizer::Action;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::lot_charging::LotCharging;
use crate::backend::disk::metadata::EntryKind;
use crate::backend::path::NamespacePath;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::no_parent;
use crate::method::preconditions::{check_conditions, existing};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::third_party;
use http::header::HeaderMap;
use http::{StatusCode, header};
use std::sync::Arc;

/// What is to be done.
#[derive(Debug)]
struct Relocation {
    from: NamespacePath,
    to: NamespacePath,
    headers: HeaderMap,
    moves: bool,
    replace: bool,
    deep: bool,
}

pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let bad = |what| HttpError::new(StatusCode::BAD_REQUEST, what);
    let moves = request.method.as_str() == "MOVE";
    if request.headers.contains_key("source") && !moves {
        let url = request.text("source").ok_or_else(|| bad("the field Source is no URL"))?;
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
        NamespacePath::destination(field, request.host.as_deref()),
        &context.settings().third_party,
    ) {
        (Err(refusal), Some(third)) if refusal.status == StatusCode::BAD_GATEWAY && !moves => {
            return third_party::push::handle(context, third, request, field).await;
        }
        (to, _) => to?,
    };
    let may_replace = context.authorize_writing(request, &to)?;
    let replace = request.overwrites()?;
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
    let (from, headers) = (request.path.clone(), request.headers.clone());
    let job = Relocation { from, to: to.clone(), headers, moves, replace, deep };
    let space = context.space.clone();
    let created = match may_replace {
        true => context.disk.run_durably(move |tree| relocate(tree, &space, &job)).await?,
        false => {
            // Who may only make what is not there is told so, and not that it exists.
            let job = Relocation { replace: false, ..job };
            let done = context.disk.run_durably(move |tree| relocate(tree, &space, &job)).await;
            match done {
                Err(refusal) if refusal.status == StatusCode::PRECONDITION_FAILED && replace => {
                    context.authorize(request, &to, Action::Modify)?;
                    return Err(refusal);
                }
                done => done?,
            }
        }
    };
    let status = if created { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    Ok(ServerResponse::empty(status).with(header::LOCATION, &to.href(to.is_directory())))
}

/// Does it; tells whether nothing was replaced.
fn relocate(tree: &ConfinedDir, space: &LotCharging, job: &Relocation) -> Result<bool, HttpError> {
    let Relocation { from, to, headers, moves, replace, deep } = job;
    let forbidden = |what| Err(HttpError::new(StatusCode::FORBIDDEN, what));
    if from.is_root() || to.is_root() {
        return forbidden("the root directory cannot be moved, copied or replaced");
    }
    let source = existing(tree, from)?;
    check_conditions(headers, source.as_ref())?;
    if from.path() == to.path() {
        return forbidden("source and destination are the same file");
    }
    let is_directory = source.is_some_and(|meta| meta.kind == EntryKind::Directory);
    if is_directory && from.holds(to) && *deep || to.holds(from) {
        return forbidden("source and destination lie one within the other");
    }
    let there = tree.look(to.path())?;
    if there.is_some() && !replace {
        let what = "the destination exists, and the request does not allow to replace it";
        return Err(HttpError::new(StatusCode::PRECONDITION_FAILED, what));
    }
    let (paths, taken) = ((from.path(), to.path()), |error: HttpError| match error.status {
        // Something came to be there meanwhile.
        StatusCode::CONFLICT if !replace => HttpError::failed_precondition(),
        _ => no_parent(error),
    });
    let check = || check_conditions(headers, existing(tree, from)?.as_ref());
    match moves {
        true => space.rename(tree, paths, *replace, check).map_err(taken),
        false => space.copy(tree, paths, (*deep, *replace), check).map_err(taken),
    }
}
