//! Referrals: responses that send a client to another server for a file.
//!
//! A backend whose files are on other servers ([`Backend::refers`](crate::Backend::refers)) names
//! the location for each request about the bytes of a file, after the client was authorized here:
//!
//! | request | response |
//! |---|---|
//! | GET, HEAD | 302 to a replica, with `Link` fields (RFC 6249) for all of them |
//! | QUERY | 307 to a replica |
//! | PUT | 307 to where the file is written |
//! | COPY with `Source` | 307 to where the file is written |
//! | COPY to another server | 307 to a replica |
//!
//! A client that names a digest in `Want-Digest` or `Want-Repr-Digest` gets it with the redirect,
//! if the backend knows it. One that names none with a preference above 0 gets a Metalink document
//! without a checksum, which may take long to compute. 302 is understood by the oldest clients; 307
//! keeps the method (RFC 9110 section 15.4). A body is not read, so that a client that waits for
//! `100 Continue` sends it only to the final server.
//!
//! **Schemes.** Every client follows `http` and `https`. One that follows others lists them in the
//! field `Hither-Follows`, as in `Hither-Follows: root, roots`. A file that has no URL for a client
//! is sent by this server.

pub(crate) mod pelican;
pub(crate) mod relay_egress;
pub(crate) mod replica_map;

use crate::authorization::authorizer::Action;
use crate::backend::path::NamespacePath;
use crate::backend::referral::{Intent, LocateRequest, Located};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::get;
use crate::method::{digest_fields, metalink};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use hither_checksum::Algorithm;
use hither_http::digest::{WANT_DIGEST, WANT_REPR_DIGEST};
use hither_http::pelican::NAMESPACE;
use http::header::HeaderMap;
use http::{StatusCode, header};
use std::borrow::Cow;

/// The field in which a client lists the schemes of redirects that it follows.
const FOLLOWS: &str = "hither-follows";
/// The schemes that every client follows, and those that others may list.
const USUAL: [&str; 2] = ["http", "https"];
const LISTED: [&str; 2] = ["root", "roots"];

/// The response to a request about the bytes of a file, if its backend has them on other servers;
/// none for other requests, and for directories.
pub(crate) async fn answer(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<Option<ServerResponse>, HttpError> {
    let agent = request.text(header::USER_AGENT).unwrap_or_default();
    let is_pelican = pelican::asks_director(request, agent);
    let is_get = matches!(request.method.as_str(), "GET" | "HEAD");
    let Some(intent) = intent(context, request) else {
        let is_listed = is_pelican && is_get && context.backend.refers();
        if is_listed {
            context.authorize(request, &request.path, Action::Read)?;
        }
        return Ok(is_listed.then(|| pelican::directory(context, request)).flatten());
    };
    let may_replace = match intent {
        Intent::Read => context.authorize(request, &request.path, Action::Read).map(|()| true)?,
        Intent::Write => context.authorize_writing(request, &request.path)?,
    };
    let schemes = followed_schemes(request);
    let wants_all = is_get && metalink::is_requested(request);
    let wanted = digest_fields::first_wanted(&request.headers).filter(|_| is_get);
    let names_algorithm =
        [WANT_DIGEST, WANT_REPR_DIGEST].iter().any(|it| request.headers.contains_key(it));
    let checksum = wanted.or_else(|| (wants_all && !names_algorithm).then_some(Algorithm::Adler32));
    let wants_namespace = pelican::knows_namespaces(agent);
    let question = LocateRequest {
        path: request.path.path(),
        intent,
        client: request.peer.address.ip(),
        agent,
        wants_all,
        checksum,
        wants_namespace,
        schemes: &schemes,
    };
    let located = context.backend.locate(question).await?;
    if located.metadata.as_ref().is_some_and(crate::EntryMetadata::is_directory) {
        return Ok((is_pelican && is_get).then(|| pelican::directory(context, request)).flatten());
    }
    if intent == Intent::Write && located.metadata.is_some() && !may_replace {
        context.authorize(request, &request.path, Action::Modify)?;
    }
    if wants_all {
        let size = located.metadata.as_ref().and_then(|metadata| metadata.size);
        let digests =
            located.checksum.iter().filter(|sum| digest_fields::is_known(sum)).cloned().collect();
        return Ok(Some(metalink::describe(request, size, digests, located.replicas)));
    }
    let again = || pelican::again(context, request, &located);
    if let Some(again) = (is_pelican && is_get).then(again).flatten() {
        return Ok(Some(again));
    }
    let mut response = match &located.redirect {
        Some(url) => {
            let status = if is_get && !is_pelican {
                StatusCode::FOUND
            } else {
                StatusCode::TEMPORARY_REDIRECT
            };
            ServerResponse::empty(status)
                .with(header::LOCATION, url)
                .with(header::CACHE_CONTROL, "no-store")
        }
        None if is_get => get::handle(context, request).await?,
        None => return Ok(None),
    };
    if is_get && is_pelican {
        pelican::link(&mut response.headers, &located);
    } else if is_get {
        link(&mut response.headers, &request.path, &located);
    }
    if let Some(namespace) = pelican::namespace(context, request, &located) {
        response.headers.insert(NAMESPACE, namespace);
    }
    if let Some(sum) = &located.checksum {
        response.headers.extend(digest_fields::of_checksum(&request.headers, sum));
    }
    Ok(Some(response))
}

/// The schemes of the redirects that a client follows.
fn followed_schemes(request: &ServerRequest) -> Cow<'static, [&'static str]> {
    let Some(listed) = request.text(FOLLOWS) else { return USUAL.as_slice().into() };
    let is_listed =
        |scheme: &&str| listed.split(',').any(|it| it.trim().eq_ignore_ascii_case(scheme));
    USUAL.into_iter().chain(LISTED.into_iter().filter(is_listed)).collect()
}

/// The intent of a request that is answered by a referral.
fn intent(context: &ServerContext, request: &ServerRequest) -> Option<Intent> {
    if !context.backend.refers() {
        return None;
    }
    let names_a_file = !request.path.is_root() && !request.path.is_directory();
    match request.method.as_str() {
        "GET" | "HEAD" | "QUERY" if names_a_file => Some(Intent::Read),
        "PUT" if names_a_file => Some(Intent::Write),
        "COPY" if request.headers.contains_key("source") => Some(Intent::Write),
        "COPY" => {
            let destination = request.text("destination")?;
            let here = NamespacePath::destination(destination, request.host.as_ref());
            let is_elsewhere = here.is_err_and(|error| error.status == StatusCode::BAD_GATEWAY);
            is_elsewhere.then_some(Intent::Read)
        }
        _ => None,
    }
}

/// Adds the replicas of a file, and the URL of their document.
fn link(headers: &mut HeaderMap, path: &NamespacePath, located: &Located) {
    metalink::link(headers, path, &located.replicas);
    headers.append(header::VARY, header::HeaderValue::from_static(FOLLOWS));
}
