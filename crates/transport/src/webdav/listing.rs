//! Metadata and listings by PROPFIND, HEAD and directory indexes.

use super::WebDavStorage;
use super::autoindex::{self, AutoindexEntry};
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request_body::RequestBody;
use crate::http::source::HttpSource;
use crate::http::status_error;
use crate::webdav::arriving::ArrivingListing;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind};
use hither_core::sync::lock;
use hither_core::{Request, Source};
use hither_http::propfind::{self, PropfindLimits, Resource};
use http::{HeaderMap, Method, StatusCode, header};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Parallel requests for the sizes of a listing.
const AT_ONCE: usize = 16;
/// The maximum size of a directory index in bytes.
const PAGE_BYTES: usize = 32 << 20;

/// The metadata of a name.
pub(super) async fn stat(dav: &WebDavStorage, path: &str) -> Result<DirEntry> {
    stat_as(dav, path, dav.is_known_directory(path)).await
}

/// The metadata of a name. For a directory, requests end with a slash.
pub(super) async fn stat_as(dav: &WebDavStorage, path: &str, directory: bool) -> Result<DirEntry> {
    match told_properties(dav, path, directory).await? {
        Some(entry) => Ok(entry),
        None => head(dav, path, directory).await,
    }
}

/// The metadata of a name, with its size.
pub(super) async fn sized(dav: &WebDavStorage, path: &str) -> Result<DirEntry> {
    with_size(dav, stat(dav, path).await?).await
}

/// The entry with its size: that of a file which the server does not tell so is asked for by a GET
/// of its first byte.
pub(super) async fn with_size(dav: &WebDavStorage, mut entry: DirEntry) -> Result<DirEntry> {
    if entry.kind == FileKind::File && entry.size.is_none() {
        let place = dav.root.below(&entry.path, false);
        let source = HttpSource::new(place, Arc::clone(&dav.network));
        let first = 0..1;
        let request = Request { ranges: vec![first], ..Request::default() };
        entry.size = source.fetch(request, Box::new(drop)).await?.size;
    }
    Ok(entry)
}

/// The metadata of a name by PROPFIND; `None` if the server does not support it.
pub(super) async fn told_properties(
    dav: &WebDavStorage,
    path: &str,
    directory: bool,
) -> Result<Option<DirEntry>> {
    if dav.names().lists == Some(false) {
        return Ok(None);
    }
    let asked = propfind(dav, path, directory || path.is_empty(), "0", None).await?;
    let Some((reply, resources)) = asked else { return Ok(None) };
    let found = resources.into_iter().find(|resource| resource.path.is_empty());
    if let Some(status) = found.as_ref().map(|own| own.status).filter(StatusCode::is_server_error) {
        return Err(status_error::of_status(status, &reply.location.to_string(), "", None));
    }
    let found = found.filter(|resource| resource.status != StatusCode::NOT_FOUND);
    found.map(|own| Some(entry(path.to_owned(), own))).ok_or_else(|| dav.missing(path))
}

/// The entries of a directory, sorted.
pub(super) async fn list(dav: &WebDavStorage, path: &str) -> Result<Vec<DirEntry>> {
    list_to(dav, path, None).await
}

/// The entries of a directory as they arrive.
pub(super) fn list_batches<'a>(
    dav: &'a WebDavStorage,
    path: &'a str,
) -> BoxStream<'a, Result<Vec<DirEntry>>> {
    let target = dav.root.below(path, true).target();
    let arriving = Arc::new(Mutex::new(ArrivingListing::new(path, &target)));
    let (sender, chunks) = unbounded_channel();
    let whole = Arc::clone(&arriving);
    // A task of its own reads on while whoever takes the entries waits: for files to be fetched,
    // for which there may be no connection but this one. Dropping the set ends it.
    let mut reading = JoinSet::new();
    let dav = dav.clone();
    let path = path.to_owned();
    let runtime = dav.network.runtime().clone();
    reading.spawn_on(async move { list_to(&dav, &path, Some(sender)).await }, &runtime);
    let asked = async move {
        let entries = reading.join_next().await.and_then(Result::ok).unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Local, "the task that reads a listing panicked"))
        })?;
        Ok(lock(&whole).rest(entries))
    };
    let arrived = stream::unfold(chunks, move |mut chunks| {
        let arriving = Arc::clone(&arriving);
        async move {
            let bytes: Bytes = chunks.recv().await?;
            Some((Ok(lock(&arriving).add(&bytes)), chunks))
        }
    });
    Box::pin(stream::select(arrived, stream::once(asked)))
}

/// The entries of a directory, sorted. The receiver gets the body of its listing as it arrives.
async fn list_to(
    dav: &WebDavStorage,
    path: &str,
    arriving: Option<UnboundedSender<Bytes>>,
) -> Result<Vec<DirEntry>> {
    let is_told = dav.names().lists != Some(false);
    if is_told {
        match propfind(dav, path, true, "1", arriving.clone()).await {
            Ok(Some((reply, resources))) => return children(dav, path, &reply, resources),
            // The next way is tried.
            Ok(None) => {}
            Err(error) => return Err(not_listed(dav, path, error).await),
        }
    }
    let mut entries = match read_page(dav, path, arriving).await {
        // That the server has no PROPFIND may hold for other directories only.
        Err(error) if !is_told && error.kind() == ErrorKind::Unsupported => {
            return match propfind(dav, path, true, "1", None).await {
                Ok(Some((reply, resources))) => children(dav, path, &reply, resources),
                _ => Err(error),
            };
        }
        page => page?,
    };
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// The error for a directory that cannot be listed. A server may report a file as missing when its
/// URL ends with a slash.
async fn not_listed(dav: &WebDavStorage, path: &str, error: Error) -> Error {
    match dav.look(path).await {
        Ok(Some(there)) if there.kind != FileKind::Directory => no_directory(dav, path),
        _ => error,
    }
}

fn no_directory(dav: &WebDavStorage, path: &str) -> Error {
    let place = dav.root.below(path, false);
    Error::new(ErrorKind::Invalid, format!("{place} is not a directory"))
}

/// Requests properties; `None` if the server does not support the method.
async fn propfind(
    dav: &WebDavStorage,
    path: &str,
    directory: bool,
    depth: &str,
    arriving: Option<UnboundedSender<Bytes>>,
) -> Result<Option<(HttpResponse, Vec<Resource>)>> {
    let bounds = PropfindLimits::default();
    let mut call = dav
        .request(b"PROPFIND", path, directory)
        .with("depth", depth)
        .with("content-type", propfind::CONTENT_TYPE)
        .with_content(RequestBody::Bytes(Bytes::from_static(propfind::body().as_bytes())));
    call.max_reply_bytes = bounds.max_bytes;
    call.arriving = arriving;
    let reply = dav.call(call).await?;
    match reply.status {
        StatusCode::MULTI_STATUS => {}
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            dav.learn(|names| names.lists = Some(false));
            return Ok(None);
        }
        _ => return Err(status_error::of_response(&reply, "PROPFIND")),
    }
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Protocol, format!("{}: {error}", reply.location))
    };
    let asked = reply.location.target().parse().map_err(|error| unreadable(&error))?;
    let resources =
        propfind::parse(&reply.body, &asked, &bounds).map_err(|error| unreadable(&error))?;
    if dav.names().lists.is_none() {
        dav.learn(|names| names.lists = Some(true));
    }
    Ok(Some((reply, resources)))
}

fn children(
    dav: &WebDavStorage,
    path: &str,
    reply: &HttpResponse,
    resources: Vec<Resource>,
) -> Result<Vec<DirEntry>> {
    let mut entries = Vec::with_capacity(resources.len());
    for resource in resources {
        let is_whole = resource.status.is_success() || !resource.path.is_empty();
        if !is_whole || resource.status == StatusCode::INSUFFICIENT_STORAGE {
            let what = format!(
                "{}: the list of names is not complete: the server says {} in it",
                reply.location, resource.status
            );
            return Err(Error::new(ErrorKind::Protocol, what));
        }
        if resource.path.is_empty() {
            if !resource.is_collection {
                return Err(no_directory(dav, path));
            }
        } else if resource.path.contains('/') {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "{}: the server lists an entry that is not directly inside: {:?}",
                    reply.location, resource.path
                ),
            ));
        } else if resource.status != StatusCode::NOT_FOUND {
            entries.push(entry(joined(path, &resource.path), resource));
        }
    }
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    entries.dedup_by(|a, b| a.path == b.path && a.kind == b.kind);
    Ok(entries)
}

pub(super) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

pub(super) fn entry(path: String, resource: Resource) -> DirEntry {
    let kind = match (resource.status.is_success(), resource.is_collection) {
        _ if !resource.is_utf8 => FileKind::Unnamed,
        (true, true) => FileKind::Directory,
        (true, false) => FileKind::File,
        // An entry that may not be accessed.
        (false, _) => FileKind::Other,
    };
    let file = kind == FileKind::File;
    DirEntry {
        path,
        kind,
        size: if file { resource.size } else { Some(0) },
        modified: resource.modified,
        validator: resource.etag.filter(|_| file),
    }
}

/// The metadata of a name, without PROPFIND. For a directory, the request ends with a slash.
async fn head(dav: &WebDavStorage, path: &str, directory: bool) -> Result<DirEntry> {
    let asked = dav.root.below(path, directory);
    let directory = DirEntry::new(path, FileKind::Directory, 0);
    if path.is_empty() {
        return Ok(directory);
    }
    let reply = dav.call(HttpRequest::new(Method::HEAD, asked)).await?;
    // A redirect to the same name with a slash means a directory, also one that is not shown.
    let slash = reply.location == dav.root.below(path, true);
    match reply.status {
        StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => {
            Err(status_error::of_response(&reply, "HEAD"))
        }
        status if slash && !status.is_server_error() => Ok(directory),
        StatusCode::OK => Ok(told_by(&reply.headers, path)),
        _ => Err(status_error::of_response(&reply, "HEAD")),
    }
}

fn told_by(headers: &HeaderMap, path: &str) -> DirEntry {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    DirEntry {
        path: path.to_owned(),
        kind: FileKind::File,
        // Servers that make a page for each request say 0 where they do not know.
        size: text(header::CONTENT_LENGTH)
            .and_then(|size| size.parse().ok())
            .filter(|size| *size > 0),
        modified: text(header::LAST_MODIFIED).and_then(|date| httpdate::parse_http_date(date).ok()),
        validator: text(header::ETAG).map(str::to_owned),
    }
}

/// Reads the directory index of the server.
async fn read_page(
    dav: &WebDavStorage,
    path: &str,
    arriving: Option<UnboundedSender<Bytes>>,
) -> Result<Vec<DirEntry>> {
    let mut call =
        HttpRequest::new(Method::GET, dav.root.below(path, true)).with("accept", "text/html");
    call.max_reply_bytes = PAGE_BYTES;
    call.arriving = arriving;
    let reply = dav.call(call).await?;
    let page = match reply.status {
        StatusCode::OK => autoindex::parse(&reply.headers, &reply.body),
        StatusCode::FORBIDDEN => None,
        _ => return Err(not_listed(dav, path, status_error::of_response(&reply, "GET")).await),
    };
    let Some(page) = page else {
        let error = Error::new(
            ErrorKind::Unsupported,
            format!(
                "{}: cannot list the directory: the server supports no PROPFIND and has no HTML index",
                reply.location
            ),
        );
        return Err(not_listed(dav, path, error).await);
    };
    if !autoindex::is_whole(&reply.body) {
        let what = format!("{}: the directory index breaks off: try again", reply.location);
        return Err(Error::new(ErrorKind::Protocol, what));
    }
    let known = page.into_iter().map(|AutoindexEntry { name, directory, size }| async move {
        let path = joined(path, &name);
        let kind = if directory { FileKind::Directory } else { FileKind::File };
        match size {
            Some(size) => Ok(DirEntry::new(path, kind, size)),
            None if directory => Ok(DirEntry::new(path, kind, 0)),
            None => head(dav, &path, false).await,
        }
    });
    stream::iter(known).buffered(AT_ONCE).try_collect().await
}
