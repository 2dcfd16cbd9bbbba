//! Metadata and listings by PROPFIND, HEAD and directory indexes.
//!
//! `children` judges whether the response of a PROPFIND lists all names of a directory: what it
//! does not list is a gap of the [`Listing`].

use super::index_listing::{next_page, page_url, read_page};
use super::session::WebDavSession;
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::properties;
use crate::http::request;
use crate::http::source::HttpSource;
use crate::http::status_error;
use crate::location::Location;
use crate::webdav::arriving::{ArrivingListing, entry};
use bytes::Bytes;
use futures_core::stream::BoxStream;
use futures_util::stream;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, Listing, is_page, join, parent};
use hither_core::sync::lock;
use hither_core::{Request, Source, is_entity_tag};
use hither_http::date::modification_time;
use hither_http::propfind::{HIDES_NAMES, Resource};
use http::{HeaderMap, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// The reason why a response with [`HIDES_NAMES`] does not prove that a name is absent.
const HIDDEN_BEHIND: &str = "a server of the federation lists directories by HTML indexes, which \
                             may hide names, such as those that begin with a dot";

/// The length at which XrdHttp cuts names (measured: 5.5.3).
const MIN_CUT_BYTES: usize = 254;

impl WebDavSession {
    /// The entry of a name; `None` if there is none.
    pub(super) async fn look(&self, path: &str) -> Result<Option<DirEntry>> {
        self.look_for(path, self.is_known_directory(path)).await
    }

    /// As [`Self::look`]; for a directory, the request ends with a slash.
    pub(super) async fn look_for(&self, path: &str, directory: bool) -> Result<Option<DirEntry>> {
        match stat_as(self, path, directory).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The metadata of a name.
pub(super) async fn stat(dav: &WebDavSession, path: &str) -> Result<DirEntry> {
    stat_as(dav, path, dav.is_known_directory(path)).await
}

/// The metadata of a name. For a directory, requests end with a slash.
pub(super) async fn stat_as(dav: &WebDavSession, path: &str, directory: bool) -> Result<DirEntry> {
    let was_refused = dav.refusals.any();
    if let Some(entry) = supported_properties(dav, path, directory).await? {
        return Ok(entry);
    }
    match head(dav, path, directory).await {
        Ok(entry) => {
            if !was_refused {
                dav.refusals.add(parent(path));
            }
            Ok(entry)
        }
        // The server may refuse PROPFIND only in other directories.
        Err(error) if was_refused && error.concerns_name() && !dav.refusals.has(parent(path)) => {
            properties(dav, path, directory).await?.ok_or(error)
        }
        failed => failed,
    }
}

/// The metadata of a name, with its size.
pub(super) async fn sized(dav: &WebDavSession, path: &str) -> Result<DirEntry> {
    with_size(dav, stat(dav, path).await?).await
}

/// The entry with its size. If the server has not stated the size of a file, it is requested by a
/// GET of its first byte.
pub(super) async fn with_size(dav: &WebDavSession, mut entry: DirEntry) -> Result<DirEntry> {
    if entry.kind == FileKind::File && entry.size.is_none() {
        let place = dav.root.below(&entry.path, false);
        let source = HttpSource::new(place, Arc::clone(&dav.network));
        let first = 0..1;
        let refuses_pages = !is_page(&entry.path);
        let request = Request { ranges: vec![first], refuses_pages, ..Request::default() };
        entry.size = source.fetch(request, Box::new(drop)).await?.size;
    }
    Ok(entry)
}

/// The metadata of a name by PROPFIND; `None` if the server does not support it, or has refused it
/// before.
pub(super) async fn supported_properties(
    dav: &WebDavSession,
    path: &str,
    directory: bool,
) -> Result<Option<DirEntry>> {
    if dav.refusals.any() { Ok(None) } else { properties(dav, path, directory).await }
}

async fn properties(dav: &WebDavSession, path: &str, directory: bool) -> Result<Option<DirEntry>> {
    let answer = propfind(dav, path, directory || path.is_empty(), "0", None).await?;
    let Propfind::Listed(reply, resources) = answer else { return Ok(None) };
    let found = resources.into_iter().find(|resource| resource.path.is_empty());
    let found = found.filter(|resource| resource.status != StatusCode::NOT_FOUND);
    if let Some(status) = found.as_ref().map(|own| own.status).filter(|own| !own.is_success()) {
        return Err(status_error::of_status(status, &reply.location.to_string(), "", None));
    }
    found.map(|own| Some(entry(path.to_owned(), own))).ok_or_else(|| dav.missing(path))
}

/// The entries of a directory, sorted.
pub(super) async fn list(dav: &WebDavSession, path: &str) -> Result<Listing> {
    list_to(dav, path, None).await
}

/// The entries of a directory as they arrive.
pub(super) fn list_batches<'a>(
    dav: &'a WebDavSession,
    path: &'a str,
) -> BoxStream<'a, Result<Listing>> {
    let page = page_url(&dav.root.below(path, true));
    let target = dav.root.below(path, true).target();
    let arriving = Arc::new(Mutex::new(ArrivingListing::new(path, &target, page)));
    let (sender, chunks) = unbounded_channel();
    let whole = Arc::clone(&arriving);
    // A separate task continues reading while the consumer of the entries waits for files to be
    // fetched, for which this may be the only connection. Dropping the set ends it.
    let mut reading = JoinSet::new();
    let dav = dav.clone();
    let path = path.to_owned();
    let runtime = dav.network.runtime().clone();
    reading.spawn_on(async move { list_to(&dav, &path, Some(sender)).await }, &runtime);
    let answered = async move {
        let listing = reading.join_next().await.and_then(Result::ok).unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Local, "the task that reads a listing panicked"))
        })?;
        let entries = lock(&whole).rest(listing.entries);
        Ok(Listing { entries, ..listing })
    };
    let arrived = stream::unfold(chunks, move |mut chunks| {
        let arriving = Arc::clone(&arriving);
        async move {
            let bytes: Bytes = chunks.recv().await?;
            Some((Ok(Listing::from(lock(&arriving).add(&bytes))), chunks))
        }
    });
    Box::pin(stream::select(arrived, stream::once(answered)))
}

/// The entries of a directory, sorted. The receiver gets the body of its listing as it arrives.
async fn list_to(
    dav: &WebDavSession,
    path: &str,
    arriving: Option<UnboundedSender<Bytes>>,
) -> Result<Listing> {
    let was_refused = dav.refusals.any();
    let mut refusal = None;
    if !was_refused {
        match propfind(dav, path, true, "1", arriving.clone()).await {
            Ok(Propfind::Listed(reply, resources)) => {
                return children(dav, path, &reply, resources);
            }
            // The next method is tried.
            Ok(Propfind::Refused(error)) => refusal = Some(error),
            Err(error) => return Err(not_listed(dav, path, error).await),
        }
    }
    let error = match read_page(dav, path, arriving).await {
        Ok(listing) => {
            if !was_refused {
                dav.refusals.add(path);
            }
            return Ok(listing);
        }
        Err(error) => error,
    };
    // The server may refuse PROPFIND only in other directories.
    if was_refused
        && error.concerns_name()
        && !dav.refusals.has(path)
        && let Propfind::Listed(reply, resources) = propfind(dav, path, true, "1", None).await?
    {
        return children(dav, path, &reply, resources);
    }
    let has_no_index = error.kind() == ErrorKind::Unsupported;
    Err(refusal.filter(|it| has_no_index && it.kind() != ErrorKind::Unsupported).unwrap_or(error))
}

/// Fails unless a directory is certainly empty: DELETE also removes its content.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] if it has contents, or may have; [`ErrorKind::Unsupported`] if no
/// contents are listed, and the server does not list everything.
pub(super) async fn check_empty(dav: &WebDavSession, path: &str) -> Result<()> {
    let listing = list(dav, path).await?;
    let refused = |kind, why: &str| {
        let place = dav.root.below(path, true);
        Error::new(kind, format!("cannot remove {place}: {why}"))
    };
    if !listing.entries.is_empty() || !listing.failed.is_empty() {
        return Err(refused(ErrorKind::Invalid, "it is not empty"));
    }
    if let Some(gap) = listing.gaps.into_iter().next() {
        return Err(refused(ErrorKind::Invalid, "it may not be empty").with_source(gap));
    }
    listing.hidden.map_or(Ok(()), |why| Err(refused(ErrorKind::Unsupported, why)))
}

/// The error for a directory that cannot be listed. A server may report a file as missing when its
/// URL ends with a slash.
pub(super) async fn not_listed(dav: &WebDavSession, path: &str, error: Error) -> Error {
    match dav.look(path).await {
        Ok(Some(there)) if there.kind != FileKind::Directory => no_directory(dav, path),
        _ => error,
    }
}

fn no_directory(dav: &WebDavSession, path: &str) -> Error {
    let place = dav.root.below(path, false);
    Error::new(ErrorKind::Invalid, format!("{place} is not a directory"))
}

/// The response to a PROPFIND.
enum Propfind {
    Listed(Box<HttpResponse>, Vec<Resource>),
    /// The server does not support the method there, or its error may mean that: other methods may
    /// show the same.
    Refused(Error),
}

/// Requests properties.
async fn propfind(
    dav: &WebDavSession,
    path: &str,
    directory: bool,
    depth: &str,
    arriving: Option<UnboundedSender<Bytes>>,
) -> Result<Propfind> {
    let mut call = properties::request(dav.root.below(path, directory), depth);
    call.arriving = arriving;
    let reply = dav.call(call).await?;
    if reply.status != StatusCode::MULTI_STATUS {
        let error = status_error::of_response(&reply, "PROPFIND");
        return match reply.status {
            status if status_error::lacks_method(status) => {
                dav.refusals.add(if directory { path } else { parent(path) });
                Ok(Propfind::Refused(error))
            }
            status if is_inconclusive(status, dav.names().lists == Some(true)) => {
                Ok(Propfind::Refused(error))
            }
            _ => Err(error),
        };
    }
    let resources = properties::resources(&reply)?;
    if dav.names().lists != Some(true) {
        dav.learn(|names| names.lists = Some(true));
    }
    Ok(Propfind::Listed(Box::new(reply), resources))
}

/// Returns true for a response after which other methods may show what PROPFIND did not. If the
/// server is known to support PROPFIND, its errors are final.
fn is_inconclusive(status: StatusCode, has_propfind: bool) -> bool {
    // The request may succeed later, or with credentials.
    let is_later = status == StatusCode::UNAUTHORIZED || status_error::is_temporary(status);
    !has_propfind && !is_later
}

fn children(
    dav: &WebDavSession,
    path: &str,
    reply: &HttpResponse,
    mut resources: Vec<Resource>,
) -> Result<Listing> {
    let gap = |why: String| {
        let what = format!("{}: the list of names is not complete: {why}", reply.location);
        Error::new(ErrorKind::Protocol, what)
    };
    let hidden = reply.headers.contains_key(HIDES_NAMES).then_some(HIDDEN_BEHIND);
    let mut listing = Listing { hidden, ..Listing::default() };
    let mut is_listed = false;
    let elsewhere = is_elsewhere(path, &reply.location)
        .then(|| format!("{} led there", dav.root.below(path, true)));
    listing.gaps.extend(elsewhere.into_iter().chain(next_page(&reply.headers)).map(gap));
    resources.sort_unstable_by(|a, b| (&a.path, &a.href).cmp(&(&b.path, &b.href)));
    if let Some([one, next]) = resources.windows(2).find(|two| may_be_two_names(two)) {
        let why = format!("it has {:?} and {:?}, which would be one name", one.href, next.href);
        listing.gaps.push(gap(why));
    }
    for resource in resources {
        let is_success = resource.status.is_success();
        is_listed |= resource.path.is_empty();
        // 507 means that the server had no space for more entries, whatever name it is attached to.
        let is_cut = resource.status == StatusCode::INSUFFICIENT_STORAGE;
        if is_cut || resource.path.is_empty() && !is_success {
            listing.gaps.push(gap(format!("the server says {} in it", resource.status)));
        } else if resource.path.is_empty() {
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
        } else if is_success || !resource.is_utf8 {
            listing.entries.push(entry(join(path, &resource.path), resource));
        } else {
            let below = join(path, &resource.path);
            let name = dav.root.below(&below, false).to_string();
            let error = status_error::of_status(resource.status, &name, "", None);
            listing.failed.push((below, error));
        }
    }
    if !is_listed {
        listing.gaps.push(gap("the server does not list the directory itself".to_owned()));
    }
    // They are sorted, as the responses are.
    listing.entries.dedup_by(|a, b| a.path == b.path && a.kind == b.kind);
    Ok(listing)
}

/// Returns true for two entries of one path that may be two names of the server: it encodes
/// nothing (`a%41` and `aA`), or cuts names, as XrdHttp does. One entry twice, as a proxy may list
/// the files of several servers, is one name unless it may have been cut.
fn may_be_two_names(two: &[Resource]) -> bool {
    let [one, next] = two else { return false };
    let is_one = one == next && one.path.len() < MIN_CUT_BYTES;
    one.path == next.path && !one.path.is_empty() && one.is_utf8 && !is_one
}

/// Returns true if a request for a directory below the named one was redirected to another name:
/// then the listing is not that of the directory.
pub(super) fn is_elsewhere(path: &str, location: &Location) -> bool {
    let own = format!("/{path}");
    !path.is_empty() && !location.plain_path().trim_end_matches('/').ends_with(&own)
}

/// The metadata of a name, without PROPFIND. For a directory, the request ends with a slash.
pub(super) async fn head(dav: &WebDavSession, path: &str, directory: bool) -> Result<DirEntry> {
    let has_no_propfind = dav.refusals.any();
    let is_guess = directory && !dav.is_known_directory(path);
    let url = dav.root.below(path, directory || path.is_empty());
    let directory = DirEntry::new(path, FileKind::Directory, 0);
    if path.is_empty() && has_no_propfind {
        return Ok(directory);
    }
    let reply = dav.call(HttpRequest::new(Method::HEAD, url.clone())).await?;
    // A redirect to the same name with a slash means a directory, also one that is not shown; after
    // a guess only 403 does. A server behind another port, or a proxy, names the one that it knows.
    let slash = is_same_path(&reply.location, &dav.root.below(path, true));
    let is_hidden =
        reply.status == StatusCode::FORBIDDEN || !is_guess && !reply.status.is_server_error();
    match reply.status {
        StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => {
            Err(status_error::of_response(&reply, "HEAD"))
        }
        status if slash && (status.is_success() || has_no_propfind && is_hidden) => Ok(directory),
        StatusCode::OK
            if request::is_html(&reply.headers) && (reply.location != url || !is_page(path)) =>
        {
            // A page, such as a login page, proves nothing about the file.
            Ok(DirEntry { size: None, ..DirEntry::new(path, FileKind::File, 0) })
        }
        StatusCode::OK => Ok(entry_of_headers(&reply.headers, path)),
        _ => Err(status_error::of_response(&reply, "HEAD")),
    }
}

/// Returns true for two URLs of one path, however it is encoded.
fn is_same_path(one: &Location, other: &Location) -> bool {
    percent_decode_str(&one.target()).eq(percent_decode_str(&other.target()))
}

fn entry_of_headers(headers: &HeaderMap, path: &str) -> DirEntry {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    DirEntry {
        path: path.to_owned(),
        kind: FileKind::File,
        // Servers that generate a page for each request state 0 where they do not know the size.
        size: text(header::CONTENT_LENGTH)
            .and_then(|size| size.parse().ok())
            .filter(|size| *size > 0),
        modified: text(header::LAST_MODIFIED).and_then(modification_time),
        validator: text(header::ETAG).filter(|tag| is_entity_tag(tag)).map(str::to_owned),
    }
}
