//! PUT (RFC 9110): a file appears at its path when all of it has arrived and has the checksum that
//! the client announced. Before that it is invisible.
//!
//! An announced length is compared with the free space before the body is requested, so that a file
//! that does not fit is rejected before it is sent: a client that waits for "100 Continue" sends
//! nothing at all. While one batch is written, the next one arrives; two batches are in memory, and
//! count as such. Where memory is scarce, bytes are written as they arrive, before more are read.
//!
//! Conditions are checked twice: before the body, to spare the transfer, and when the file gets its
//! path, while no other request changes names. So of two clients that replace the same version, one
//! gets an error.
//!
//! The file gets the time in `X-OC-Mtime`, if there is one ([`mtime`]).
//!
//! **In parts.** With `Content-Range` a PUT writes a part of a file in place (RFC 9110 section
//! 14.5). The server accepts that only at the paths of partial files, which no listing shows
//! ([`is_partial`]): a client that writes in parts moves the file to its final path at the end. At
//! other paths the response is 400, as that section requires. A checksum of the whole file cannot
//! be verified in a part of it, and is refused there.

pub(crate) mod mtime;

use crate::authorization::authorizer::Action;
use crate::backend::path::NamespacePath;
use crate::backend::{
    BackendError, BackendErrorKind, BackendFuture, CommitOptions, CreateOptions, EntryMetadata,
    FileWriter,
};
use crate::connection::incoming_body::IncomingBody;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::digest_fields::{announced_file, mismatch};
use crate::method::preconditions::{Conditions, no_parent};
use crate::method::put::mtime::{accepted, client_mtime};
use crate::method::unfinished_files::UnfinishedFile;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::buffer_pool::{ChargePurpose, ConnectionMemory, MemoryCharge};
use bytes::Bytes;
use hither_checksum::{Algorithm, Checksum};
use hither_core::storage::{FileKind, is_partial};
use hither_http::ContentRange;
use http::header::HeaderMap;
use http::{StatusCode, header};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The size of a batch. Two batches are in memory: one that is written, one that arrives.
const BATCH_BYTES: usize = 512 << 10;
/// The checksums that are stored with every file: they cost little compared with writing it.
pub(crate) const STORED: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];

/// The target of a PUT.
#[derive(Debug)]
pub(crate) struct PutTarget {
    pub(crate) may_replace: bool,
    /// The metadata of the file that is at the path so far.
    pub(crate) there: Option<EntryMetadata>,
    pub(crate) conditions: Conditions,
}

/// Fails unless the client may put a file at the path of its request now.
pub(crate) async fn writable(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<PutTarget, HttpError> {
    let may_replace = context.authorize_writing(request, &request.path)?;
    if request.path.is_root() || request.path.is_directory() {
        let what = "PUT writes files, and this path ends with a slash: use MKCOL for directories";
        return Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, what));
    }
    let there = match context.backend.stat(request.path.path()).await {
        Ok(metadata) => Some(metadata),
        // A link is replaced, not followed.
        Err(error)
            if matches!(error.kind(), BackendErrorKind::NotFound | BackendErrorKind::Link) =>
        {
            None
        }
        Err(error) => return Err(error.into()),
    };
    check_there(context, request, &request.path, may_replace, there.as_ref())?;
    let conditions = Conditions::read(context, request, None).await?;
    conditions.check(there.as_ref())?;
    Ok(PutTarget { may_replace, there, conditions })
}

/// Fails unless a file at a path may be replaced by the file that the client writes.
pub(crate) fn check_there(
    context: &ServerContext,
    request: &ServerRequest,
    path: &NamespacePath,
    may_replace: bool,
    there: Option<&EntryMetadata>,
) -> Result<(), HttpError> {
    match there {
        Some(metadata) if metadata.is_directory() => {
            let what = "there is a directory at this path";
            Err(HttpError::new(StatusCode::CONFLICT, what))
        }
        Some(metadata) if metadata.kind == FileKind::Other => {
            Err(BackendError::not_a_file().into())
        }
        Some(_) if !may_replace => context.authorize(request, path, Action::Modify),
        _ => Ok(()),
    }
}

/// The error of a file that did not get its path.
pub(crate) fn not_committed(error: BackendError, replace: bool) -> HttpError {
    match error.kind() {
        BackendErrorKind::AlreadyExists if !replace => HttpError::precondition_failed(),
        _ => no_parent(error),
    }
}

pub(crate) async fn handle(
    context: &ServerContext,
    request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let PutTarget { may_replace, conditions, .. } = writable(context, &request).await?;
    let limit = context.limits().file_bytes.unwrap_or(u64::MAX);
    if request.body.length().is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    if let Some(field) = request.headers.get(header::CONTENT_RANGE) {
        let part = part(&request.path, field.as_bytes(), request.body.length(), limit)?;
        let counted = context.unfinished.begin(context, &request, &request.path, part.1).await?;
        return put_part(context, request, counted, part).await;
    }
    let length = request.body.length().unwrap_or_default();
    let counted = context.unfinished.begin(context, &request, &request.path, length).await?;
    let modified = client_mtime(&request)?;
    let only_new = request.headers.get(header::IF_NONE_MATCH).is_some_and(|value| value == "*");
    let replace = may_replace && !only_new;
    let precondition = conditions.on_target();
    // The checksums are known at the end.
    let options = CommitOptions { replace, checksums: Vec::new(), modified, precondition };
    put_whole(context, request, counted, limit, options).await
}

pub(crate) fn too_large(limit: u64) -> HttpError {
    let what = format!("the file is larger than this server accepts ({limit} bytes)");
    HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, what)
}

async fn put_whole(
    context: &ServerContext,
    request: ServerRequest,
    counted: UnfinishedFile,
    limit: u64,
    commit: CommitOptions,
) -> Result<ServerResponse, HttpError> {
    let CommitOptions { replace, modified, .. } = commit;
    let ServerRequest { path, headers, mut body, peer, .. } = request;
    let mut announced = announced_file(&headers)?;
    let mut checksums = STORED.to_vec();
    checksums.extend(announced.iter().map(Checksum::algorithm).filter(|it| !STORED.contains(it)));
    let options =
        CreateOptions { size: body.length(), checksums: checksums.clone(), ..Default::default() };
    let writer = context.backend.create(path.path(), options).await.map_err(no_parent)?;
    let timings = Arc::clone(&body.tally);
    receive(context, &mut body, &writer, &counted, 0..limit, &peer.memory).await?;
    announced.extend(announced_file(body.trailers())?);
    let late = announced.iter().map(Checksum::algorithm).filter(|it| !checksums.contains(it));
    let late: Vec<_> = late.collect();
    checksums.extend(late);
    let mut sums: Vec<Checksum> = Vec::with_capacity(checksums.len());
    for algorithm in checksums {
        if !sums.iter().any(|sum| sum.algorithm() == algorithm) {
            sums.push(writer.checksum(algorithm).await?);
        }
    }
    if let Some(wrong) = announced.iter().find(|announced| !sums.contains(announced)) {
        return Err(mismatch(wrong));
    }
    let began = Instant::now();
    let committed = writer.commit(CommitOptions { checksums: sums, ..commit }).await;
    timings.disk(began.elapsed());
    let committed = committed.map_err(|error| not_committed(error, replace))?;
    let status = if committed.replaced { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    let answer = ServerResponse::empty(status).with(header::ETAG, &committed.metadata.version.etag);
    Ok(if modified.is_some() { accepted(answer) } else { answer })
}

/// Bytes that arrived and are not written yet.
struct Batch {
    chunks: Vec<Bytes>,
    bytes: usize,
    memory: MemoryCharge,
}

impl Batch {
    fn new(memory: &Arc<ConnectionMemory>) -> Self {
        let memory = MemoryCharge::new(memory, ChargePurpose::Upload);
        Self { chunks: Vec::new(), bytes: 0, memory }
    }

    /// Adds bytes. Returns false if there is no memory to hold them for long.
    fn push(&mut self, chunk: Bytes) -> bool {
        self.bytes += chunk.len();
        self.chunks.push(chunk);
        self.memory.extend(self.bytes)
    }
}

/// Writes a body as it arrives, which has to fit into `range`. Returns its length.
async fn receive(
    context: &ServerContext,
    body: &mut IncomingBody,
    writer: &Arc<dyn FileWriter>,
    counted: &UnfinishedFile,
    range: Range<u64>,
    memory: &Arc<ConnectionMemory>,
) -> Result<u64, HttpError> {
    let timings = Arc::clone(&body.tally);
    let max = range.end - range.start;
    let mut writing: Option<(BackendFuture<'static, Duration>, MemoryCharge)> = None;
    let mut received = 0u64;
    let mut written = 0u64;
    let mut batch = Batch::new(memory);
    loop {
        let mut has_memory = true;
        let next = body.next().await?;
        let is_over = next.is_none();
        if let Some(bytes) = next {
            received = received.saturating_add(bytes.len() as u64);
            if received > max {
                return Err(too_large(max));
            }
            has_memory = batch.push(bytes);
        }
        if batch.bytes >= BATCH_BYTES || is_over || !has_memory {
            // The length may be unknown before.
            counted.count(context, range.start + received).await?;
            if let Some((writing, _charge)) = writing.take() {
                timings.disk(writing.await?);
            }
            let Batch { chunks, memory: charge, .. } =
                std::mem::replace(&mut batch, Batch::new(memory));
            writing = Some((writer.write(range.start + written, chunks), charge));
            written = received;
        }
        if (is_over || !has_memory)
            && let Some((writing, _charge)) = writing.take()
        {
            timings.disk(writing.await?);
        }
        if is_over {
            return Ok(received);
        }
    }
}

/// The range of a part, and the size of the whole file.
fn part(
    path: &NamespacePath,
    field: &[u8],
    length: Option<u64>,
    limit: u64,
) -> Result<(Range<u64>, u64), HttpError> {
    let bad = |what: String| HttpError::new(StatusCode::BAD_REQUEST, what);
    if !is_partial(path.path()) {
        let what = "Content-Range is accepted for partial files only";
        return Err(bad(what.to_owned()));
    }
    match ContentRange::parse(field) {
        Ok(ContentRange::Satisfied { range, total: Some(total) }) => {
            if total > limit {
                return Err(too_large(limit));
            }
            if length.is_some_and(|length| length != range.end - range.start) {
                return Err(bad("the length of the body differs from Content-Range".to_owned()));
            }
            Ok((range, total))
        }
        Ok(_) => Err(bad("Content-Range must name the range and the size of the file".to_owned())),
        Err(error) => Err(bad(error.to_string())),
    }
}

async fn put_part(
    context: &ServerContext,
    request: ServerRequest,
    counted: UnfinishedFile,
    (range, total): (Range<u64>, u64),
) -> Result<ServerResponse, HttpError> {
    let of_file = |fields: &HeaderMap| match announced_file(fields)?.first() {
        None => Ok(()),
        Some(sum) => {
            let what = format!(
                "{sum} of the whole file cannot be verified in a part of it: send the checksum of \
                 the part as Content-Digest"
            );
            Err(HttpError::new(StatusCode::BAD_REQUEST, what))
        }
    };
    of_file(&request.headers)?;
    let options =
        CreateOptions { size: Some(total), checksums: Vec::new(), part: Some(range.clone()) };
    let created = context.backend.create(request.path.path(), options).await;
    let writer = created.map_err(no_parent)?;
    let size = range.end - range.start;
    let mut body = request.body;
    let received = receive(context, &mut body, &writer, &counted, range, &request.peer.memory);
    if received.await? != size {
        let what = "the length of the body differs from Content-Range";
        return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
    }
    of_file(body.trailers())?;
    Ok(ServerResponse::empty(StatusCode::NO_CONTENT))
}
