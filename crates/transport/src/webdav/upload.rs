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
//! The time of the file goes along as `X-OC-Mtime`, which ownCloud, Nextcloud, rclone and hither
//! keep and others ignore: with the PUT, or with the final name of a file in pieces.
//!
//! A server without support for pieces may reject them (nginx: 501) or, worse, take a piece for the
//! whole file (XrdHttp). So an unknown server is tested: only the last byte of the file is put into
//! the new file, which must then have the length of the whole. Before that, an empty file is put
//! and moved, to test whether it can be moved. On a server that cannot move, a file is put under
//! its own name; an interrupted upload may then leave a part of it.

use super::{WebDavStorage, X_OC_MTIME, listing};
use crate::http::call::{HttpRequest, HttpResponse};
use crate::http::request_body::{RequestBody, StreamedBody};
use crate::http::status_error;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use hither_core::checksum::Checksum;
use hither_core::error::{Effect, Error, ErrorKind, Result};
use hither_core::storage::unique_partial_name;
use hither_core::storage::{
    DirEntry, FileKind, PutOptions, Upload, file_name, hide_partial_name, parent, partial_token,
    sibling,
};
use hither_core::sync::lock;
use hither_core::tune::connections;
use http::{Method, StatusCode};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A file up to this size in bytes is sent together: pieces would not be faster.
const TOGETHER_BYTES: u64 = 1 << 20;
/// More connections do not fill a path better.
const PARALLEL: usize = 32;

/// A file that is being written to a WebDAV server.
#[derive(Debug)]
pub(super) struct WebDavUpload {
    dav: WebDavStorage,
    path: String,
    size: u64,
    overwrite: bool,
    /// The time of the file, as `X-OC-Mtime` has it.
    mtime: Option<String>,
    /// The name to write to; the file's own name where it cannot be moved.
    at: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Together(Mutex<BytesMut>),
    Pieces,
    Stream(tokio::sync::Mutex<Feeding>),
}

/// A PUT that is being fed.
#[derive(Debug)]
struct Feeding {
    fed: u64,
    feed: Option<mpsc::Sender<Bytes>>,
    answer: Option<JoinHandle<Result<HttpResponse>>>,
}

impl Drop for Feeding {
    fn drop(&mut self) {
        if let Some(answer) = &self.answer {
            answer.abort();
        }
    }
}

impl Way {
    fn stream() -> Self {
        Self::Stream(tokio::sync::Mutex::new(Feeding { fed: 0, feed: None, answer: None }))
    }
}

impl WebDavUpload {
    pub(super) async fn start(
        dav: WebDavStorage,
        path: String,
        options: &PutOptions,
    ) -> Result<Self> {
        let size = options.size;
        let overwrite = options.overwrite;
        let mtime = options.modified.map(|modified| mtime(&dav, modified));
        let upload = |at, way| Self {
            dav: dav.clone(),
            path: path.clone(),
            size,
            overwrite,
            mtime: mtime.clone(),
            at,
            way,
        };
        // Names with control characters are refused by many servers: nothing is sent in vain.
        let is_doubtful = path.contains(char::is_control);
        let is_put_in_place = dav.names().moves == Some(false);
        if size > TOGETHER_BYTES || is_doubtful || is_put_in_place {
            match dav.look(&path).await? {
                Some(there) if there.kind == FileKind::Directory => {
                    return Err(dav.is_directory(&path));
                }
                Some(_) if !overwrite => return Err(dav.exists(&path)),
                _ => {}
            }
        }
        if is_doubtful && dav.names().replaces {
            let place = dav.root.below(&path, false);
            let what =
                format!("{place}: this server cannot rename to names with control characters");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if size <= TOGETHER_BYTES {
            // An invalid name is rejected when the file is sent, before it has its final name.
            let at = if is_put_in_place { path.clone() } else { options.partial_path(&path) };
            return Ok(upload(at, Way::Together(Mutex::default())));
        }
        if let Some(at) = resumed(&dav, &path, options).await? {
            return Ok(upload(at, Way::Pieces));
        }
        let names = dav.names();
        let (at, pieces) = match (names.moves, names.pieces) {
            (Some(true), Some(pieces)) => (sibling(&path, &unique_partial_name(&path)), pieces),
            (Some(false), _) => (path.clone(), false),
            _ => try_out(&dav, &path, size).await?,
        };
        let way = if pieces { Way::Pieces } else { Way::stream() };
        Ok(upload(at, way))
    }

    fn is_aside(&self) -> bool {
        self.at != self.path
    }

    /// The effect of a request for `at`: nobody else knows the partial name.
    fn effect(&self, at: &str) -> Effect {
        if at == self.path { Effect::Change } else { Effect::Own }
    }

    fn put(&self, at: &str, content: RequestBody) -> HttpRequest {
        let call = HttpRequest::new(Method::PUT, self.dav.root.below(at, false))
            .with("content-type", "application/octet-stream")
            .with_effect(self.effect(at));
        // A file that is written under its own name can at least be protected against replacement.
        let call =
            if at == self.path && !self.overwrite { call.with("if-none-match", "*") } else { call };
        // A file in pieces gets its time with its name: each piece is a change.
        let mtime = self.mtime.as_deref().filter(|_| !matches!(self.way, Way::Pieces));
        let call = if let Some(mtime) = mtime { call.with(X_OC_MTIME, mtime) } else { call };
        call.with_content(content)
    }

    /// Sends all bytes at once.
    async fn put_together(&self, at: &str, bytes: Bytes) -> Result<()> {
        let reply = self.dav.call(self.put(at, RequestBody::Bytes(bytes))).await?;
        stored(&self.dav, at, &reply).await
    }

    async fn write_piece(&self, offset: u64, bytes: Bytes) -> Result<()> {
        let last = offset + bytes.len() as u64 - 1;
        let call = self
            .put(&self.at, RequestBody::Bytes(bytes))
            .with("content-range", &format!("bytes {offset}-{last}/{}", self.size));
        let reply = self.dav.call(call).await?;
        stored(&self.dav, &self.at, &reply).await
    }

    async fn feed(&self, feeding: &mut Feeding, offset: u64, bytes: Bytes) -> Result<()> {
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
            let runtime = dav.network.runtime().clone();
            feeding.answer = Some(runtime.spawn(async move { dav.call(call).await }));
            feeding.feed = Some(feed);
        }
        let len = bytes.len() as u64;
        let taken = match &feeding.feed {
            Some(feed) => feed.send(bytes).await.is_ok(),
            None => false,
        };
        if !taken {
            // It ended early, and the response says why.
            feeding.feed = None;
            self.answered(feeding).await?;
            let what = format!("{}: the server stored only a part of the file", self.dav.root);
            return Err(Error::new(ErrorKind::Protocol, what));
        }
        feeding.fed += len;
        Ok(())
    }

    /// Waits for the response to the stream.
    async fn answered(&self, feeding: &mut Feeding) -> Result<()> {
        let Some(answer) = feeding.answer.take() else {
            return Err(Error::new(ErrorKind::Cancelled, "the upload failed earlier"));
        };
        let reply = answer.await.map_err(|error| {
            Error::new(ErrorKind::Cancelled, "the upload was cancelled").with_source(error)
        })??;
        stored(&self.dav, &self.at, &reply).await
    }

    /// Sends everything, except for the final name.
    async fn deliver(&self) -> Result<()> {
        let missing = |seen: u64| {
            let what = format!("{}: {seen} of {} bytes were written", self.path, self.size);
            Error::new(ErrorKind::Invalid, what)
        };
        match &self.way {
            Way::Together(buffer) => {
                let bytes = lock(buffer).clone().freeze();
                if bytes.len() as u64 != self.size {
                    return Err(missing(bytes.len() as u64));
                }
                return self.put_together(&self.at, bytes).await;
            }
            Way::Stream(feeding) => {
                let mut feeding = feeding.lock().await;
                if feeding.fed != self.size {
                    return Err(missing(feeding.fed));
                }
                feeding.feed = None;
                self.answered(&mut feeding).await?;
            }
            Way::Pieces => {}
        }
        let there = listing::sized(&self.dav, &self.at).await?.size;
        if there != Some(self.size) {
            let place = self.dav.root.below(&self.at, false);
            let seen =
                there.map_or_else(|| "an unknown number of".to_owned(), |there| there.to_string());
            let what = format!("{place} has {seen} bytes on the server, expected {}", self.size);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        Ok(())
    }

    /// Compares the checksum on the server with the expected one.
    async fn compare(&self, expected: &Checksum) -> Result<()> {
        use hither_core::storage::Storage;
        // A server without checksums is not an error.
        let told = self.dav.checksum(&self.at, expected.algorithm()).await.unwrap_or_default();
        match told {
            Some(seen) if seen != *expected => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: the server has {seen}, expected {expected}",
                    self.dav.root.below(&self.path, false)
                ),
            )),
            _ => Ok(()),
        }
    }

    async fn give_name(&self) -> Result<()> {
        if !self.is_aside() {
            return Ok(());
        }
        let mtime = self.mtime.as_deref().filter(|_| matches!(self.way, Way::Pieces));
        let moved = self.dav.move_file(&self.at, &self.path, self.overwrite, mtime).await;
        match (&moved, &self.way) {
            (Ok(()), _) if self.dav.names().moves.is_none() => {
                self.dav.learn(|names| names.moves = Some(true));
            }
            (Err(error), Way::Together(buffer)) if error.kind() == ErrorKind::Unsupported => {
                self.dav.learn(|names| names.moves = Some(false));
                if !self.overwrite && self.dav.look(&self.path).await?.is_some() {
                    return Err(self.dav.exists(&self.path));
                }
                let bytes = lock(buffer).clone().freeze();
                self.put_together(&self.path, bytes).await?;
                drop(self.dav.delete_with(&self.at, false, Effect::Own).await);
                return Ok(());
            }
            _ => {}
        }
        moved
    }

    async fn finish(self, checksum: Option<Checksum>) -> Result<DirEntry> {
        let mut done = self.deliver().await;
        if let (Ok(()), Some(expected)) = (&done, &checksum) {
            done = self.compare(expected).await;
        }
        if done.is_ok() {
            done = self.give_name().await;
        }
        if let Err(error) = done {
            if self.is_aside() || error.kind() == ErrorKind::Corrupt {
                // The first error is reported.
                drop(self.dav.discard(&self.at, self.effect(&self.at)).await);
            }
            return Err(error);
        }
        Ok(DirEntry::new(&self.path, FileKind::File, self.size))
    }
}

#[async_trait]
impl Upload for WebDavUpload {
    fn parallel(&self) -> usize {
        match self.way {
            Way::Pieces => {
                self.dav.network.pool(&self.dav.root).max_connections().clamp(1, PARALLEL)
            }
            Way::Together(_) | Way::Stream(_) => 1,
        }
    }

    fn max_small_files(&self) -> usize {
        let pool = self.dav.network.pool(&self.dav.root);
        connections::for_small_files(&pool.link(), pool.max_connections())
    }

    fn token(&self) -> Option<String> {
        matches!(self.way, Way::Pieces).then(|| file_name(&self.at).to_owned())
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
        let written = match &self.way {
            Way::Pieces => self.write_piece(offset, bytes).await,
            Way::Stream(feeding) => {
                let mut feeding = feeding.lock().await;
                self.feed(&mut feeding, offset, bytes).await
            }
            Way::Together(buffer) => {
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

    async fn commit(self: Box<Self>, checksum: Option<Checksum>) -> Result<DirEntry> {
        let path = self.path.clone();
        self.finish(checksum).await.map_err(|error| hide_partial_name(error, &path))
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        match &self.way {
            Way::Together(_) => return Ok(()),
            Way::Pieces => {}
            Way::Stream(feeding) => {
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
        self.dav.discard(&self.at, self.effect(&self.at)).await
    }
}

/// The name that an earlier attempt used, if it can be resumed. It need not have its length yet:
/// the last piece sets it.
async fn resumed(dav: &WebDavStorage, path: &str, options: &PutOptions) -> Result<Option<String>> {
    let Some(token) = options.resume.as_deref().and_then(partial_token) else { return Ok(None) };
    let at = sibling(path, token);
    let there = dav.look(&at).await?;
    let same = |entry: &DirEntry| {
        entry.kind == FileKind::File && entry.size.is_some_and(|size| size <= options.size)
    };
    Ok(there.as_ref().is_some_and(same).then_some(at))
}

/// The value of `X-OC-Mtime`: seconds since 1970, with fractions for servers that are known to keep
/// them.
fn mtime(dav: &WebDavStorage, modified: SystemTime) -> String {
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    match (dav.names().trees, since.subsec_nanos()) {
        (Some(true), nanos @ 1..) => format!("{}.{nanos:09}", since.as_secs()),
        _ => since.as_secs().to_string(),
    }
}

/// Tests what the server supports. Returns the name to write to, and whether to send pieces.
async fn try_out(dav: &WebDavStorage, path: &str, size: u64) -> Result<(String, bool)> {
    let first = sibling(path, &unique_partial_name(path));
    let put = |at: &str, bytes: &'static [u8]| {
        HttpRequest::new(Method::PUT, dav.root.below(at, false))
            .with_effect(Effect::Own)
            .with_content(RequestBody::Bytes(Bytes::from_static(bytes)))
    };
    let reply = dav.call(put(&first, b"")).await?;
    stored(dav, &first, &reply).await?;
    let at = sibling(path, &unique_partial_name(path));
    match dav.move_to(&first, &at, false, false, None).await {
        Ok(()) => dav.learn(|names| names.moves = Some(true)),
        Err(error) => {
            drop(dav.delete_with(&first, false, Effect::Own).await);
            if error.kind() != ErrorKind::Unsupported {
                return Err(error);
            }
            dav.learn(|names| names.moves = Some(false));
            return Ok((path.to_owned(), false));
        }
    }
    let last = size - 1;
    let piece = put(&at, b"\0").with("content-range", &format!("bytes {last}-{last}/{size}"));
    let taken = dav.call(piece).await?.status.is_success();
    let pieces = taken && dav.look(&at).await?.is_some_and(|entry| entry.size == Some(size));
    dav.learn(|names| names.pieces = Some(pieces));
    Ok((at, pieces))
}

/// Fails unless the response to a PUT says that the bytes are stored.
async fn stored(dav: &WebDavStorage, at: &str, reply: &HttpResponse) -> Result<()> {
    if reply.status.is_success() {
        return Ok(());
    }
    let error = status_error::of_response(reply, "PUT");
    // nginx cannot open a file in a missing directory, and responds with 500.
    if reply.status == StatusCode::INTERNAL_SERVER_ERROR && dav.look(parent(at)).await?.is_none() {
        return Err(dav.missing(parent(at)));
    }
    Err(error)
}
