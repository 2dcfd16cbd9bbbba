//! Trees as streams of records, from a server that offers them; [`hither_http::tree`] has the
//! formats.
//!
//! A query is sent only to a server that has offered it. Records are checked before they are
//! returned: paths stay below the tree, a walk is in order and has no duplicates, and each path of
//! a list is answered once.

use super::session::WebDavSession;
use crate::http::request;
use crate::http::request_body::BoxBody;
use crate::http::response_body::next_chunk;
use crate::http::status_error;
use crate::layers::credential::RequestCredential;
use crate::layers::stale_connections::{FailedRequest, StaleConnections};
use crate::location::Location;
use crate::pool::{Pool, PooledConnection};
use async_trait::async_trait;
use bytes::Bytes;
use hither_core::error::{Effect, Error, ErrorKind, Failure, Result};
use hither_core::storage::{
    DirEntry, FileKind, TreeEvent, TreeEvents, TreeFile, TreeRequest, join,
};
use hither_http::tree::{
    QUERY_TYPE, TreeEntry, TreeQuery, TreeReader, TreeRecord, WalkOrder, is_tree,
};
use http::{Method, StatusCode, header, response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;
use tracing::debug;

/// A stream of events that is arriving.
#[derive(Debug)]
pub(super) struct HttpTree {
    location: Location,
    pool: Arc<Pool>,
    connection: Option<PooledConnection>,
    body: Incoming,
    reader: TreeReader,
    expected: Expected,
    directory: String,
    received: u64,
}

/// The paths that may arrive.
#[derive(Debug)]
enum Expected {
    Walk(WalkOrder),
    /// The paths that have not arrived yet.
    These(HashSet<String>),
}

/// Sends a query; none if the server has no trees.
pub(super) async fn request(
    dav: &WebDavSession,
    directory: &str,
    wanted: TreeRequest,
) -> Result<Option<HttpTree>> {
    if dav.names().trees != Some(true) {
        return Ok(None);
    }
    let location = dav.root.below(directory, true);
    let pool = dav.network.pool(&location);
    let these = |paths: &[String]| Expected::These(paths.iter().cloned().collect());
    let (query, expected) = match wanted {
        TreeRequest::Walk { after } => {
            let order = WalkOrder::after(&after);
            (TreeQuery::Walk { after }, Expected::Walk(order))
        }
        TreeRequest::Entries(paths) => {
            let expected = these(&paths);
            (TreeQuery::Metadata(paths), expected)
        }
        TreeRequest::Contents(paths) => {
            let expected = these(&paths);
            (TreeQuery::Content(paths), expected)
        }
    };
    let query = Bytes::from(query.encode());
    let mut credential = RequestCredential::default();
    credential.prepare(&location, pool.config()).await?;
    let mut answer = answered(&location, &pool, &query).await?;
    let is_rejected = answer.1.status == StatusCode::UNAUTHORIZED;
    if is_rejected && credential.renew(&location, pool.config()).await {
        answer = answered(&location, &pool, &query).await?;
    }
    let (connection, head, body) = answer;
    match head.status {
        StatusCode::OK if is_tree(&head.headers) => {}
        // A file, or a redirect to elsewhere.
        status if status == StatusCode::CONFLICT || status.is_redirection() => return Ok(None),
        status
            if status.is_success()
                || status == StatusCode::BAD_REQUEST
                || status_error::is_unsupported(status) =>
        {
            debug!(url = %location, status = status.as_u16(), "the server rejects queries of trees");
            dav.learn(|names| names.trees = Some(false));
            return Ok(None);
        }
        status => return Err(refused(&location, &pool, &head, status, body).await),
    }
    Ok(Some(HttpTree {
        location,
        pool,
        connection: Some(connection),
        body,
        reader: TreeReader::default(),
        expected,
        directory: directory.to_owned(),
        received: 0,
    }))
}

async fn refused(
    location: &Location,
    pool: &Pool,
    head: &response::Parts,
    status: StatusCode,
    body: Incoming,
) -> Error {
    let (body, _) = request::reason(status, &head.headers, body, location, pool).await;
    status_error::of_read(location, pool.config(), &Method::QUERY, status, &head.headers, &body)
}

/// Sends a query, on another connection if the server had closed an idle one.
async fn answered(
    location: &Location,
    pool: &Arc<Pool>,
    query: &Bytes,
) -> Result<(PooledConnection, response::Parts, Incoming)> {
    let mut stale = StaleConnections::at_most(pool.max_connections());
    loop {
        pool.server().wait_retry_after().await;
        let mut connection = pool.acquire().await?;
        let Some(sender) = connection.sender() else {
            return Err(Error::new(ErrorKind::Cancelled, "the connection was closed"));
        };
        let builder = request::builder(Method::QUERY, location, pool)
            .header(header::CONTENT_TYPE, QUERY_TYPE);
        let body = BoxBody::new(Full::new(query.clone()).map_err(|never| match never {}));
        let has_answered = sender.has_answered();
        match request::send(sender, builder, body, location, pool, u64::MAX).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                return Ok((connection, head, body));
            }
            Err(error) => {
                let failed = FailedRequest::new(error, has_answered, Effect::Read);
                if !stale.sends_again(location, failed.is_stale) {
                    return Err(failed.error);
                }
            }
        }
    }
}

/// The entry of a record in a storage.
pub(super) fn directory_entry(directory: &str, entry: TreeEntry, kind: FileKind) -> DirEntry {
    let TreeEntry { path, size, modified, etag, .. } = entry;
    let validator = Some(etag).filter(|etag| !etag.is_empty());
    DirEntry { modified, validator, ..DirEntry::new(join(directory, &path), kind, size) }
}

#[async_trait]
impl TreeEvents for HttpTree {
    async fn next(&mut self) -> Result<Vec<TreeEvent>> {
        let mut events = Vec::new();
        while events.is_empty() {
            let chunk =
                next_chunk(&mut self.body, &self.location, &self.pool, self.received).await?;
            let Some(mut chunk) = chunk else {
                self.reader.finish().map_err(|error| self.unexpected(&error))?;
                if let Expected::These(missing) = &self.expected
                    && !missing.is_empty()
                {
                    let what = format!("the tree lacks {} of the requested paths", missing.len());
                    return Err(self.unexpected(&what));
                }
                if let Some(mut connection) = self.connection.take() {
                    let bandwidth = connection.sender().and_then(|sender| sender.bandwidth());
                    self.pool.saw_bandwidth(bandwidth);
                    connection.give_back();
                }
                return Ok(events);
            };
            self.received += chunk.len() as u64;
            while let Some(record) =
                self.reader.next(&mut chunk).map_err(|error| self.unexpected(&error))?
            {
                events.push(self.event(record)?);
            }
        }
        Ok(events)
    }
}

impl HttpTree {
    fn unexpected(&self, what: &dyn Display) -> Error {
        Error::new(ErrorKind::Protocol, format!("{}: {what}", self.location))
            .with_failure(Failure::Garbled)
    }

    /// Checks that a path may arrive.
    fn check(&mut self, path: &str, is_directory: bool) -> Result<()> {
        let known = match &mut self.expected {
            Expected::Walk(order) => {
                order.add(path, is_directory).map_err(|error| error.to_string())
            }
            Expected::These(paths) => {
                let unasked = || format!("the tree has {path:?}, which was not requested");
                paths.take(path).map(drop).ok_or_else(unasked)
            }
        };
        known.map_err(|what| self.unexpected(&what))
    }

    fn event(&mut self, record: TreeRecord) -> Result<TreeEvent> {
        Ok(match record {
            TreeRecord::Directory(entry) => {
                self.check(&entry.path, true)?;
                TreeEvent::Directory(entry.path)
            }
            TreeRecord::File(entry) => {
                self.check(&entry.path, false)?;
                TreeEvent::File(self.file(entry))
            }
            TreeRecord::Content(entry, pieces) => {
                self.check(&entry.path, false)?;
                TreeEvent::Content(self.file(entry), pieces)
            }
            TreeRecord::Failed { path, status, reason } => {
                if let Expected::These(_) = self.expected {
                    self.check(&path, false)?;
                }
                let error = self.failed(&path, status, &reason);
                TreeEvent::Failed(path, error)
            }
            TreeRecord::LeftOut { path, reason } => {
                if let Expected::These(_) = self.expected {
                    self.check(&path, false)?;
                }
                TreeEvent::LeftOut(path, reason)
            }
            TreeRecord::Stored(_) => {
                return Err(self.unexpected(&"the tree has a record of an upload"));
            }
        })
    }

    fn file(&self, entry: TreeEntry) -> TreeFile {
        let mode = entry.mode;
        let relative = entry.path.clone();
        TreeFile { relative, entry: directory_entry(&self.directory, entry, FileKind::File), mode }
    }

    /// The error of a path that failed, the same as for a separate request.
    fn failed(&self, path: &str, status: u16, reason: &str) -> Error {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let name = format!("{}{path}", self.location);
        let quoted = request::quoted_reason(reason, &self.location, &self.pool);
        status_error::of_status(status, &name, &quoted, None)
    }
}
