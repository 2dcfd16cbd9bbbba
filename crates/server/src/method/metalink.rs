//! Metalink: the replicas of a file on other servers, for clients.
//!
//! The server names replicas in three ways. Each response about a file has `Link` fields (RFC 6249)
//! and the stored checksums. A client that names the media type of Metalink in `Accept`, as aria2
//! and davix do, gets a Metalink document (RFC 5854) in place of the file. The URL of any file with
//! the query `metalink` has the same document.
//!
//! A file that is missing here while its folder has replicas has a document as well: then it is
//! needed most.

use crate::backend::path::NamespacePath;
use crate::backend::{Backend, FileReader};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::digest_fields;
use crate::referral::replica_map::ReplicaMap;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use hither_checksum::Checksum;
use hither_http::digest::{self, DIGEST};
use hither_http::metalink::{
    MEDIA_TYPE, Metalink, MetalinkFile, MetalinkUrl, describedby, duplicate,
};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

/// Adds the replicas and the stored checksums of a file to a response about it.
pub(crate) async fn announce(
    replicas: &ReplicaMap,
    answer: &mut ServerResponse,
    place: &NamespacePath,
    reader: &dyn FileReader,
) {
    if replicas.is_empty() {
        return;
    }
    let urls = replicas.urls(place);
    if urls.is_empty() {
        return;
    }
    link(&mut answer.headers, place, &urls);
    if !answer.headers.contains_key(DIGEST) {
        for digest in digest_fields::stored(reader).await.iter().rev() {
            if let Ok(value) = HeaderValue::from_str(&digest::to_field(digest)) {
                answer.headers.append(DIGEST, value);
            }
        }
    }
}

/// Adds `Link` fields for replicas, the best first, and for their document.
pub(crate) fn link(headers: &mut HeaderMap, place: &NamespacePath, urls: &[String]) {
    let document = format!("{}?metalink", place.href(false));
    let links = urls.iter().zip(1..).map(|(url, priority)| duplicate(url, priority));
    for link in links.chain([describedby(&document)]) {
        if let Ok(value) = HeaderValue::try_from(link) {
            headers.append(header::LINK, value);
        }
    }
    headers.append(header::VARY, HeaderValue::from_static("accept"));
}

/// The Metalink document in place of a file, if the request is for it.
pub(crate) async fn document(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<Option<ServerResponse>, HttpError> {
    if request.path.is_directory() || !is_requested(request) {
        return Ok(None);
    }
    let elsewhere = context.settings().replicas.urls(&request.path);
    if elsewhere.is_empty() && !by_query(request) {
        return Ok(None);
    }
    let mut urls = Vec::with_capacity(elsewhere.len() + 1);
    let mut size = None;
    let mut digests = Vec::new();
    match context.follow(request, request.path.path(), Backend::open).await {
        Ok(reader) if reader.metadata().is_directory() => return Ok(None),
        Ok(reader) => {
            size = reader.metadata().size;
            digests = digest_fields::stored(&*reader).await;
            urls.extend(here(request));
        }
        Err(error) if error.status == StatusCode::NOT_FOUND => {
            if elsewhere.is_empty() {
                return Ok(None);
            }
        }
        Err(error) => return Err(error),
    }
    urls.extend(elsewhere);
    Ok(Some(describe(request, size, digests, urls)))
}

/// The document about a file with these replicas, the best first.
pub(crate) fn describe(
    request: &ServerRequest,
    size: Option<u64>,
    digests: Vec<Checksum>,
    urls: Vec<String>,
) -> ServerResponse {
    let mut file = MetalinkFile::default();
    file.name = request.path.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
    file.size = size;
    file.digests = digests;
    let replicas = urls.into_iter().zip(1..);
    file.replicas =
        replicas.map(|(url, priority)| MetalinkUrl { url, priority, location: None }).collect();
    let text = Metalink { files: vec![file] }.to_document();
    let length = text.len().to_string();
    let mut answer = ServerResponse::text(StatusCode::OK, MEDIA_TYPE, text)
        .with(header::VARY, "accept")
        .with(header::CACHE_CONTROL, "no-cache")
        .with(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if request.method == Method::HEAD {
        answer.body = crate::response::body::ResponseBody::Empty;
        answer.set(header::CONTENT_LENGTH, &length);
    }
    answer
}

/// Returns true if the request is for the document.
pub(crate) fn is_requested(request: &ServerRequest) -> bool {
    by_query(request) || accepts(request)
}

fn by_query(request: &ServerRequest) -> bool {
    request.query.as_deref() == Some("metalink")
}

/// Returns true if `Accept` names the media type of Metalink.
fn accepts(request: &ServerRequest) -> bool {
    let Some(accept) = request.text(header::ACCEPT) else { return false };
    accept.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(MEDIA_TYPE));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_named && weight.and_then(|weight| weight.parse().ok()).is_none_or(|q: f32| q > 0.0)
    })
}

/// The URL of the file at this server, with the host that the client used.
fn here(request: &ServerRequest) -> Option<String> {
    let host = request.host.as_ref()?;
    let scheme = if request.peer.is_secure { "https" } else { "http" };
    Some(format!("{scheme}://{host}{}", request.path.href(false)))
}
