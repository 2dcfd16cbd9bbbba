//! PROPFIND (RFC 4918 section 9.1): the properties of an entry, of the entries of a directory, or,
//! up to a maximum number, of everything below it.
//!
//! A short request for everything below a directory costs the server much work and memory. So it is
//! refused as the RFC describes, unless `limits.infinite_depth` allows it.

use crate::authorization::authorizer::Action;
use crate::backend::path::{MAX_DEPTH, href};
use crate::backend::{Backend, Details, DirectoryListing, EntryDescription};
use crate::context::{ServerContext, TreeFilter};
use crate::http_error::HttpError;
use crate::method::get::media_type;
use crate::method::streamed_listing::{self, ListingFormat, PathList, below};
use crate::method::tree::upload::announce_trees;
use crate::request::ServerRequest;
use crate::response::{ServerResponse, rfc3339};
use hither_core::storage::{FileKind, join};
use hither_http::date::http_date;
use hither_http::propfind::{
    CONTENT_TYPE, HIDES_NAMES, PropertyName, PropfindError, PropfindRequest, element, escape,
};
use http::{StatusCode, header};
use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

const DAV: &str = "DAV:";
/// The live properties that every listing has.
const LIVE: [&str; 6] = [
    "resourcetype",
    "getcontentlength",
    "getlastmodified",
    "creationdate",
    "getetag",
    "getcontenttype",
];
/// The live properties that only a request by name gets (RFC 4331).
const SPACE: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// The field `Depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Own,
    Children,
    All,
}

pub(crate) async fn handle(
    context: &ServerContext,
    mut request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    context.authorize(&request, &request.path, Action::Read)?;
    let depth = match request.text("depth") {
        Some("0") => Depth::Own,
        Some("1") => Depth::Children,
        None => Depth::All,
        Some(text) if text.eq_ignore_ascii_case("infinity") => Depth::All,
        Some(_) => {
            let what = "Depth must be 0, 1 or infinity";
            return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
        }
    };
    let limits = context.limits();
    let document = request.body.collect(limits.document_bytes).await?;
    let properties =
        PropfindRequest::parse(&document, limits.document_bytes).map_err(unreadable)?;
    let path = &request.path;
    let metadata = context.follow(&request, path.path(), Backend::stat).await?;
    if path.is_directory() && !metadata.is_directory() {
        return Err(HttpError::not_found());
    }
    let depth = if metadata.is_directory() { depth } else { Depth::Own };
    if depth == Depth::All && !limits.infinite_depth {
        return Ok(finite_depth_only());
    }
    let filter = context.tree_filter(&request);
    let (paths, hides_names) = paths(context, &request, depth, limits.names, &filter).await?;
    let format = Multistatus { request: properties };
    let timings = &request.body.tally;
    let body = streamed_listing::body(&context.backend, format, paths, filter, timings);
    let mut response = ServerResponse::empty(StatusCode::MULTI_STATUS);
    response.set(header::CONTENT_TYPE, CONTENT_TYPE);
    if metadata.is_directory() {
        announce_trees(context, &mut response);
    }
    if hides_names {
        response.set(HIDES_NAMES, "true");
    }
    Ok(ServerResponse { body, ..response })
}

/// The error for a body that is not a valid document.
pub(crate) fn unreadable(error: PropfindError) -> HttpError {
    let inner = std::error::Error::source(&error).map(|inner| format!(": {inner}"));
    HttpError::new(StatusCode::BAD_REQUEST, format!("{error}{}", inner.unwrap_or_default()))
}

/// The response to a request of infinite depth: a precondition code (RFC 4918 section 16).
fn finite_depth_only() -> ServerResponse {
    let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
                <D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
    ServerResponse::text(StatusCode::FORBIDDEN, CONTENT_TYPE, text.to_owned())
        .with(header::CACHE_CONTROL, "no-store")
}

fn too_many(max: usize) -> HttpError {
    let what = format!("the listing has more than {max} entries: request one directory at a time");
    HttpError::new(StatusCode::FORBIDDEN, what)
}

/// Fills the list of paths, without those that the client may not see, and returns true if some may
/// be hidden. Fails if there are more than `max`.
async fn paths(
    context: &ServerContext,
    request: &ServerRequest,
    depth: Depth,
    max: usize,
    filter: &TreeFilter,
) -> Result<(PathList, bool), HttpError> {
    let root = request.path.path();
    let mut hides_names = false;
    let mut paths = PathList::new(root, &request.peer.memory);
    paths.push("", 0)?;
    if depth == Depth::Own {
        return Ok((paths, hides_names));
    }
    let mut waiting = vec![(String::new(), 0)];
    // The memory of the directories that wait, or have waited.
    let mut waiting_bytes = 0;
    while let Some((directory, level)) = waiting.pop() {
        let path = below(root, &directory);
        let listing = context.follow(request, &path, |files, path| files.list(path, max)).await?;
        let DirectoryListing { entries, hides_names: hides_some } = listing;
        hides_names |= hides_some;
        if entries.len() > max {
            return Err(too_many(max));
        }
        for entry in entries {
            tokio::task::consume_budget().await;
            let path = join(&directory, &entry.name);
            if !filter.shows(&join(root, &path)) {
                continue;
            }
            if paths.count() > max {
                return Err(too_many(max));
            }
            if let Some(why) = entry.refusal {
                paths.push_refused(&below(root, &directory), (&entry, why), waiting_bytes)?;
                continue;
            }
            paths.push(&path, waiting_bytes)?;
            // Links to directories are listed, and not followed: they may lead in a circle.
            if depth == Depth::All && level < MAX_DEPTH && entry.is_directory {
                waiting_bytes += path.len() + size_of::<(String, usize)>();
                waiting.push((path, level + 1));
            }
        }
    }
    Ok((paths, hides_names))
}

/// Returns true if the server maintains this property.
pub(crate) fn is_live(name: &PropertyName) -> bool {
    let local = name.local.as_str();
    name.namespace == DAV && (LIVE.contains(&local) || SPACE.contains(&local))
}

/// The beginning of a multistatus document.
pub(crate) fn multistatus_head() -> String {
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n".to_owned()
}

#[derive(Debug)]
struct Multistatus {
    request: PropfindRequest,
}

// Writing to a String cannot fail.
impl ListingFormat for Multistatus {
    fn details(&self) -> Details {
        let is_space = |name: &PropertyName| SPACE.contains(&name.local.as_str());
        let (properties, space) = match &self.request {
            PropfindRequest::All { include } => (true, include.iter().any(is_space)),
            PropfindRequest::Names => (true, false),
            PropfindRequest::These(names) => {
                (!names.iter().all(is_live), names.iter().any(is_space))
            }
        };
        Details { checksums: &[], properties, space }
    }

    fn head(&mut self, out: &mut String) {
        out.push_str(&multistatus_head());
    }

    fn entry(&mut self, path: &str, entry: &EntryDescription, out: &mut String) {
        let one = Resource { path, entry };
        let href = href(path, entry.metadata.is_directory());
        let _ = write!(out, "<D:response><D:href>{}</D:href>", escape(&href));
        let mut missing = Vec::new();
        out.push_str("<D:propstat><D:prop>");
        match &self.request {
            PropfindRequest::All { include } => {
                for local in LIVE {
                    one.push_live(local, out);
                }
                for (name, value) in &entry.properties {
                    out.push_str(&element(name, value));
                }
                for name in include.iter().filter(|name| SPACE.contains(&name.local.as_str())) {
                    one.push_live(&name.local, out);
                }
            }
            PropfindRequest::Names => {
                for local in LIVE.into_iter().filter(|local| one.live(local).is_some()) {
                    let _ = write!(out, "<D:{local}/>");
                }
                for name in entry.properties.keys() {
                    out.push_str(&element(name, ""));
                }
            }
            PropfindRequest::These(names) => {
                for name in names {
                    let found = if is_live(name) {
                        one.push_live(&name.local, out)
                    } else if let Some(value) = entry.properties.get(name) {
                        out.push_str(&element(name, value));
                        true
                    } else {
                        false
                    };
                    if !found {
                        missing.push(name);
                    }
                }
            }
        }
        out.push_str("</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>");
        if !missing.is_empty() {
            out.push_str("<D:propstat><D:prop>");
            for name in missing {
                out.push_str(&element(name, ""));
            }
            out.push_str("</D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>");
        }
        out.push_str("</D:response>\n");
    }

    fn refused(&mut self, url: &str, error: &HttpError, out: &mut String) {
        let _ = writeln!(
            out,
            "<D:response><D:href>{}</D:href><D:status>HTTP/1.1 {}</D:status>\
             <D:responsedescription>{}</D:responsedescription></D:response>",
            escape(url),
            error.status,
            escape(&error.what)
        );
    }

    fn end(&mut self, out: &mut String) {
        out.push_str("</D:multistatus>\n");
    }
}

/// A file or directory in a response.
struct Resource<'a> {
    path: &'a str,
    entry: &'a EntryDescription,
}

impl Resource<'_> {
    /// Writes a live property; returns false if the resource does not have it.
    fn push_live(&self, local: &str, out: &mut String) -> bool {
        let Some(value) = self.live(local) else { return false };
        let _ = if value.is_empty() {
            write!(out, "<D:{local}/>")
        } else {
            write!(out, "<D:{local}>{value}</D:{local}>")
        };
        true
    }

    /// The value of a live property, as XML.
    fn live(&self, local: &str) -> Option<String> {
        let EntryDescription { metadata, space, .. } = self.entry;
        let is_file = metadata.kind == FileKind::File;
        // For entries on other servers neither tag nor time may be known.
        let is_elsewhere = metadata.version.etag.is_empty();
        match local {
            "resourcetype" if is_file => Some(String::new()),
            "resourcetype" => Some("<D:collection/>".to_owned()),
            "getcontentlength" => metadata.size.filter(|_| is_file).map(|size| size.to_string()),
            "getlastmodified" if is_elsewhere && metadata.version.modified == UNIX_EPOCH => None,
            "getlastmodified" => http_date(metadata.version.modified),
            "creationdate" => metadata.created.and_then(rfc3339),
            "getetag" if is_elsewhere => None,
            "getetag" => is_file.then(|| escape(&metadata.version.etag)),
            "getcontenttype" => is_file.then(|| media_type(self.path).to_owned()),
            "quota-available-bytes" => space.map(|space| space.available.to_string()),
            // Clients take it for the size of a file.
            "quota-used-bytes" if is_file => None,
            "quota-used-bytes" => space.map(|space| space.used.to_string()),
            _ => None,
        }
    }
}
