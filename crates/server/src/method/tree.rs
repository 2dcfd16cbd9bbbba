//! Trees as streams of records ([`hither_http::tree`]): many small files in one request. Uploads
//! are described in [`upload`].
//!
//! A `QUERY` requests a [`walk`], or the files at some paths ([`contents`]). The two are separate
//! so that no state of the server belongs to more than one request: a client reads one walk, and
//! divides the paths that it returns among any number of requests, each of which may fail, be sent
//! again or be cancelled alone. A walk that is shared by connections would need an identity, a
//! lease and a share of the memory; the names that a broken connection had received would be lost,
//! and a client that has most of the files would get all of them again.
//!
//! Each path is authorized as a request of its own, and fails alone. The memory of a stream is that
//! of any response: one buffer is sent while the next is filled.

mod contents;
pub(crate) mod upload;
mod walk;

use crate::backend::path::NamespacePath;
use crate::backend::{Backend, EntryMetadata};
use crate::context::{ServerContext, TreeFilter};
use crate::http_error::HttpError;
use crate::method::lots;
use crate::method::tree::contents::Contents;
use crate::method::tree::walk::Walk;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::body::{ChunkStream, ResponseBody};
use crate::response::buffer_pool::{BufferQuota, PooledBuffer};
use bytes::Bytes;
use futures_util::stream;
use hither_http::tree::{TREE_TYPE, TreeEntry, TreeQuery, TreeQueryError, TreeWriter};
use http::{StatusCode, header};
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A stream of records that is being sent.
#[derive(Debug)]
struct TreeStream {
    context: Arc<ServerContext>,
    request: ServerRequest,
    filter: Arc<TreeFilter>,
    /// One buffer is sent, one is filled.
    quota: BufferQuota,
    writer: TreeWriter,
    is_over: bool,
}

/// The source of the records of a stream.
trait RecordSource: Send + 'static {
    /// Fills the next buffer. Sets [`TreeStream::is_over`] with the last one.
    fn fill(&mut self, tree: &mut TreeStream) -> impl Future<Output = io::Result<Bytes>> + Send;
}

impl TreeStream {
    fn body<S: RecordSource>(self, source: S) -> ResponseBody {
        let chunks = stream::unfold((self, source), async |(mut tree, mut source)| {
            if tree.is_over {
                return None;
            }
            let chunk = source.fill(&mut tree).await;
            tree.is_over |= chunk.is_err();
            Some((chunk, (tree, source)))
        });
        ResponseBody::Stream(ChunkStream::new(Box::pin(chunks), None))
    }

    /// Lends an empty buffer for about `bytes`.
    async fn borrow(&self, bytes: usize) -> io::Result<PooledBuffer> {
        let memory = Arc::clone(&self.request.peer.memory);
        let buffer = memory.borrow(bytes, Arc::clone(&self.quota)).await;
        let mut buffer = buffer.ok_or_else(|| io::Error::other("the server is shutting down"))?;
        buffer.buffer().clear();
        Ok(buffer)
    }

    /// The path of the record `relative`, as that of a request of its own.
    fn path(&self, relative: &str) -> Result<NamespacePath, HttpError> {
        path(&self.context, &self.request, relative)
    }

    fn failed(&mut self, relative: &str, error: &HttpError, out: &mut Vec<u8>) {
        self.writer.failed(relative, error.status.as_u16(), &error.what, out);
    }
}

/// The path of the record `relative` of a request, as that of a request of its own.
fn path(
    context: &ServerContext,
    request: &ServerRequest,
    relative: &str,
) -> Result<NamespacePath, HttpError> {
    let path = request.path.below(relative)?;
    if context.lots.is_some() && lots::below(&path).is_some() {
        return Err(HttpError::not_found());
    }
    Ok(path)
}

/// The entry of a path with this metadata.
fn entry(relative: &str, metadata: &EntryMetadata) -> TreeEntry {
    TreeEntry {
        path: relative.to_owned(),
        size: metadata.open_bytes(),
        modified: Some(metadata.version.modified),
        mode: metadata.mode,
        etag: metadata.version.etag.clone(),
        ..TreeEntry::default()
    }
}

/// Answers a query of a tree.
pub(super) async fn query(
    context: &Arc<ServerContext>,
    mut request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let body = request.body.collect(TreeQuery::MAX_BYTES).await?;
    let query = TreeQuery::decode(&body).map_err(|error| {
        let status = match error {
            TreeQueryError::TooMany => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        HttpError::new(status, error.to_string())
    })?;
    let metadata = context.follow(&request, request.path.path(), Backend::stat).await?;
    if !metadata.is_directory() {
        let what = "this is a file, and the query is for a directory";
        return Err(HttpError::new(StatusCode::CONFLICT, what));
    }
    let tree = TreeStream {
        context: Arc::clone(context),
        filter: context.tree_filter(&request),
        quota: Arc::new(Semaphore::new(2)),
        writer: TreeWriter::default(),
        is_over: false,
        request,
    };
    let (body, ranges) = match query {
        TreeQuery::Walk { after } => {
            let walk = Walk::new(after, &tree.request.peer.memory);
            (tree.body(walk), None)
        }
        TreeQuery::Metadata(paths) => {
            let count = paths.len();
            (tree.body(Contents::new(paths, false)), Some(count))
        }
        TreeQuery::Content(paths) => {
            let count = paths.len();
            (tree.body(Contents::new(paths, true)), Some(count))
        }
    };
    let response = ServerResponse::empty(StatusCode::OK)
        .with(header::CONTENT_TYPE, TREE_TYPE)
        .with(header::CACHE_CONTROL, "no-store");
    Ok(ServerResponse { body, ranges, ..response })
}
