//! PROPPATCH (RFC 4918 section 9.2): the server makes all of the changes, or none.

use crate::authorization::authorizer::Action;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::Conditions;
use crate::method::propfind::{is_live, multistatus_head, unreadable};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use hither_http::propfind::{CONTENT_TYPE, PropertyName, PropertyUpdate, element, escape};
use http::StatusCode;

/// The maximum length of a property's value.
const MAX_VALUE_BYTES: usize = 16 << 10;

pub(crate) async fn handle(
    context: &ServerContext,
    request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(&request, &request.path, Action::Modify)?;
    let conditions = Conditions::read(context, &request, None).await?;
    let ServerRequest { path, mut body, .. } = request;
    let max = context.limits().document_bytes;
    let body = body.collect(max).await?;
    let changes = PropertyUpdate::parse(&body, max).map_err(unreadable)?;
    let names: Vec<PropertyName> = changes.iter().map(|change| name(change).clone()).collect();
    let refused = |change: &&PropertyUpdate| match change {
        PropertyUpdate::Set { name, value } => is_live(name) || value.len() > MAX_VALUE_BYTES,
        PropertyUpdate::Remove(name) => is_live(name),
    };
    let forbidden: Vec<PropertyName> =
        changes.iter().filter(refused).map(|change| name(change).clone()).collect();
    let is_refused = !forbidden.is_empty();
    let updates = if is_refused { Vec::new() } else { changes };
    let precondition = conditions.on_existing(&path);
    let there = context.backend.set_properties(path.path(), updates, precondition).await?;
    let href = path.href(there.is_some_and(|metadata| metadata.is_directory()));
    let mut out = multistatus_head();
    out.push_str(&format!("<D:response><D:href>{}</D:href>", escape(&href)));
    let (bad, good): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| forbidden.contains(name));
    push_status(&mut out, &bad, StatusCode::FORBIDDEN);
    let others = if is_refused { StatusCode::FAILED_DEPENDENCY } else { StatusCode::OK };
    push_status(&mut out, &good, others);
    out.push_str("</D:response></D:multistatus>\n");
    Ok(ServerResponse::text(StatusCode::MULTI_STATUS, CONTENT_TYPE, out))
}

fn name(change: &PropertyUpdate) -> &PropertyName {
    match change {
        PropertyUpdate::Set { name, .. } | PropertyUpdate::Remove(name) => name,
    }
}

fn push_status(out: &mut String, names: &[PropertyName], status: StatusCode) {
    if names.is_empty() {
        return;
    }
    out.push_str("<D:propstat><D:prop>");
    for name in names {
        out.push_str(&element(name, ""));
    }
    let reason = status.canonical_reason().unwrap_or_default();
    out.push_str(&format!(
        "</D:prop><D:status>HTTP/1.1 {} {reason}</D:status></D:propstat>",
        status.as_u16()
    ));
}
