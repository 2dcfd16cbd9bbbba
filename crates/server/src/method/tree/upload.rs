//! POST of records on a directory: directories and small files of an upload, many in one request.
//!
//! The body is read as a stream. Records are gathered into a group, as long as there is memory, and
//! a group is written by one task ([`crate::backend::Backend::put_batch`]) while the next one
//! arrives. The memory of a group is lent before its first byte is read: an upload holds one loan,
//! and a second one while a group is written, unless memory is scarce. Its results are kept until
//! the end, since a client that is sending need not read.
//!
//! Each path is authorized as a PUT or MKCOL of its own, and fails alone. A stream that breaks off,
//! or is not valid, ends the upload: earlier records are written, and have their results.

use crate::authorization::authorizer::Action;
use crate::backend::blocking::{self, BlockingTask};
use crate::backend::path::NamespacePath;
use crate::backend::{BackendError, BatchEntry, Committed, Details, EntryMetadata};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::copy_move::partial_directory;
use crate::method::mkcol_delete::{is_free, not_made};
use crate::method::preconditions::Conditions;
use crate::method::put::{STORED, check_there, not_committed, too_large};
use crate::method::query::essence;
use crate::method::tree::{entry, path};
use crate::request::ServerRequest;
use crate::response::body::ResponseBody;
use crate::response::buffer_pool::{BufferQuota, ChargePurpose, MemoryCharge, PooledBuffer};
use crate::response::{ServerResponse, accept_tree_query};
use bytes::Bytes;
use hither_core::storage::is_partial;
use hither_http::tree::{
    ACCEPT_POST, MAX_PATHS, MAX_UPLOAD_BYTES, TREE_TYPE, TreeEntry, TreeQuery, TreeReader,
    TreeRecord, TreeWriter,
};
use hither_http::vector::ACCEPT_QUERY;
use http::{StatusCode, header};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The maximum number of files of a group: each is an open file while the group is written.
const GROUP_FILES: usize = 256;
/// The memory of a group, and its minimum.
const GROUP_BYTES: usize = 3 << 20;
const MIN_GROUP_BYTES: usize = RECORD_BYTES + (384 << 10);
/// The part of it for the record that is arriving, and for the bytes that arrive with its end.
const RECORD_BYTES: usize = (1 << 20) + (128 << 10);

/// A record of an upload: a directory, or a file with its bytes.
type UploadRecord = (TreeEntry, Option<Vec<Bytes>>);
/// The results of the backend for a group.
type GroupResults = Result<Vec<Result<Committed, BackendError>>, BackendError>;

/// An upload that is arriving.
#[derive(Debug)]
struct Upload {
    context: Arc<ServerContext>,
    request: ServerRequest,
    reader: TreeReader,
    records: usize,
    path_bytes: usize,
    content_bytes: u64,
    group: Vec<UploadRecord>,
    group_bytes: usize,
    quota: BufferQuota,
    /// The memory of the group.
    loan: PooledBuffer,
    loan_bytes: usize,
    writing: Option<Writing>,
    results: Results,
    /// The first path that was refused because the client is not known, if all were so far.
    unauthenticated: Option<HttpError>,
}

/// A group that is being written.
#[derive(Debug)]
struct Writing {
    task: BlockingTask<GroupResults>,
    items: Vec<Item>,
    /// Its memory, if it is not that of the next group too.
    _loan: Option<PooledBuffer>,
}

/// A record of a group.
#[derive(Debug)]
struct Item {
    name: String,
    is_directory: bool,
    replace: bool,
    /// The result, if the backend is not needed for it.
    known: Option<Result<Committed, HttpError>>,
}

/// The results so far, as records.
#[derive(Debug)]
struct Results {
    writer: TreeWriter,
    out: Vec<u8>,
    charge: MemoryCharge,
}

impl AsRef<[u8]> for Results {
    fn as_ref(&self) -> &[u8] {
        &self.out
    }
}

/// States in a response about a directory that it accepts queries and uploads of trees.
pub(crate) fn announce_trees(context: &ServerContext, response: &mut ServerResponse) {
    if context.backend.refers() {
        return;
    }
    response.set(ACCEPT_QUERY, &accept_tree_query());
    announce_uploads(context, response);
}

/// States that directories accept batched uploads, if this server does.
pub(crate) fn announce_uploads(context: &ServerContext, response: &mut ServerResponse) {
    if context.settings().authorizer.writes() && !context.backend.refers() {
        response.set(ACCEPT_POST, TREE_TYPE);
    }
}

/// Receives an upload.
pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let kind = request.text(header::CONTENT_TYPE).map(essence).unwrap_or_default();
    if !kind.eq_ignore_ascii_case(TREE_TYPE) {
        let what = format!("Content-Type is {kind:?}, expected {TREE_TYPE}");
        let error = HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what);
        return Err(error.with(ACCEPT_POST, TREE_TYPE));
    }
    let memory = Arc::clone(&request.peer.memory);
    let quota: BufferQuota = Arc::new(Semaphore::new(2));
    let loan_bytes = memory.block_bytes(GROUP_BYTES).max(MIN_GROUP_BYTES).min(memory.max_loan());
    let loan = Arc::clone(&memory).borrow(loan_bytes, Arc::clone(&quota)).await;
    let loan = loan.ok_or_else(BackendError::shutting_down)?;
    let charge = MemoryCharge::new(&memory, ChargePurpose::Listing);
    let mut upload = Upload {
        context: Arc::clone(context),
        request,
        reader: TreeReader::default(),
        records: 0,
        path_bytes: 0,
        content_bytes: 0,
        group: Vec::new(),
        group_bytes: 0,
        quota,
        loan,
        loan_bytes,
        writing: None,
        results: Results { writer: TreeWriter::default(), out: Vec::new(), charge },
        unauthenticated: None,
    };
    let received = upload.receive().await;
    upload.flush().await?;
    upload.written().await?;
    let Upload { records, mut results, unauthenticated, .. } = upload;
    let status = match received {
        Ok(()) => StatusCode::OK,
        Err(error) if records == 0 => return Err(error),
        Err(error) => error.status,
    };
    if let Some(error) = unauthenticated {
        return Err(error);
    }
    results.writer.end(&mut results.out);
    let response = ServerResponse::empty(status)
        .with(header::CONTENT_TYPE, TREE_TYPE)
        .with(header::CACHE_CONTROL, "no-store");
    let body = ResponseBody::Whole(Bytes::from_owner(results));
    Ok(ServerResponse { body, ranges: Some(records), ..response })
}

impl Upload {
    /// Reads the body to its end, or to its first error.
    async fn receive(&mut self) -> Result<(), HttpError> {
        let bad = |error| HttpError::new(StatusCode::BAD_REQUEST, format!("{error}"));
        while let Some(mut piece) = self.request.body.next().await? {
            while let Some(record) = self.reader.next(&mut piece).map_err(bad)? {
                self.take(record)?;
                if self.group.len() >= GROUP_FILES
                    || self.group_bytes + RECORD_BYTES > self.loan_bytes
                {
                    self.flush().await?;
                }
            }
        }
        self.reader.finish().map_err(bad)
    }

    /// Adds a record to the group.
    fn take(&mut self, record: TreeRecord) -> Result<(), HttpError> {
        let (entry, content) = match record {
            TreeRecord::Directory(entry) => (entry, None),
            TreeRecord::Content(entry, content) => (entry, Some(content)),
            _ => {
                let what = "the upload has a record that is neither a directory nor a file";
                return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
            }
        };
        let bytes = content.as_ref().map_or(0, |_| entry.size);
        self.path_bytes += entry.path.len();
        self.content_bytes += bytes;
        if self.records == MAX_PATHS
            || self.path_bytes > TreeQuery::MAX_BYTES
            || self.content_bytes > MAX_UPLOAD_BYTES
        {
            let what = format!(
                "the upload has more than {MAX_PATHS} paths, {MAX_UPLOAD_BYTES} bytes of files, \
                 or {} bytes of paths",
                TreeQuery::MAX_BYTES
            );
            return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        self.records += 1;
        self.group_bytes += entry.path.len() + usize::try_from(bytes).unwrap_or(usize::MAX);
        self.group.push((entry, content));
        Ok(())
    }

    /// Begins to write the group, after the one before it.
    async fn flush(&mut self) -> Result<(), HttpError> {
        self.written().await?;
        if self.group.is_empty() {
            return Ok(());
        }
        self.group_bytes = 0;
        let group = std::mem::take(&mut self.group);
        let (items, entries) = self.prepare(group).await?;
        let context = Arc::clone(&self.context);
        let tally = Arc::clone(&self.request.body.tally);
        let task = blocking::spawn_async(async move {
            let began = Instant::now();
            let results = context.backend.put_batch(entries).await;
            tally.disk(began.elapsed());
            results
        });
        let loan = self.request.peer.memory.try_borrow(GROUP_BYTES, &self.quota);
        let is_scarce = loan.is_none();
        let _loan = loan.map(|loan| {
            self.loan_bytes = GROUP_BYTES;
            std::mem::replace(&mut self.loan, loan)
        });
        self.writing = Some(Writing { task, items, _loan });
        if is_scarce {
            self.written().await?;
        }
        Ok(())
    }

    /// Authorizes the records of a group. Returns them, and those that the backend is to write.
    async fn prepare(
        &self,
        group: Vec<UploadRecord>,
    ) -> Result<(Vec<Item>, Vec<BatchEntry>), HttpError> {
        let paths: Vec<_> =
            group.iter().map(|it| path(&self.context, &self.request, &it.0.path)).collect();
        let known = paths.iter().flatten().map(|path| path.path().to_owned()).collect();
        // A link is replaced, not followed.
        let links = Arc::new(|_: &str| false);
        let there = self.context.backend.describe(known, Details::default(), links).await?;
        let mut there = there.into_iter();
        let mut entries = Vec::with_capacity(group.len());
        let mut items = Vec::with_capacity(group.len());
        for ((entry, content), path) in group.into_iter().zip(paths) {
            let name = entry.path.clone();
            let is_directory = content.is_none();
            let decided = match path {
                Err(error) => Err(error),
                Ok(path) => {
                    let there = there.next().flatten().and_then(Result::ok).map(|it| it.metadata);
                    match content {
                        None => self.directory(&path, there),
                        Some(content) => {
                            self.file(entry, content, &path, there.as_ref()).await.map(Ok)
                        }
                    }
                }
            };
            let (known, replace) = match decided {
                Ok(Ok(entry)) => {
                    let replace = entry.replace;
                    entries.push(entry);
                    (None, replace)
                }
                Ok(Err(there)) => (Some(Ok(there)), false),
                Err(error) => (Some(Err(error)), false),
            };
            items.push(Item { name, is_directory, replace, known });
        }
        Ok((items, entries))
    }

    /// A directory that is to be made, or the existing one.
    fn directory(
        &self,
        path: &NamespacePath,
        there: Option<EntryMetadata>,
    ) -> Result<Result<BatchEntry, Committed>, HttpError> {
        let Self { context, request, .. } = self;
        let is_there = there.as_ref().is_some_and(EntryMetadata::is_directory);
        let may_make = context.authorize(request, path, Action::Create);
        if let Some(metadata) = there.filter(|_| is_there) {
            may_make.or_else(|_| context.authorize(request, path, Action::Read))?;
            return Ok(Err(Committed { metadata, replaced: true }));
        }
        may_make?;
        if is_partial(path.path()) {
            return Err(partial_directory());
        }
        Ok(Ok(BatchEntry {
            path: path.path().to_owned(),
            content: None,
            modified: None,
            is_executable: false,
            checksums: &[],
            replace: false,
            precondition: Box::new(is_free),
        }))
    }

    /// A file that is to be written.
    async fn file(
        &self,
        entry: TreeEntry,
        content: Vec<Bytes>,
        path: &NamespacePath,
        there: Option<&EntryMetadata>,
    ) -> Result<BatchEntry, HttpError> {
        let Self { context, request, .. } = self;
        let may_replace = context.authorize_writing(request, path)?;
        check_there(context, request, path, may_replace, there)?;
        let conditions = Conditions::of_upload(entry.only_new, &entry.etag)?;
        conditions.check(there)?;
        if let Some(limit) = context.limits().file_bytes.filter(|limit| entry.size > *limit) {
            return Err(too_large(limit));
        }
        context.unfinished.begin(context, request, path, entry.size).await?;
        Ok(BatchEntry {
            path: path.path().to_owned(),
            content: Some(content),
            modified: entry.modified,
            is_executable: entry.mode.is_some_and(|mode| mode & 0o100 != 0),
            checksums: &STORED,
            replace: may_replace && !entry.only_new,
            precondition: conditions.on_target(),
        })
    }

    /// Waits for the group that is being written, and records its results.
    async fn written(&mut self) -> Result<(), HttpError> {
        let Some(Writing { task, items, _loan }) = self.writing.take() else { return Ok(()) };
        let written = task.await.unwrap_or_else(|_| Err(BackendError::shutting_down()));
        let mut written = written.map(Vec::into_iter).map_err(HttpError::from);
        for Item { name, is_directory, replace, known } in items {
            let result = known.unwrap_or_else(|| {
                let result = written.as_mut().map_err(|error| error.clone())?.next();
                let result = result.unwrap_or_else(|| Err(BackendError::shutting_down()));
                result.map_err(|error| {
                    if is_directory { not_made(error) } else { not_committed(error, replace) }
                })
            });
            self.note(&name, result);
        }
        let Results { out, charge, .. } = &mut self.results;
        if charge.extend(out.len()) {
            return Ok(());
        }
        let what = "the server has no memory for the results of the upload, try again later";
        Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what).with(header::RETRY_AFTER, "1"))
    }

    /// Writes the result of a record.
    fn note(&mut self, name: &str, result: Result<Committed, HttpError>) {
        let Results { writer, out, .. } = &mut self.results;
        let is_first = out.is_empty();
        match result {
            Ok(Committed { metadata, replaced }) => {
                self.unauthenticated = None;
                writer.stored(&TreeEntry { replaced, ..entry(name, &metadata) }, out);
            }
            Err(error) => {
                writer.failed(name, error.status.as_u16(), &error.what, out);
                if error.status != StatusCode::UNAUTHORIZED {
                    self.unauthenticated = None;
                } else if is_first {
                    self.unauthenticated = Some(error);
                }
            }
        }
    }
}
