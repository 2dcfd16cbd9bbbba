//! An upload to a WebDAV server.
//!
//! There are three ways to send the bytes:
//!
//! - *Together*: a small file is collected and sent as one PUT, which can be repeated.
//! - *In pieces*: a PUT with `Content-Range` for every block (RFC 9110 section 14.4 allows it,
//!   mod_dav of Apache supports it). Blocks use several connections, in any order, and an
//!   interrupted upload can be resumed.
//! - *As a stream*: one PUT that is fed block by block, in order. It waits for "100 Continue"
//!   before the first block.
//!
//! The time of the file is sent as `X-OC-Mtime`, which ownCloud, Nextcloud, rclone and hither keep
//! and others ignore: with the PUT, or, for a file in pieces, with the MOVE to its final name.
//!
//! A server without support for pieces may reject them (nginx: 501) or, worse, take a piece for the
//! whole file (XrdHttp). So an unknown server is tested: only the last byte of the file is put into
//! the new file, which must then have the length of the whole. Before that, an empty file is put
//! and moved, to test whether it can be moved. Where the server cannot move, or refuses to (403,
//! 404), a file is put under its own name; an interrupted upload may then leave a part of it.
//!
//! The size on the server is compared before the file gets its name, whatever the responses were,
//! unless the server is hither's own and confirms that it has the file. A small file of a tree that
//! replaces nothing may get its name first: a client that writes many lists them once.

mod feeding;

use super::session::{WebDavSession, X_OC_MTIME};
use super::{listing, putting};
use crate::http::call::HttpRequest;
use crate::http::request_body::{RequestBody, StreamedBody};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use feeding::StreamUpload;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::Source;
use hither_core::error::{Effect, Error, ErrorKind, Result};
use hither_core::storage::{
    CommittedFile, DirEntry, FileKind, PutOptions, Upload, file_name, hide_partial_name,
    is_same_version, parent, read_back,
};
use hither_core::sync::lock;
use hither_load::connections;
use http::Method;
use std::sync::{Arc, Mutex};

/// A file up to this size in bytes is sent together: pieces would not be faster.
const TOGETHER_BYTES: u64 = 1 << 20;
/// More connections do not fill a path better.
const PARALLEL: usize = 32;

/// A file that is being written to a WebDAV server.
#[derive(Debug)]
pub(super) struct WebDavUpload {
    dav: WebDavSession,
    path: String,
    size: u64,
    options: PutOptions,
    /// The entry that the file replaces, where it is written under its own name.
    before: Option<DirEntry>,
    /// The time of the file, as `X-OC-Mtime` has it.
    mtime: Option<String>,
    /// The name to write to; the file's own name where it cannot be moved.
    at: String,
    method: UploadMethod,
}

#[derive(Debug)]
enum UploadMethod {
    Together(Mutex<BytesMut>),
    Pieces,
    Stream(tokio::sync::Mutex<StreamUpload>),
}

impl WebDavUpload {
    pub(super) async fn start(
        dav: WebDavSession,
        path: String,
        options: &PutOptions,
    ) -> Result<Self> {
        let size = options.size;
        let mtime = options.modified.and_then(|modified| dav.mtime(modified));
        // Many servers refuse names with control characters: this is checked before bytes are sent.
        let has_control_characters = path.contains(char::is_control);
        let is_refused = dav.names().moves == Some(false);
        let mut before = None;
        if size > TOGETHER_BYTES || has_control_characters || is_refused {
            before = dav.look(&path).await?;
            match &before {
                _ if options.expected.is_some() => {}
                Some(there) if there.kind == FileKind::Directory => {
                    return Err(dav.is_directory(&path));
                }
                Some(_) if !options.overwrite => return Err(dav.exists(&path)),
                _ => {}
            }
        }
        if let Some(expected) = &options.expected {
            dav.check_version(&path, expected).await?;
        }
        // A MOVE refused in one directory proves nothing about another, where a file may be lost.
        let is_sure = dav.root.is_in_federation() || dav.unmoved.has(parent(&path));
        let is_put_in_place = is_refused && (before.is_none() || is_sure);
        let moves = dav.names().moves.filter(|moves| *moves || is_put_in_place);
        let upload = |at, method| Self {
            dav: dav.clone(),
            path: path.clone(),
            size,
            options: options.clone(),
            before: before.clone(),
            mtime,
            at,
            method,
        };
        dav.check_replaceable(before.as_ref().filter(|_| is_put_in_place)).await?;
        if has_control_characters && dav.names().replaces {
            let place = dav.root.below(&path, false);
            let what =
                format!("{place}: this server cannot rename to names with control characters");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if size <= TOGETHER_BYTES {
            // An invalid name is rejected when the file is sent, before it has its final name.
            let at = if is_put_in_place { path.clone() } else { options.partial_path(&path) };
            return Ok(upload(at, UploadMethod::Together(Mutex::default())));
        }
        if let Some(at) = dav.resumed(&path, options).await? {
            return Ok(upload(at, UploadMethod::Pieces));
        }
        let (at, pieces) = match (moves, dav.names().pieces) {
            (Some(true), Some(pieces)) => (putting::name_aside(&path, options, pieces), pieces),
            (Some(false), _) => (path.clone(), false),
            _ => dav.try_out(&path, size, before.as_ref()).await?,
        };
        let method = if pieces {
            UploadMethod::Pieces
        } else {
            UploadMethod::Stream(tokio::sync::Mutex::default())
        };
        Ok(upload(at, method))
    }

    fn is_aside(&self) -> bool {
        self.at != self.path
    }

    /// The effect of a request for `at`: only this client knows the partial name.
    fn effect(&self, at: &str) -> Effect {
        if at == self.path { Effect::Change } else { Effect::Own }
    }

    fn put(&self, at: &str, content: RequestBody) -> HttpRequest {
        let call = HttpRequest::new(Method::PUT, self.dav.root.below(at, false))
            .with("content-type", "application/octet-stream")
            .with_effect(self.effect(at));
        // A file that is written under its own name can at least be protected against replacement.
        let call = if at == self.path { self.dav.conditional(call, &self.options) } else { call };
        // A file in pieces gets its time with its name: each piece is a change.
        let mtime = self.mtime.as_deref().filter(|_| !matches!(self.method, UploadMethod::Pieces));
        let call = if let Some(mtime) = mtime { call.with(X_OC_MTIME, mtime) } else { call };
        call.with_content(content)
    }

    /// Sends all bytes at once. Returns the same as [`WebDavSession::stored`].
    async fn put_together(&self, at: &str, bytes: Bytes) -> Result<Option<Error>> {
        let put = self.put(at, RequestBody::Bytes(bytes));
        self.dav.stored(at, self.dav.change(put, at).await?).await
    }

    async fn write_piece(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let last = offset + bytes.len() as u64 - 1;
        let put = self
            .put(&self.at, RequestBody::Bytes(bytes))
            .with("content-range", &format!("bytes {offset}-{last}/{}", self.size));
        // Metadata cannot confirm a single piece.
        let unseen = self.dav.stored(&self.at, self.dav.change(put, &self.at).await?).await?;
        unseen.map_or(Ok(()), Err)
    }

    async fn feed(&self, feeding: &mut StreamUpload, offset: u64, bytes: Bytes) -> Result<()> {
        if offset != feeding.fed {
            let what = format!(
                "bytes at {offset}, expected at {}: this upload is sequential",
                feeding.fed
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        if feeding.fed == 0 && feeding.answer.is_none() {
            let (stream, feed) = StreamedBody::new(self.size);
            let call = self.put(&self.at, RequestBody::Stream(stream));
            let dav = self.dav.clone();
            let at = self.at.clone();
            let runtime = dav.network.runtime().clone();
            feeding.answer = Some(runtime.spawn(async move { dav.change(call, &at).await }));
            feeding.feed = Some(feed);
        }
        let len = bytes.len() as u64;
        let taken = match &feeding.feed {
            Some(feed) => feed.send(bytes).await.is_ok(),
            None => false,
        };
        if !taken {
            // It ended early, and the response states the reason.
            feeding.feed = None;
            self.answered(feeding).await?;
            let what = format!("{}: the server stored only a part of the file", self.dav.root);
            return Err(Error::new(ErrorKind::Protocol, what));
        }
        feeding.fed += len;
        Ok(())
    }

    /// Waits for the response to the stream. Returns the same as [`WebDavSession::stored`].
    async fn answered(&self, feeding: &mut StreamUpload) -> Result<Option<Error>> {
        let Some(answer) = feeding.answer.take() else {
            return Err(Error::new(ErrorKind::Cancelled, "the upload failed earlier"));
        };
        let outcome = answer.await.map_err(|error| {
            Error::new(ErrorKind::Cancelled, "the upload was cancelled").with_source(error)
        })??;
        self.dav.stored(&self.at, outcome).await
    }

    /// Sends everything, except for the final name. Returns false if it is not confirmed yet that
    /// the server has all of it.
    async fn deliver(&self) -> Result<bool> {
        let missing = |seen: u64| {
            let what = format!("{}: {seen} of {} bytes were written", self.path, self.size);
            Error::new(ErrorKind::Invalid, what)
        };
        let unseen = match &self.method {
            UploadMethod::Together(buffer) => {
                let bytes = lock(buffer).clone().freeze();
                if bytes.len() as u64 != self.size {
                    return Err(missing(bytes.len() as u64));
                }
                let unseen = self.put_together(&self.at, bytes).await?;
                if unseen.is_none() && self.dav.names().trees == Some(true) {
                    return Ok(true);
                }
                if unseen.is_none() && self.options.is_looked_at && self.is_aside() {
                    return Ok(false);
                }
                unseen
            }
            UploadMethod::Stream(feeding) => {
                let mut feeding = feeding.lock().await;
                if feeding.fed != self.size {
                    return Err(missing(feeding.fed));
                }
                feeding.feed = None;
                self.answered(&mut feeding).await?
            }
            UploadMethod::Pieces => None,
        };
        let seen = self.dav.check_size(&self.file()).await;
        let Some(unseen) = unseen else { return seen.map(|_| true) };
        let seen = seen.map_err(|error| match error.kind() {
            ErrorKind::NotFound => unseen.clone(),
            _ => error,
        })?;
        if self.is_what_was_sent(&seen).await? { Ok(true) } else { Err(unseen) }
    }

    /// Returns true if the server has the sent bytes: by its checksum where it states one or the
    /// bytes are still here, else because the file is not the one from before the request.
    async fn is_what_was_sent(&self, seen: &DirEntry) -> Result<bool> {
        if let UploadMethod::Together(buffer) = &self.method
            && !self.dav.root.is_in_federation()
        {
            let expected = Hasher::of(Algorithm::Adler32, &lock(buffer));
            let reported = self.written_checksum(Algorithm::Adler32).await.unwrap_or_default();
            let there = match reported {
                Some(reported) => reported,
                None => self.read_back(&self.at, Algorithm::Adler32).await?,
            };
            return Ok(there == expected);
        }
        let is_old = |before| is_same_version(before, seen) != Some(false);
        Ok(self.is_aside() || !self.before.as_ref().is_some_and(is_old))
    }

    async fn read_back(&self, at: &str, algorithm: Algorithm) -> Result<Checksum> {
        let source = self.dav.source(at)?;
        let policy = self.dav.network.config().retry_policy();
        read_back(&*source, 0..self.size, algorithm, &policy).await
    }

    /// The expected file until it has its name.
    fn file(&self) -> DirEntry {
        DirEntry::new(&self.at, FileKind::File, self.size)
    }

    /// Compares the checksum of the file `at` on the server with the expected one. Returns false if
    /// there is none.
    async fn compare(&self, at: &str, expected: &Checksum) -> Result<bool> {
        let algorithm = expected.algorithm();
        let reported = match self.dav.checksum(at, algorithm).await {
            Ok(None) | Err(_) if self.options.read_back => {
                Some(self.read_back(at, algorithm).await?)
            }
            // A server without checksums is not an error.
            reported => reported.unwrap_or_default(),
        };
        match reported {
            Some(seen) if seen != *expected => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: the server has {seen}, expected {expected}",
                    self.dav.root.below(&self.path, false)
                ),
            )),
            reported => Ok(reported.is_some()),
        }
    }

    async fn give_name(&self, is_seen: bool, checksum: Option<&Checksum>) -> Result<()> {
        if !self.is_aside() {
            return Ok(());
        }
        let mtime = self.mtime.as_deref().filter(|_| matches!(self.method, UploadMethod::Pieces));
        let file = self.file();
        let moved = self.dav.give_name(&file, &self.path, &self.options, !is_seen, mtime).await;
        match (&moved, &self.method) {
            (Ok(()), _) if self.dav.names().moves != Some(true) => {
                self.dav.learn(|names| names.moves = Some(true));
            }
            (Err(error), UploadMethod::Together(buffer))
                if self.dav.cannot_move(error, &self.path) =>
            {
                let there = self.dav.look(&self.path).await?;
                if let Some(there) = &there {
                    if !self.options.overwrite {
                        return Err(self.dav.exists(&self.path));
                    }
                    if error.kind() != ErrorKind::Unsupported {
                        return moved;
                    }
                    self.dav.check_replaceable(Some(there)).await?;
                }
                let bytes = lock(buffer).clone().freeze();
                let put = self.put_together(&self.path, bytes).await;
                if let Some(unseen) = put.map_err(WebDavSession::refused_both_ways)? {
                    return Err(unseen);
                }
                let named = DirEntry { path: self.path.clone(), ..file };
                self.dav.check_size(&named).await?;
                if let Some(expected) = checksum
                    && let Err(error) = self.compare(&self.path, expected).await
                {
                    if error.kind() == ErrorKind::Corrupt {
                        drop(self.remove_damaged(there.as_ref()).await);
                    }
                    return Err(error);
                }
                drop(self.dav.discard(&self.at).await);
                return Ok(());
            }
            _ => {}
        }
        moved
    }

    async fn finish(self, checksum: Option<Checksum>) -> Result<CommittedFile> {
        let interruptions = self.dav.interruptions();
        let done = async {
            let is_seen = self.deliver().await?;
            let is_compared = match &checksum {
                Some(expected) => self.compare(&self.at, expected).await?,
                None => false,
            };
            let is_seen = is_seen || is_compared;
            self.give_name(is_seen, checksum.as_ref()).await?;
            Ok::<_, Error>((is_seen, is_compared))
        };
        match done.await {
            Ok((is_seen, is_compared)) => {
                let entry = DirEntry::new(&self.path, FileKind::File, self.size);
                let may_have_lost_bytes = self.dav.interruptions() != interruptions;
                Ok(CommittedFile { entry, is_compared, is_seen, may_have_lost_bytes })
            }
            Err(error) => {
                // The first error is reported.
                drop(self.clean_up(error.kind()).await);
                Err(self.dav.of_upload(error, &self.path, &self.options))
            }
        }
    }

    /// Removes what was written, after an error of this kind.
    async fn clean_up(&self, kind: ErrorKind) -> Result<()> {
        if self.is_aside() {
            return self.dav.discard(&self.at).await;
        }
        if kind != ErrorKind::Corrupt {
            return Ok(());
        }
        self.remove_damaged(self.before.as_ref()).await
    }

    /// Removes a file that has its final name, its size, and wrong bytes: the next job would take
    /// it for equal. One of another size stays: the next job sees it, or it is another client's. So
    /// does the file from `before`: a confirmed PUT may not have been carried out.
    async fn remove_damaged(&self, before: Option<&DirEntry>) -> Result<()> {
        let seen = listing::stat(&self.dav, &self.path).await?;
        let is_new = before.is_none_or(|old| is_same_version(old, &seen) == Some(false));
        if seen.size == Some(self.size) && is_new {
            self.dav.remove_version(&seen).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Upload for WebDavUpload {
    fn parallel(&self) -> usize {
        match self.method {
            UploadMethod::Pieces => self.dav.pool().max_connections().clamp(1, PARALLEL),
            UploadMethod::Together(_) | UploadMethod::Stream(_) => 1,
        }
    }

    fn max_small_files(&self) -> usize {
        let pool = self.dav.pool();
        connections::for_small_files(&pool.link(), pool.max_connections())
    }

    fn token(&self) -> Option<String> {
        matches!(self.method, UploadMethod::Pieces).then(|| file_name(&self.at).to_owned())
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.size) {
            let place = self.dav.root.below(&self.path, false);
            let what = format!("{place}: bytes beyond the declared size of {}", self.size);
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let written = match &self.method {
            UploadMethod::Pieces => self.write_piece(offset, bytes).await,
            UploadMethod::Stream(feeding) => {
                let mut feeding = feeding.lock().await;
                self.feed(&mut feeding, offset, bytes).await
            }
            UploadMethod::Together(buffer) => {
                let mut buffer = lock(buffer);
                if buffer.len() as u64 != offset {
                    let what = format!(
                        "bytes at {offset}, expected at {}: this upload is sequential",
                        buffer.len()
                    );
                    return Err(Error::new(ErrorKind::Invalid, what));
                }
                buffer.extend_from_slice(&bytes);
                Ok(())
            }
        };
        written.map_err(|error| hide_partial_name(error, &self.path))
    }

    fn interruptions(&self) -> u64 {
        // Other responses have not confirmed anything yet.
        if matches!(self.method, UploadMethod::Pieces) { self.dav.interruptions() } else { 0 }
    }

    async fn written_checksum(&self, algorithm: Algorithm) -> Result<Option<Checksum>> {
        self.dav.checksum(&self.at, algorithm).await
    }

    fn written_source(&self) -> Option<Arc<dyn Source>> {
        self.dav.source(&self.at).ok()
    }

    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<CommittedFile> {
        let path = self.path.clone();
        self.finish(checksum).await.map_err(|error| hide_partial_name(error, &path))
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        match &self.method {
            UploadMethod::Together(_) => return Ok(()),
            UploadMethod::Pieces => {}
            UploadMethod::Stream(feeding) => {
                let mut feeding = feeding.lock().await;
                feeding.feed = None;
                if feeding.fed == self.size {
                    // The server has all of it, and would create the file after it was removed.
                    drop(self.answered(&mut feeding).await);
                } else if let Some(answer) = feeding.answer.take() {
                    answer.abort();
                }
            }
        }
        if !self.is_aside() {
            return Ok(());
        }
        self.dav.discard(&self.at).await
    }
}
