//! The responses of a director of a Pelican federation: in this role a server that redirects
//! clients to others serves Pelican's own clients, and `pelican://` URLs.
//!
//! Such a client reads the description of the federation ([`description`]), asks the director that
//! it names, and takes the servers of a file from a 307 with one `Link` field.
//! `X-Pelican-Namespace` states the other files to which the response applies: those of a directory
//! that only one endpoint has, or the file itself ([`Located::namespace`](crate::Located)).
//! Directories are listed here.
//!
//! Pelican's own clients do not follow 302, read only the first `Link` field, and split it at
//! commas; others get the fields of RFC 6249. They repeat a request that failed, for three quarters
//! of a minute, unless the field `Server` names Pelican ([`SERVER`]). And they expect that a URL
//! ends with the path of its file. Where none does, they are redirected to this server once more
//! ([`again`]), which then redirects them like other clients, or sends the file.

use crate::backend::referral::Located;
use crate::context::ServerContext;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::body::ResponseBody;
use hither_http::metalink::duplicate;
use hither_http::pelican::{DIRECTOR_KEY, DISCOVERY_PATH, NAMESPACE, PelicanNamespace};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

/// The query of the URL at which Pelican's own client is served like others.
const AGAIN: &str = "as-others";

/// The name of the server for Pelican's own client.
pub(crate) const SERVER: &str = concat!("pelican/7 hither/", env!("CARGO_PKG_VERSION"));

/// Returns true if Pelican's own client sends the request.
pub(crate) fn is_client(agent: &str) -> bool {
    agent.starts_with("pelican")
}

/// Returns true if Pelican's own client requests the response of a director, for the first time.
pub(crate) fn asks_director(request: &ServerRequest, agent: &str) -> bool {
    is_client(agent)
        && !request.query.as_deref().is_some_and(|it| it.split('&').any(|it| it == AGAIN))
}

/// The response to Pelican's own client about a file without a URL that ends with its path: the URL
/// of this server, at which it gets the response that others get. `None` for other files.
pub(crate) fn again(
    context: &ServerContext,
    request: &ServerRequest,
    located: &Located,
) -> Option<ServerResponse> {
    if located.namespace.is_some() {
        return None;
    }
    // Its own query (a token, for example) goes with it.
    let query = request.query.as_deref().map(|it| format!("{it}&")).unwrap_or_default() + AGAIN;
    let url = format!("{}{}?{query}", here(request)?, request.path.href(false));
    let mut response =
        ServerResponse::empty(StatusCode::TEMPORARY_REDIRECT).with(header::LOCATION, &url);
    let path = format!("/{}", request.path.path());
    response.headers.insert(NAMESPACE, field(context, request, path)?);
    Some(response)
}

/// Returns true if the client uses the field about the namespace.
pub(crate) fn knows_namespaces(agent: &str) -> bool {
    is_client(agent) || agent.starts_with("hither")
}

/// The document that names this server as the director of its federation, if the request is for it.
pub(crate) fn description(
    context: &ServerContext,
    request: &ServerRequest,
) -> Option<ServerResponse> {
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    let is_it = request.path.path() == DISCOVERY_PATH.trim_start_matches('/');
    if !(is_it && is_read && context.backend.refers()) {
        return None;
    }
    let url = here(request)?;
    let text = serde_json::json!({ "discovery_endpoint": url, DIRECTOR_KEY: url }).to_string();
    let mut response = ServerResponse::text(StatusCode::OK, "application/json", text);
    if request.method == Method::HEAD {
        response.body = ResponseBody::Empty;
    }
    Some(response)
}

/// The namespace of a file.
pub(crate) fn namespace(
    context: &ServerContext,
    request: &ServerRequest,
    located: &Located,
) -> Option<HeaderValue> {
    field(context, request, located.namespace.clone()?)
}

/// The response to a request for a directory by Pelican's own client, which lists it here.
pub(crate) fn directory(
    context: &ServerContext,
    request: &ServerRequest,
) -> Option<ServerResponse> {
    let url = format!("{}{}", here(request)?, request.path.href(false));
    let mut response =
        ServerResponse::empty(StatusCode::TEMPORARY_REDIRECT).with(header::LOCATION, &url);
    response.headers.insert(NAMESPACE, field(context, request, String::new())?);
    Some(response)
}

/// The namespace in which Pelican's own client lists a directory: this server lists all.
pub(crate) fn listed_namespace(
    context: &ServerContext,
    request: &ServerRequest,
) -> Option<HeaderValue> {
    let agent = request.text(header::USER_AGENT).unwrap_or_default();
    let is_asked = context.backend.refers() && is_client(agent);
    is_asked.then(|| field(context, request, String::new()))?
}

fn field(context: &ServerContext, request: &ServerRequest, path: String) -> Option<HeaderValue> {
    let namespace = PelicanNamespace {
        path,
        requires_token: !context.settings().is_open,
        collections: here(request),
        ..PelicanNamespace::default()
    };
    HeaderValue::from_str(&namespace.to_field()).ok()
}

/// Adds the replicas of a file as Pelican's own client reads them.
pub(crate) fn link(headers: &mut HeaderMap, located: &Located) {
    let is_usable = |url: &&String| url.starts_with("http") && !url.contains(',');
    let replicas = located.replicas.iter().filter(is_usable).zip(1..);
    let links: Vec<_> = replicas.map(|(url, priority)| duplicate(url, priority)).collect();
    if let Ok(value) = HeaderValue::from_str(&links.join(", ")) {
        headers.insert(header::LINK, value);
    }
}

/// The URL of this server, as the client addressed it.
fn here(request: &ServerRequest) -> Option<String> {
    let host = request.host.as_ref()?;
    let scheme = if request.peer.is_secure { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}
