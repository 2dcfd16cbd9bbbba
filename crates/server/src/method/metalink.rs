//! Metalink: where else a file is, told to clients.
//!
//! Clients are told in three ways: by `Link` fields in each response about a file (RFC 6249), with the
//! checksums that are stored for it; by a Metalink document (RFC 5854) in place of the file, for
//! clients that name its media type in `Accept`, as aria2 and davix do; and by the same document under
//! the URL of the file with the query `metalink`, which works for any file.
//!
//! A file that is missing here while its folder has replicas has a document as well: that is when it
//! is needed.

use crate::backend::disk::checksums;
use crate::backend::disk::confined_dir::{DiskReader, is_missing};
use crate::backend::path::NamespacePath;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::replica_map::ReplicaMap;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use hither_core::checksum::Algorithm;
use hither_http::digest::{DIGEST, Digest, DigestAlgorithm};
use hither_http::metalink::{
    MEDIA_TYPE, Metalink, MetalinkFile, MetalinkUrl, describedby, duplicate,
};
use http::header::{self, HeaderValue};
use http::uri::Authority;
use http::{Method, StatusCode};
use std::fs::File;

/// Adds to an answer about a file where else it is, and what is known of its bytes.
pub(crate) fn announce(
    replicas: &ReplicaMap,
    answer: &mut ServerResponse,
    place: &NamespacePath,
    found: &DiskReader,
) {
    if replicas.is_empty() {
        return;
    }
    let urls = replicas.urls(place);
    if urls.is_empty() {
        return;
    }
    let document = format!("{}?metalink", place.href(false));
    let links = urls.iter().zip(1..).map(|(url, priority)| duplicate(url, priority));
    for link in links.chain([describedby(&document)]) {
        if let Ok(value) = HeaderValue::from_str(&link) {
            answer.headers.append(header::LINK, value);
        }
    }
    if !answer.headers.contains_key(DIGEST) {
        for digest in known(&found.file, found).iter().rev() {
            if let Ok(value) = HeaderValue::from_str(&digest.to_field()) {
                answer.headers.append(DIGEST, value);
            }
        }
    }
    answer.headers.append(header::VARY, HeaderValue::from_static("accept"));
}

/// The sums that are noted of a file.
fn known(file: &File, found: &DiskReader) -> Vec<Digest> {
    let kinds = [
        (DigestAlgorithm::Adler32, Algorithm::Adler32),
        (DigestAlgorithm::Crc32c, Algorithm::Crc32c),
        (DigestAlgorithm::Md5, Algorithm::Md5),
        (DigestAlgorithm::Sha256, Algorithm::Sha256),
    ];
    let noted = kinds.into_iter().filter_map(|(algorithm, kind)| {
        let sum = checksums::noted(file, &found.meta, kind)?;
        Some(Digest { algorithm, value: sum.value().to_vec() })
    });
    noted.collect()
}

/// The Metalink document in place of a file, if that is what is asked for.
pub(crate) async fn document(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<Option<ServerResponse>, HttpError> {
    let asked = request.query.as_deref() == Some("metalink");
    if request.path.is_directory() || !(asked || accepts(request)) {
        return Ok(None);
    }
    let elsewhere = context.settings().replicas.urls(&request.path);
    if elsewhere.is_empty() && !asked {
        return Ok(None);
    }
    let path = request.path.path().to_owned();
    let found = context.disk.run(move |tree| match tree.find(&path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    });
    let mut urls = Vec::with_capacity(elsewhere.len() + 1);
    let mut file = MetalinkFile::default();
    file.name = request.path.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
    match found.await? {
        Some(found) if found.meta.kind == crate::backend::disk::metadata::EntryKind::File => {
            file.size = Some(found.meta.size);
            file.digests = known(&found.file, &found);
            urls.extend(here(request));
        }
        Some(_) => return Ok(None),
        None if elsewhere.is_empty() => return Ok(None),
        None => {}
    }
    urls.extend(elsewhere);
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
    Ok(Some(answer))
}

/// Whether the media type of Metalink is named among what is accepted.
fn accepts(request: &ServerRequest) -> bool {
    let Some(accept) = request.text(header::ACCEPT) else { return false };
    accept.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(MEDIA_TYPE));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_named && weight.and_then(|weight| weight.parse().ok()).is_none_or(|q: f32| q > 0.0)
    })
}

/// The file at this server, by the name that it was asked by.
fn here(request: &ServerRequest) -> Option<String> {
    let host: Authority = request.host.as_deref()?.parse().ok()?;
    let scheme = if request.peer.is_secure { "https" } else { "http" };
    Some(format!("{scheme}://{host}{}", request.path.href(false)))
}
