//! PROPFIND (RFC 4918 section 9.1): what is known of a name, of those in a directory, or, within bounds, of all below it.

use crate::authorization::authorizer::Action;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::lot_charging::LotCharging;
use crate::backend::disk::metadata::{DiskMetadata, EntryKind};
use crate::backend::disk::properties;
use crate::backend::disk::properties::DeadProperties;
use crate::backend::path::MAX_DEPTH;
use crate::backend::path::href;
use crate::context::{ListingFilter, ServerContext};
use crate::http_error::HttpError;
use crate::iso_date;
use crate::method::streamed_listing::{ListingFormat, StreamedListing};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::body::{BlockBody, ResponseBody};
use hither_core::storage::join;
use hither_http::propfind::{
    CONTENT_TYPE, PropertyName, PropfindError, PropfindRequest, element, escape,
};
use http::{StatusCode, header};
use std::fmt::Write as _;
use std::io;
use std::time::SystemTime;

const DAV: &str = "DAV:";
/// What the server knows by itself, and tells without being asked for it by name.
const LIVE: [&str; 6] = [
    "resourcetype",
    "getcontentlength",
    "getlastmodified",
    "creationdate",
    "getetag",
    "getcontenttype",
];
/// What it tells when asked for it (RFC 4331).
const SPACE: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// How far down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Own,
    Children,
    All,
}

pub(crate) async fn handle(
    context: &ServerContext,
    request: ServerRequest,
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
    let view = context.listing_filter(&request);
    let ServerRequest { path: place, mut body, .. } = request;
    let most = context.limits().document_bytes;
    let body = body.collect(most).await?;
    let question = PropfindRequest::parse(&body, most).map_err(unreadable)?;
    let names = context.limits().names;
    let paths = context
        .disk
        .run(move |tree| {
            let meta = tree.meta(place.path())?;
            if place.is_directory() && meta.kind != EntryKind::Directory {
                return Err(HttpError::not_found());
            }
            paths(tree, place.path(), &meta, depth, names, &view)?.ok_or_else(|| too_many(names))
        })
        .await?;
    let answer =
        ServerResponse::empty(StatusCode::MULTI_STATUS).with(header::CONTENT_TYPE, CONTENT_TYPE);
    let form = Multistatus { question, space: context.space.clone() };
    let listing = StreamedListing::new(context.disk.tree(), form, paths);
    let body = ResponseBody::Supplied(BlockBody::new(Box::new(listing), None, &context.memory));
    Ok(ServerResponse { body, ..answer })
}

/// A body that asks for nothing.
pub(crate) fn unreadable(error: PropfindError) -> HttpError {
    let inner = std::error::Error::source(&error).map(|inner| format!(": {inner}"));
    HttpError::new(StatusCode::BAD_REQUEST, format!("{error}{}", inner.unwrap_or_default()))
}

fn too_many(most: usize) -> HttpError {
    let what = format!("the listing has more than {most} entries: request one directory at a time");
    HttpError::new(StatusCode::FORBIDDEN, what)
}

/// The names to tell of, of those that may be seen; none if they are more than `most`.
fn paths(
    tree: &ConfinedDir,
    path: &str,
    meta: &DiskMetadata,
    depth: Depth,
    most: usize,
    view: &ListingFilter,
) -> io::Result<Option<Vec<String>>> {
    let mut paths = vec![path.to_owned()];
    if meta.kind != EntryKind::Directory || depth == Depth::Own {
        return Ok(Some(paths));
    }
    let mut waiting = vec![(path.to_owned(), 0)];
    while let Some((directory, level)) = waiting.pop() {
        for name in tree.names(&directory, most)? {
            let path = join(&directory, &name);
            if !view.shows(&path) {
                continue;
            }
            // Links to directories are shown, and not gone into: they may lead in a circle.
            let deeper = depth == Depth::All
                && level < MAX_DEPTH
                && !tree.is_link(&path)?
                && tree.meta_below(&path).is_some_and(|meta| meta.kind == EntryKind::Directory);
            if deeper {
                waiting.push((path.clone(), level + 1));
            }
            if paths.len() > most {
                return Ok(None);
            }
            paths.push(path);
        }
    }
    Ok(Some(paths))
}

/// Whether a property is the server's own.
pub(crate) fn is_live(name: &PropertyName) -> bool {
    let local = name.local.as_str();
    name.namespace == DAV && (LIVE.contains(&local) || SPACE.contains(&local))
}

/// What an answer about several names begins with.
pub(crate) fn multistatus_head() -> String {
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n".to_owned()
}

#[derive(Debug)]
struct Multistatus {
    question: PropfindRequest,
    space: LotCharging,
}

// Writing to a String can't fail.
impl ListingFormat for Multistatus {
    fn head(&mut self, out: &mut String) {
        out.push_str(&multistatus_head());
    }

    fn name(&mut self, tree: &ConfinedDir, path: &str, meta: &DiskMetadata, out: &mut String) {
        let one = One { tree, space: &self.space, path, meta };
        let is_directory = meta.kind == EntryKind::Directory;
        let _ = write!(out, "<D:response><D:href>{}</D:href>", escape(&href(path, is_directory)));
        let mut missing = Vec::new();
        out.push_str("<D:propstat><D:prop>");
        match &self.question {
            PropfindRequest::All { include } => {
                for local in LIVE {
                    one.push_live(local, out);
                }
                for (name, value) in one.dead() {
                    out.push_str(&element(&name, &value));
                }
                for name in include.iter().filter(|name| SPACE.contains(&name.local.as_str())) {
                    one.push_live(&name.local, out);
                }
            }
            PropfindRequest::Names => {
                for local in LIVE.into_iter().filter(|local| one.live(local).is_some()) {
                    let _ = write!(out, "<D:{local}/>");
                }
                for name in one.dead().keys() {
                    out.push_str(&element(name, ""));
                }
            }
            PropfindRequest::These(names) => {
                let dead = match names.iter().all(is_live) {
                    true => DeadProperties::new(),
                    false => one.dead(),
                };
                for name in names {
                    let found = if is_live(name) {
                        one.push_live(&name.local, out)
                    } else if let Some(value) = dead.get(name) {
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

    fn end(&mut self, out: &mut String) {
        out.push_str("</D:multistatus>\n");
    }
}

/// One name that is told of.
struct One<'a> {
    tree: &'a ConfinedDir,
    space: &'a LotCharging,
    path: &'a str,
    meta: &'a DiskMetadata,
}

impl One<'_> {
    /// Bytes that are free and used: in its lot, or else where its files are.
    fn space(&self) -> Option<(u64, u64)> {
        self.space.quota(self.path).or_else(|| self.tree.space(self.path).ok())
    }

    /// Writes a property of the server's own; tells whether there is one.
    fn push_live(&self, local: &str, out: &mut String) -> bool {
        let Some(value) = self.live(local) else { return false };
        let _ = match value.is_empty() {
            true => write!(out, "<D:{local}/>"),
            false => write!(out, "<D:{local}>{value}</D:{local}>"),
        };
        true
    }

    /// What is in the element of one.
    fn live(&self, local: &str) -> Option<String> {
        let is_file = self.meta.kind == EntryKind::File;
        match local {
            "resourcetype" if is_file => Some(String::new()),
            "resourcetype" => Some("<D:collection/>".to_owned()),
            "getcontentlength" => is_file.then(|| self.meta.size.to_string()),
            "getlastmodified" => Some(httpdate::fmt_http_date(self.meta.modified)),
            "creationdate" => self.meta.created.map(iso_date::format),
            "getetag" => is_file.then(|| escape(&self.meta.version(SystemTime::now()).etag)),
            "getcontenttype" => {
                is_file.then(|| crate::method::get::media_type(self.path).to_owned())
            }
            "quota-available-bytes" => self.space().map(|space| space.0.to_string()),
            "quota-used-bytes" => self.space().map(|space| space.1.to_string()),
            _ => None,
        }
    }

    /// Those that clients gave it.
    fn dead(&self) -> DeadProperties {
        self.tree.find(self.path).map(|found| properties::read(&found.file)).unwrap_or_default()
    }
}
