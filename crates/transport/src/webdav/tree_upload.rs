//! Uploads of many small files in one POST, to a server that offers that; [`hither_http::tree`] has
//! the format.
//!
//! The results are checked before they are returned: they must be those of the sent files, in their
//! order. A server that stops early returns the results of the earlier files, also with an error
//! status.

use super::session::WebDavSession;
use super::tree::directory_entry;
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request_body::RequestBody;
use crate::http::{request, status_error};
use crate::location::Location;
use bytes::Bytes;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{FileKind, StoredEntry, TreeUpload};
use hither_http::tree::{
    MAX_RESULT_BYTES, TREE_TYPE, TreeEntry, TreeReader, TreeRecord, TreeWriter, check_path, is_tree,
};
use http::{Method, StatusCode};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Display;
use tracing::debug;

/// A file or directory of an upload, without its bytes.
struct Sent {
    path: String,
    kind: FileKind,
    size: u64,
    /// The error of one that cannot be sent.
    error: Option<Error>,
}

/// Sends files; none if the server does not take uploads of trees.
pub(super) async fn put(
    dav: &WebDavSession,
    directory: &str,
    files: Vec<TreeUpload>,
) -> Result<Option<Vec<Result<StoredEntry>>>> {
    if dav.names().tree_uploads != Some(true) {
        return Ok(None);
    }
    let location = dav.root.below(directory, true);
    let (body, sent) = encode(&location, files);
    let call = HttpRequest {
        max_reply_bytes: (sent.len() + 1) * MAX_RESULT_BYTES,
        ..HttpRequest::new(Method::POST, location.clone())
            .with("content-type", TREE_TYPE)
            .with_content(RequestBody::Bytes(Bytes::from(body)))
    };
    let reply = dav.call(call).await?;
    if is_tree(&reply.headers) {
        return results(dav, &location, directory, &reply, sent).map(Some);
    }
    if reply.status == StatusCode::NOT_FOUND || status_error::is_unsupported(reply.status) {
        let status = reply.status.as_u16();
        debug!(url = %location, status, "the server rejects uploads of trees");
        dav.learn(|names| names.tree_uploads = Some(false));
        return Ok(None);
    }
    Err(status_error::of_response(&reply, "POST"))
}

/// The body of an upload, and what is in it. Contents are dropped one by one.
fn encode(location: &Location, files: Vec<TreeUpload>) -> (Vec<u8>, VecDeque<Sent>) {
    let bytes: usize = files.iter().filter_map(|file| file.content.as_ref().map(Bytes::len)).sum();
    let mut body = Vec::with_capacity(bytes + files.len() * 128);
    let mut writer = TreeWriter::default();
    let mut sent = VecDeque::with_capacity(files.len());
    for TreeUpload { relative: path, content, modified, mode, overwrite } in files {
        let kind = if content.is_some() { FileKind::File } else { FileKind::Directory };
        let size = content.as_ref().map_or(0, |content| content.len() as u64);
        let only_new = content.is_some() && !overwrite;
        let entry = TreeEntry { path, size, modified, mode, only_new, ..TreeEntry::default() };
        let fits = check_path(&entry.path)
            && content.is_none_or(|content| {
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&content);
                    Ok::<_, Infallible>(())
                };
                writer.content(&entry, &mut body, write).is_ok()
            });
        let path = entry.path.clone();
        let error = (!fits).then(|| {
            let what = format!("{location}{path}: the path or the file is too long for an upload");
            Error::new(ErrorKind::Invalid, what)
        });
        if fits && kind == FileKind::Directory {
            writer.directory(&entry, &mut body);
        }
        sent.push_back(Sent { path, kind, size, error });
    }
    writer.end(&mut body);
    (body, sent)
}

/// The results of the files that were sent; fewer if the server stopped early.
fn results(
    dav: &WebDavSession,
    location: &Location,
    directory: &str,
    reply: &HttpResponse,
    mut sent: VecDeque<Sent>,
) -> Result<Vec<Result<StoredEntry>>> {
    let unexpected =
        |what: &dyn Display| Error::new(ErrorKind::Protocol, format!("{location}: {what}"));
    let pool = dav.network.pool(location);
    let mut reader = TreeReader::default();
    let mut body = reply.body.clone();
    let mut results = Vec::with_capacity(sent.len());
    loop {
        while let Some(error) = sent.front_mut().and_then(|sent| sent.error.take()) {
            sent.pop_front();
            results.push(Err(error));
        }
        let Some(record) = reader.next(&mut body).map_err(|error| unexpected(&error))? else {
            break;
        };
        let next =
            sent.pop_front().ok_or_else(|| unexpected(&"results of more files than were sent"))?;
        let (path, result) = match record {
            TreeRecord::Stored(entry) if entry.size == next.size => {
                let path = entry.path.clone();
                let is_new = !entry.replaced;
                let entry = directory_entry(directory, entry, next.kind);
                (path, Ok(StoredEntry { entry, is_new }))
            }
            TreeRecord::Failed { path, status, reason } => {
                let status =
                    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let method = if next.kind == FileKind::File { "PUT" } else { "MKCOL" };
                let name = format!("{location}{path}");
                let reason = request::quoted_reason(&reason, location, &pool);
                let error = status_error::of_change(status, method, &name, &reason, None);
                (path, Err(error))
            }
            _ => {
                return Err(unexpected(
                    &"a result that is neither of a stored file nor of a failed one",
                ));
            }
        };
        if path != next.path {
            return Err(unexpected(&format!(
                "the result of {path:?}, expected that of {:?}",
                next.path
            )));
        }
        results.push(result);
    }
    reader.finish().map_err(|error| unexpected(&error))?;
    if reply.status == StatusCode::OK && !sent.is_empty() {
        return Err(unexpected(&format!("no results of {} files", sent.len())));
    }
    Ok(results)
}
