//! Listings by directory indexes.

use super::autoindex::{self, AutoindexEntry, PageUrl};
use super::listing::{head, is_elsewhere, not_listed};
use super::session::WebDavSession;
use crate::http::call::HttpRequest;
use crate::http::status_error;
use crate::location::Location;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, Listing, join};
use hither_http::metalink::has_next_page;
use http::{HeaderMap, Method, StatusCode, header};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc::UnboundedSender;
use tracing::debug;

/// Parallel requests for the sizes of a listing.
const AT_ONCE: usize = 16;
/// The maximum size of a directory index in bytes.
const PAGE_BYTES: usize = 32 << 20;

/// The reason why a directory index does not prove that a name is absent.
const HIDDEN: &str = "the server lists directories by HTML indexes, which may hide names, such as \
                      those that begin with a dot";

/// The URL of a page for the parser of directory indexes.
pub(super) fn page_url(location: &Location) -> PageUrl {
    PageUrl::new(location.host(), &location.target())
}

/// Reads the directory index of the server.
pub(super) async fn read_page(
    dav: &WebDavSession,
    path: &str,
    arriving: Option<UnboundedSender<Bytes>>,
) -> Result<Listing> {
    let mut call =
        HttpRequest::new(Method::GET, dav.root.below(path, true)).with("accept", "text/html");
    call.max_reply_bytes = PAGE_BYTES;
    call.arriving = arriving;
    let reply = dav.call(call).await?;
    let page = match reply.status {
        StatusCode::OK => autoindex::parse(&reply.headers, &reply.body, &page_url(&reply.location)),
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
    let framed = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    let is_end_known = framed.iter().any(|field| reply.headers.contains_key(field));
    if !autoindex::is_whole(&reply.body, is_end_known) {
        let what = format!("{}: the directory index breaks off: try again", reply.location);
        return Err(Error::new(ErrorKind::Protocol, what));
    }
    let is_slow = AtomicBool::new(false);
    let known = page.entries.into_iter().map(|found| of_page(dav, path, found, &is_slow));
    let mut entries: Vec<_> = stream::iter(known).buffered(AT_ONCE).collect().await;
    entries.sort_unstable_by(|a: &DirEntry, b| a.path.cmp(&b.path));
    let gap = |what| Error::new(ErrorKind::Protocol, format!("{}: {what}", reply.location));
    let elsewhere = is_elsewhere(path, &reply.location)
        .then(|| format!("{} led there, which is another directory", dav.root.below(path, true)));
    let others = elsewhere.into_iter().chain(next_page(&reply.headers));
    let gaps = page.gaps.into_iter().chain(others).map(gap).collect();
    Ok(Listing { entries, gaps, hidden: Some(HIDDEN), ..Listing::default() })
}

/// The gap of a listing whose response has a link to a next page.
pub(super) fn next_page(headers: &HeaderMap) -> Option<String> {
    has_next_page(headers).then(|| "a Link field of the response leads to a next page".to_owned())
}

/// The entry of a name in a directory index. Its size is requested if the page does not state it
/// exactly. If that fails, the entry stays as the page states it. Once such a request has timed out
/// (`is_slow`), no more are sent.
async fn of_page(
    dav: &WebDavSession,
    path: &str,
    found: AutoindexEntry,
    is_slow: &AtomicBool,
) -> DirEntry {
    let AutoindexEntry { name, is_utf8, directory, size } = found;
    let path = join(path, &name);
    let kind = if directory { FileKind::Directory } else { FileKind::File };
    let size = if directory { Some(0) } else { size };
    let unasked = DirEntry { size, ..DirEntry::new(path, kind, 0) };
    if !is_utf8 {
        return unasked.into_unnamed();
    }
    if size.is_some() || is_slow.load(Ordering::Relaxed) {
        return unasked;
    }
    match head(dav, &unasked.path, false).await {
        Ok(entry) => entry,
        Err(error) => {
            if error.kind() == ErrorKind::Timeout {
                is_slow.store(true, Ordering::Relaxed);
            }
            debug!(name = unasked.path, %error, "an entry of a directory index cannot be looked at");
            unasked
        }
    }
}
