//! The steps of a request: head, path, authorization, method, response.
//!
//! In this order: the target of the request becomes a path in the tree ([`NamespacePath`]); the
//! authorizer fetches the keys that its decisions need; the module of the method requests a
//! decision of the authorizer for each path that it touches, and makes the response; the response
//! gets the fields that all responses carry, and a line in the access log.

use crate::authorization::authorizer::Action;
use crate::backend::path::NamespacePath;
use crate::connection::host;
use crate::connection::incoming_body::{BodyLimits, IncomingBody};
use crate::connection::peer::Peer;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::digest_fields::ContentDigests;
use crate::method::{
    copy_move, get, lots, mkcol_delete, propfind, proppatch, put, query, tape, tree,
};
use crate::monitoring::request_record::RequestRecord;
use crate::referral;
use crate::request::ServerRequest;
use crate::response::recorded_body::RecordedBody;
use crate::response::{ServerResponse, accept_query, accept_tree_query};
use hither_core::sync::lock;
use hither_http::server_timing::{self, ServerTiming};
use hither_http::vector::ACCEPT_QUERY;
use http::header::HeaderName;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Span, debug, info_span, warn};

/// The field about the namespace of a Pelican federation.
const NAMESPACE_FIELD: HeaderName = HeaderName::from_static(hither_http::pelican::NAMESPACE);
/// The methods of a server that does not write.
const READ_METHODS: &str = "OPTIONS, GET, HEAD, QUERY, PROPFIND";
/// The methods of a server that writes.
const ALL_METHODS: &str =
    "OPTIONS, GET, HEAD, QUERY, PROPFIND, POST, PUT, DELETE, MKCOL, COPY, MOVE, PROPPATCH";

/// The span of a request. Its path has no query, which may hold a token.
pub(crate) fn span<B>(request: &Request<B>, peer: &Peer) -> Span {
    let method = request.method();
    let path = request.uri().path();
    info_span!("request", connection = peer.connection, %method, path, client = Empty)
}

/// Serves one request.
pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<RecordedBody> {
    let mut record = context.records.begin(&request, &peer);
    let agent = request.headers().get(header::USER_AGENT).and_then(|it| it.to_str().ok());
    let server = match agent {
        Some(agent) if context.backend.refers() && referral::pelican::is_client(agent) => {
            referral::pelican::SERVER
        }
        _ => concat!("hither/", env!("CARGO_PKG_VERSION")),
    };
    let timing = ServerTiming::is_wanted(request.headers()).then(|| *lock(&peer.timing));
    let progress = peer.monitor.begin(context.limits().min_rate);
    let result = dispatch(context, request, peer, &mut record).await;
    let mut response = result.unwrap_or_else(|error| {
        let status = error.status.as_u16();
        if error.status.is_server_error() {
            warn!(status, reason = error.what, "request failed");
        } else {
            debug!(status, reason = error.what, "request failed");
        }
        record.reason(&error.what);
        error.into()
    });
    response.set(header::SERVER, server);
    if let Some(value) = timing.and_then(|it| it.value()) {
        response.headers.insert(server_timing::FIELD, value);
    }
    record.answered(response.status, response.ranges);
    let mut out = Response::new(RecordedBody::new(response.body, record, progress));
    *out.status_mut() = response.status;
    *out.headers_mut() = response.headers;
    out
}

async fn dispatch(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
    peer: Peer,
    record: &mut RequestRecord,
) -> Result<ServerResponse, HttpError> {
    let (head, body) = request.into_parts();
    let host = host::addressed(&head, peer.is_secure)?;
    let settings = context.settings();
    if settings.is_open {
        host::check_local(host.as_ref(), peer.address, &settings.names)?;
    }
    check_codings(&head)?;
    check_length(&head)?;
    if head.method == Method::OPTIONS {
        let lots = context.lots.as_ref().and_then(|_| NamespacePath::parse(head.uri.path()).ok());
        return Ok(match lots.and_then(|path| lots::methods(&path)) {
            Some(methods) => ServerResponse::empty(StatusCode::OK).with(header::ALLOW, methods),
            None => options(context),
        });
    }
    let path = NamespacePath::parse(head.uri.path())?;
    let limits = &settings.limits;
    let limits = BodyLimits { stall: limits.stall(), min_rate: limits.min_rate };
    let digests = ContentDigests::of(&head.headers)?;
    let request = ServerRequest {
        method: head.method,
        path,
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
        body: IncomingBody::new(body, limits, digests, record.timings()),
        peer,
        host,
    };
    if let Some(description) = referral::pelican::description(context, &request) {
        return Ok(description);
    }
    let authorizer = &settings.authorizer;
    if let Some(prepared) = authorizer.prepare(&request.headers) {
        prepared.await;
    }
    record.file(request.path.path());
    if record.wants_name()
        && let Ok(name) = authorizer.name(&request.access(&request.path, Action::Read))
    {
        record.name(name);
    }
    if let Some(lots) = context.lots.as_ref().filter(|_| lots::below(&request.path).is_some()) {
        return lots::handle(context, lots, request).await;
    }
    if let Some(door) = context.tape.as_ref().filter(|_| tape::is_at(&request.path)) {
        return tape::handle(context, door, request).await;
    }
    if let Some(answer) = referral::answer(context, &request).await? {
        return Ok(answer);
    }
    match request.method.as_str() {
        "GET" | "HEAD" => get::handle(context, &request).await,
        "QUERY" => query::handle(context, request).await,
        "PROPFIND" => {
            let namespace = referral::pelican::listed_namespace(context, &request);
            let mut response = propfind::handle(context, request).await?;
            response.headers.extend(namespace.map(|value| (NAMESPACE_FIELD, value)));
            Ok(response)
        }
        "POST" if settings.authorizer.writes() => tree::upload::handle(context, request).await,
        "PUT" => put::handle(context, request).await,
        "MKCOL" => mkcol_delete::make(context, &request).await,
        "DELETE" => mkcol_delete::delete(context, &request).await,
        "COPY" | "MOVE" => copy_move::handle(context, &request).await,
        "PROPPATCH" => proppatch::handle(context, request).await,
        method => {
            let what = format!("this server has no method {method:?}");
            Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, what)
                .with(header::ALLOW, methods(context)))
        }
    }
}

/// Fails for codings that the server would have to undo: a body is stored as it arrives.
fn check_codings(head: &Parts) -> Result<(), HttpError> {
    let is_only = |name: &HeaderName, coding: &str| {
        let mut values = head.headers.get_all(name).into_iter();
        values.all(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(coding.as_bytes()))
    };
    if !is_only(&header::TRANSFER_ENCODING, "chunked") {
        let what = "Transfer-Encoding has a coding that this server lacks, expected chunked";
        return Err(HttpError::new(StatusCode::NOT_IMPLEMENTED, what));
    }
    if !is_only(&header::CONTENT_ENCODING, "identity") {
        let what = "the body has a Content-Encoding, expected the bytes as they are";
        return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what)
            .with(header::ACCEPT_ENCODING, "identity"));
    }
    Ok(())
}

/// Fails for a request of HTTP/1.0 that has a body and does not state its length (RFC 1945 section
/// 7.2.2). To hyper it is empty; the bytes that follow would be lost.
fn check_length(head: &Parts) -> Result<(), HttpError> {
    let has_body = matches!(head.method.as_str(), "PUT" | "POST" | "PATCH" | "PROPPATCH" | "QUERY");
    let has_length = head.headers.contains_key(header::CONTENT_LENGTH);
    if head.version > Version::HTTP_10 || !has_body || has_length {
        return Ok(());
    }
    let what = format!("a {} of HTTP/1.0 needs a Content-Length", head.method);
    Err(HttpError::new(StatusCode::LENGTH_REQUIRED, what).with(header::CONNECTION, "close"))
}

fn methods(context: &ServerContext) -> &'static str {
    if context.settings().authorizer.writes() { ALL_METHODS } else { READ_METHODS }
}

fn options(context: &ServerContext) -> ServerResponse {
    let mut response = ServerResponse::empty(StatusCode::OK)
        .with(header::ALLOW, methods(context))
        .with(header::ACCEPT_RANGES, "bytes")
        .with(HeaderName::from_static("dav"), "1");
    // Servers to which clients are redirected state themselves which queries they accept.
    if !context.backend.refers() {
        response.set(ACCEPT_QUERY, &format!("{}, {}", accept_query(), accept_tree_query()));
    }
    tree::upload::announce_uploads(context, &mut response);
    response
}
