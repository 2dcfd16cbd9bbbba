//! PUT (RFC 9110): a file is under its name when all of it has come, and is what the client says it is; before that it is
//! nowhere ([`crate::backend::tree::TempFile`]).
//!
//! Space is taken before the body is asked for, so what does not fit is refused before it is sent: a client that waits for
//! "100 Continue" sends nothing at all. While one batch is written, the next arrives.
//!
//! Conditions are looked at twice: before the body is asked for, to spare it, and when the file gets its name, in the turn of
//! this request to change names. So of two clients that replace the same version, one is told that it came late.
//!
//! **In pieces.** With `Content-Range` a PUT writes a part of a file in place (RFC 9110 section 14.5). That is done only under
//! names that are made for it and shown to nobody ([`is_unfinished`]): whoever writes so moves the file to its name in the
//! end. For other names it is refused with 400, as that section asks for.

use crate::authorization::authorizer::Action;
use crate::backend::disk::checksums;
use crate::backend::disk::confined_dir::ConfinedDir;
use crate::backend::disk::lot_charging::WriteCharge;
use crate::backend::disk::metadata::{DiskMetadata, EntryKind};
use crate::backend::disk::temp_file::TempFile;
use crate::backend::path::NamespacePath;
use crate::connection::incoming_body::IncomingBody;
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::{check_conditions, no_parent};
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use bytes::Bytes;
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::storage::is_partial;
use hither_http::ContentRange;
use hither_http::digest::digests;
use http::header::HeaderMap;
use http::{StatusCode, header};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::JoinHandle;

/// Bytes that are written at a time. Two such batches are in memory.
const BATCH_BYTES: usize = 512 << 10;
/// Sums that are noted of every file: they cost little beside the writing.
const ALWAYS: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];

/// What a name may be written over.
#[derive(Debug)]
pub(crate) struct PutTarget {
    pub(crate) may_replace: bool,
    /// What has the name so far.
    pub(crate) there: Option<DiskMetadata>,
}

/// Fails unless whoever sent the request may put a file under its name now.
pub(crate) async fn writable(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<PutTarget, HttpError> {
    let may_replace = context.authorize_writing(request, &request.path)?;
    if request.path.is_root() || request.path.is_directory() {
        let what = "PUT writes files, and this path ends with a slash: use MKCOL for directories";
        return Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, what));
    }
    let path = request.path.path().to_owned();
    let there = context.disk.run(move |tree| tree.look(&path)).await?;
    match &there {
        Some(meta) if meta.kind == EntryKind::Directory => {
            let what = "there is a directory at this path";
            return Err(HttpError::new(StatusCode::CONFLICT, what));
        }
        Some(_) if !may_replace => context.authorize(request, &request.path, Action::Modify)?,
        _ => {}
    }
    check_conditions(&request.headers, there.as_ref())?;
    Ok(PutTarget { may_replace, there })
}

pub(crate) async fn handle(
    context: &ServerContext,
    request: ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let PutTarget { may_replace, .. } = writable(context, &request).await?;
    let limit = context.limits().file_bytes.unwrap_or(u64::MAX);
    if request.body.length().is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    if let Some(field) = request.headers.get(header::CONTENT_RANGE) {
        let piece = piece(&request.path, field.as_bytes(), request.body.length(), limit)?;
        return put_piece(context, request.path, request.body, piece).await;
    }
    let replace =
        may_replace && request.headers.get(header::IF_NONE_MATCH).is_none_or(|v| v != "*");
    let ServerRequest { path: place, headers, body, .. } = request;
    whole(context, place, headers, body, Manner { limit, replace }).await
}

pub(crate) fn too_large(limit: u64) -> HttpError {
    let what = format!("the file is larger than this server accepts ({limit} bytes)");
    HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, what)
}

/// How a file is put.
#[derive(Debug, Clone, Copy)]
struct Manner {
    /// Most bytes.
    limit: u64,
    /// Whether what has the name may be replaced.
    replace: bool,
}

async fn whole(
    context: &ServerContext,
    place: NamespacePath,
    headers: HeaderMap,
    body: IncomingBody,
    manner: Manner,
) -> Result<ServerResponse, HttpError> {
    let length = body.length();
    let expected: Vec<Checksum> = digests(StatusCode::OK, &headers)
        .into_iter()
        .filter_map(|digest| Checksum::new(checksums::known(digest.algorithm)?, &digest.value).ok())
        .collect();
    let taken = context.space.take(place.path(), length.unwrap_or_default())?;
    let directory = place.split().unwrap_or_default().0.to_owned();
    let begun = context.disk.run(move |tree| -> io::Result<(WriteCharge, TempFile)> {
        let upload = tree.begin(&directory)?;
        taken.with_room(|| upload.reserve(length.unwrap_or_default()))?;
        Ok((taken, upload))
    });
    let (mut taken, upload) = begun.await.map_err(no_parent)?;
    let algorithms = expected.iter().map(Checksum::algorithm).filter(|one| !ALWAYS.contains(one));
    let hashers = ALWAYS.into_iter().chain(algorithms).map(Hasher::new).collect();
    let file = Arc::new(upload.file().try_clone()?);
    let (writer, tally) = (Writer { file, at: 0, hashers }, Arc::clone(&body.tally));
    let Writer { hashers, .. } = receive(body, writer, manner.limit, &mut taken).await?;
    let sums: Vec<Checksum> = hashers.into_iter().map(Hasher::finish).collect();
    if let Some(wrong) = expected.iter().find(|expected| !sums.contains(expected)) {
        let what = format!("checksum mismatch: the bytes that arrived do not have {wrong}");
        return Err(HttpError::new(StatusCode::BAD_REQUEST, what));
    }
    let published = DiskWriter { upload, sums, taken, headers, replace: manner.replace };
    let (meta, replaced) = context
        .disk
        .run_durably(move |tree| tally.timed(|| published.publish(tree, place.path())))
        .await?;
    let status = if replaced { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    Ok(ServerResponse::empty(status).with(header::ETAG, &meta.put_tag()))
}

/// A file all of which has come.
#[derive(Debug)]
pub(crate) struct DiskWriter {
    pub(crate) upload: TempFile,
    /// What is noted of it.
    pub(crate) sums: Vec<Checksum>,
    pub(crate) taken: WriteCharge,
    /// Of the request, with its conditions.
    pub(crate) headers: HeaderMap,
    /// Whether what has the name may be replaced.
    pub(crate) replace: bool,
}

impl DiskWriter {
    /// Gives it its name. Tells what is known of it, and whether it replaced something.
    pub(crate) fn publish(
        mut self,
        tree: &ConfinedDir,
        path: &str,
    ) -> Result<(DiskMetadata, bool), HttpError> {
        // A time to the nanosecond, which no change will have again: what is noted is bound to it.
        self.upload.file().set_modified(SystemTime::now())?;
        let meta = DiskMetadata::of(self.upload.file())?;
        for sum in self.sums.iter().filter(|_| meta.is_fine()) {
            // Where attributes cannot be written, sums are computed when they are asked for.
            drop(checksums::note(self.upload.file(), &meta, sum));
        }
        self.upload.sync()?;
        let alone = tree.lock_names();
        check_conditions(&self.headers, tree.look(path)?.as_ref())?;
        let there = tree.own(path)?;
        let published = self.upload.link_as(tree, path, self.replace);
        published.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists if !self.replace => HttpError::failed_precondition(),
            _ => no_parent(error.into()),
        })?;
        self.taken.done(meta.size, there.as_ref().map_or(0, |there| there.size));
        drop(alone);
        self.upload.sync_name()?;
        Ok((meta, there.is_some()))
    }
}

/// What is written where, and what is computed of it.
#[derive(Debug)]
struct Writer {
    file: Arc<File>,
    at: u64,
    hashers: Vec<Hasher>,
}

impl Writer {
    fn write(mut self, batch: Vec<Bytes>) -> io::Result<Self> {
        for bytes in batch {
            self.file.write_all_at(&bytes, self.at)?;
            self.at += bytes.len() as u64;
            for hasher in &mut self.hashers {
                hasher.update(&bytes);
            }
        }
        Ok(self)
    }
}

/// Writes a body of at most `most` bytes as it arrives.
async fn receive(
    mut body: IncomingBody,
    writer: Writer,
    most: u64,
    taken: &mut WriteCharge,
) -> Result<Writer, HttpError> {
    let file = Arc::clone(&writer.file);
    let (mut writing, mut received) = (Batch::Idle(writer), 0u64);
    let (mut batch, mut batched) = (Vec::new(), 0);
    let tally = Arc::clone(&body.tally);
    loop {
        let next = body.next().await?;
        let over = next.is_none();
        if let Some(bytes) = next {
            received = received.saturating_add(bytes.len() as u64);
            if received > most {
                return Err(too_large(most));
            }
            taken.cover(received, &file).await?;
            batched += bytes.len();
            batch.push(bytes);
        }
        if batched >= BATCH_BYTES || over {
            let writer = writing.done().await?;
            let full = std::mem::take(&mut batch);
            batched = 0;
            let tally = Arc::clone(&tally);
            let write = move || tally.timed(|| writer.write(full));
            writing = Batch::Writing(tokio::task::spawn_blocking(write));
        }
        if over {
            return writing.done().await;
        }
    }
}

/// The last batch.
#[derive(Debug)]
enum Batch {
    Idle(Writer),
    Writing(JoinHandle<io::Result<Writer>>),
}

impl Batch {
    async fn done(self) -> Result<Writer, HttpError> {
        match self {
            Self::Idle(writer) => Ok(writer),
            Self::Writing(writing) => Ok(writing.await.map_err(io::Error::from)??),
        }
    }
}

/// The place of a piece, and the size of the whole file.
fn piece(
    place: &NamespacePath,
    field: &[u8],
    length: Option<u64>,
    limit: u64,
) -> Result<(Range<u64>, u64), HttpError> {
    let bad = |what: String| HttpError::new(StatusCode::BAD_REQUEST, what);
    if !is_partial(place.path()) {
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

async fn put_piece(
    context: &ServerContext,
    place: NamespacePath,
    body: IncomingBody,
    (range, total): (Range<u64>, u64),
) -> Result<ServerResponse, HttpError> {
    let (path, space) = (place.path().to_owned(), context.space.clone());
    let opened = context.disk.run(move |tree| -> Result<File, HttpError> {
        // Of several pieces that come first at the same time, one takes the space for all.
        let _alone = tree.lock_names();
        let file = tree.write_to(&path, true)?;
        let size = file.metadata()?.len();
        if size < total {
            // All of its space, once.
            let taken = space.take(&path, total)?;
            taken.with_room(|| crate::backend::disk::temp_file::reserve(&file, total))?;
            if size == 0 {
                file.set_len(total)?;
            }
            taken.done(total, size);
        }
        Ok(file)
    });
    let file = opened.await.map_err(no_parent)?;
    let writer = Writer { file: Arc::new(file), at: range.start, hashers: Vec::new() };
    let written =
        receive(body, writer, range.end - range.start, &mut WriteCharge::nothing()).await?;
    match written.at == range.end {
        true => Ok(ServerResponse::empty(StatusCode::NO_CONTENT)),
        false => Err(HttpError::new(
            StatusCode::BAD_REQUEST,
            "the length of the body differs from Content-Range",
        )),
    }
}
