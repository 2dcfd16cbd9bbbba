//! Sends a file to another server (`COPY` with a `Destination` there).
//!
//! A push is one PUT to the final path. A body of some size is sent only after the other server has
//! agreed to it, so a server that redirects first (as dCache's doors do) or returns an error does
//! so before any data moves. If a connection breaks before all of the file was sent, it is sent
//! again from its beginning ([`hither_core::retry`]).
//!
//! The copy is a success when the file was seen on the other server with its size, and with its
//! checksum where that server reports one. The HEAD that asks for the checksum shows both. If the
//! server refuses the HEAD, its own status that it created or replaced the file suffices
//! ([`ChangeOutcome`]).
//!
//! The part that a failed push has left is removed if it is certainly its own: no file was there
//! before, its size is one that this push has sent, and it still has the version that was seen.

use crate::authorization::authorizer::Action;
use crate::backend::{self, BackendError, ChecksumMode, FileReader};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions::Conditions;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::body::ResponseBody;
use crate::third_party::checksum_comparison::ChecksumComparison;
use crate::third_party::copier::{ThirdPartyCopier, local_error};
use crate::third_party::copy_request::CopyRequest;
use crate::third_party::copy_slot::CopyDirection;
use crate::third_party::perf_markers::{self, CopyProgress, MarkedCopy, TYPE};
use crate::third_party::pull::failed;
use crate::third_party::remote::{self, RemoteState};
use crate::third_party::stall_watchdog::StallWatchdog;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hither_checksum::{Algorithm, Checksum, Hasher};
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::retry;
use hither_core::sync::lock;
use hither_http::digest::{self, DIGEST, REPR_DIGEST};
use hither_transport::{
    ChangeOutcome, HttpRequest, Location, MonotonicClock, Network, RequestBody, StreamedBody,
};
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode, header};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes read and sent at a time.
const BLOCK_BYTES: u64 = 1 << 20;
/// The checksums computed of the bytes as they pass.
const PASSING: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];
/// The maximum of bytes between the file and the kernel: a block that waits, one that is being
/// sent, and the buffers of HTTP and TLS.
const MAX_IN_MEMORY: u64 = 3 * BLOCK_BYTES;
/// Linux' default maximum of bytes in a socket's send buffer, including unacknowledged ones.
const MAX_IN_KERNEL: u64 = 4 << 20;
/// The maximum time for removing a partial file.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// A push that is about to run.
#[derive(Debug)]
struct Push {
    copier: Arc<ThirdPartyCopier>,
    copy_request: CopyRequest,
    reader: Arc<dyn FileReader>,
    replace: bool,
    before: RemoteState,
    progress: Arc<PushProgress>,
    /// The maximum of bytes that the connection took and the other machine may not have received.
    max_in_flight: u64,
}

/// A file that was sent.
struct Sent {
    /// The checksums of the sent bytes.
    passed: Vec<Checksum>,
    /// The reason why the outcome is uncertain, if only a HEAD can confirm the file.
    unseen: Option<Error>,
}

/// The progress of a push.
#[derive(Debug)]
struct PushProgress {
    network: Arc<Network>,
    other: Location,
    size: u64,
    /// Bytes that the connection took, and bytes that have certainly reached the other machine.
    fed: AtomicU64,
    taken: AtomicU64,
    /// Set while the other server may have a part of the file.
    is_partial: AtomicBool,
    /// The entity tag of a file that was seen and is wrong.
    wrong: Mutex<Option<HeaderValue>>,
}

impl CopyProgress for PushProgress {
    fn count(&self) -> BoxFuture<'static, u64> {
        Box::pin(std::future::ready(self.taken.load(Ordering::Relaxed)))
    }

    fn address(&self) -> Option<SocketAddr> {
        self.network.address(&self.other)
    }
}

/// Handles a `COPY` that sends a file.
pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    copier: &Arc<ThirdPartyCopier>,
    request: &ServerRequest,
    url: &str,
) -> Result<ServerResponse, HttpError> {
    context.authorize(request, &request.path, Action::Read)?;
    let reader = context.open(request).await?;
    if reader.metadata().is_directory() || request.path.is_directory() {
        let what = "third-party copies are of files, and this is a directory";
        return Err(HttpError::new(StatusCode::FORBIDDEN, what));
    }
    Conditions::read(context, request, None).await?.check(Some(reader.metadata()))?;
    let copy_request = CopyRequest::parse(&request.headers, url)?;
    let replace = request.overwrites()?;
    let slot = copier.take_slot(context, request, CopyDirection::Push)?;
    let before = match copier.first_look(&copy_request.other).await? {
        Ok(RemoteState::There(_)) if !replace => {
            return Err(HttpError::may_not_overwrite(&copy_request.other));
        }
        Ok(look) => look,
        Err(error) => return Ok(failed(slot, error)),
    };
    let progress = Arc::new(PushProgress {
        network: Arc::clone(&copier.network),
        other: copy_request.other.clone(),
        size: reader.metadata().open_bytes(),
        fed: AtomicU64::new(0),
        taken: AtomicU64::new(0),
        is_partial: AtomicBool::new(false),
        wrong: Mutex::default(),
    });
    let copier = Arc::clone(copier);
    let interval = copier.settings.marker();
    let partial = Arc::clone(&progress);
    let clean_up = async move {
        if before == RemoteState::Absent && partial.is_partial.load(Ordering::Relaxed) {
            // The copy has failed in any case.
            drop(tokio::time::timeout(CLEAN_UP, partial.remove_partial()).await);
        }
    };
    let push = Push {
        copier,
        copy_request,
        reader,
        replace,
        before,
        progress: Arc::clone(&progress),
        max_in_flight: max_in_flight(),
    };
    let copy = MarkedCopy { work: push.run(), clean_up, progress, interval, slot };
    let body = ResponseBody::Stream(perf_markers::run_reported(copy));
    let response = ServerResponse::empty(StatusCode::ACCEPTED).with(header::CONTENT_TYPE, TYPE);
    Ok(ServerResponse { body, ..response })
}

impl PushProgress {
    /// Removes the other server's part of a file that did not exist before, unless another copy may
    /// have stored it.
    async fn remove_partial(&self) -> Result<()> {
        let seen = remote::sent_file(&self.network, &self.other).await?;
        let RemoteState::There(size) = seen.state else { return Ok(()) };
        let is_wrong = seen.tag.is_some() && *lock(&self.wrong) == seen.tag;
        let sent = self.taken.load(Ordering::Relaxed)..=self.fed.load(Ordering::Relaxed);
        if !is_wrong && (size >= self.size || !sent.contains(&size)) {
            return Ok(());
        }
        let mut delete = HttpRequest::new(Method::DELETE, self.other.clone());
        delete.headers.extend(seen.tag.map(|tag| (header::IF_MATCH, tag)));
        self.network.change(delete).await.map(drop)
    }
}

impl Push {
    async fn run(self) -> Result<u64> {
        let size = self.reader.metadata().open_bytes();
        let other = &self.copy_request.other;
        let watchdog = StallWatchdog::new(&self.copier, other);
        // The response to the whole file may take long; it has a timeout of its own.
        let moved = || Some(self.progress.fed.load(Ordering::Relaxed)).filter(|it| *it < size);
        let Sent { passed, unseen } = watchdog.over(self.send(), moved).await??;
        let seen = remote::sent_file(&self.copier.network, other).await;
        match (seen.as_ref().map(|file| file.state), unseen) {
            (Ok(RemoteState::There(there)), None) if there == size => {
                // It is removed if it turns out to be wrong.
                let tag = seen.as_ref().ok().and_then(|file| file.tag.clone());
                *lock(&self.progress.wrong) = tag;
            }
            // A file of this size may have been there before.
            (Ok(RemoteState::There(there)), Some(_))
                if there == size
                    && (self.before == RemoteState::Absent
                        || seen.as_ref().is_ok_and(|file| !file.checksums.is_empty())) => {}
            (Ok(RemoteState::There(there)), None) => {
                let what = format!("{other} has {there} bytes, expected {size}");
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
            (Ok(RemoteState::Absent), None) => {
                let what = format!("{other} does not exist, although the server confirmed it");
                return Err(Error::new(ErrorKind::Protocol, what));
            }
            (_, Some(unseen)) => return Err(unseen),
            (Ok(RemoteState::Unknown) | Err(_), None) => {}
        }
        let reported = seen.map(|file| file.checksums);
        let settings = &self.copier.settings;
        let is_required = self.copy_request.require_checksum.unwrap_or(settings.require_checksum);
        let other = other.to_string();
        let comparison = ChecksumComparison { reported, passed, is_required, other };
        let compute = async |algorithm| {
            let computed = self.reader.checksum(algorithm, ChecksumMode::Compute).await;
            let computed = computed.map_err(|error| local_error(error.into()))?;
            computed.ok_or_else(changed)
        };
        comparison.compare(compute).await?;
        self.progress.is_partial.store(false, Ordering::Relaxed);
        Ok(size)
    }

    /// Sends the file until the other server has it, or may have it.
    async fn send(&self) -> Result<Sent> {
        let attempt = || async {
            self.progress.fed.store(0, Ordering::Relaxed);
            self.progress.taken.store(0, Ordering::Relaxed);
            Ok(self.send_once().await?)
        };
        let policy = self.copier.network.config().retry_policy();
        retry::run(&policy, &MonotonicClock::start(), attempt).await
    }

    async fn send_once(&self) -> Result<Sent> {
        let size = self.reader.metadata().open_bytes();
        let mut put = HttpRequest::new(Method::PUT, self.copy_request.other.clone());
        put.headers = self.fields().await;
        let (outcome, sums) = if size <= BLOCK_BYTES {
            // A body in memory can follow a redirect at any time.
            let mut hashers = PASSING.map(Hasher::new);
            let bytes = self.block(0, &mut hashers).await?;
            self.unchanged().await?;
            self.progress.fed.store(size, Ordering::Relaxed);
            put.content = RequestBody::Bytes(bytes);
            self.progress.is_partial.store(size > 0, Ordering::Relaxed);
            let outcome = self.copier.network.change(put).await?;
            (outcome, Some(hashers.map(Hasher::finish).to_vec()))
        } else {
            let (stream, feed) = StreamedBody::new(size);
            put.content = RequestBody::Stream(stream);
            self.send_streamed(put, feed).await?
        };
        let unseen = match outcome {
            ChangeOutcome::Done(_) => None,
            ChangeOutcome::Unseen(error) => Some(error),
            ChangeOutcome::Refused(response) => {
                if response.status.is_client_error() {
                    // The server did not store the file, and may have got another one of that name.
                    self.progress.is_partial.store(false, Ordering::Relaxed);
                }
                return Err(remote::status_error(&response, "PUT", &self.copy_request));
            }
        };
        self.progress.taken.store(size, Ordering::Relaxed);
        match (sums, unseen) {
            (Some(passed), unseen) => Ok(Sent { passed, unseen }),
            (None, Some(unseen)) => Err(unseen),
            (None, None) => {
                let other = &self.copy_request.other;
                let what = format!("{other} responded before it had received the whole file");
                Err(Error::new(ErrorKind::Protocol, what))
            }
        }
    }

    /// Sends a request and feeds its body. Returns the response, with the checksums if the whole
    /// body was sent.
    async fn send_streamed(
        &self,
        put: HttpRequest,
        feed: mpsc::Sender<Bytes>,
    ) -> Result<(ChangeOutcome, Option<Vec<Checksum>>)> {
        let mut sending = pin!(self.copier.network.change(put));
        let mut feeding = pin!(self.feed(feed));
        let mut sums = None;
        loop {
            tokio::select! {
                response = &mut sending => return Ok((response?, sums)),
                fed = &mut feeding, if sums.is_none() => sums = Some(fed?),
            }
        }
    }

    /// Feeds the whole file, and returns its checksums.
    async fn feed(&self, feed: mpsc::Sender<Bytes>) -> Result<Vec<Checksum>> {
        let size = self.reader.metadata().open_bytes();
        let mut hashers = PASSING.map(Hasher::new);
        let mut at = 0;
        while at < size {
            let bytes = self.block(at, &mut hashers).await?;
            let next = at.saturating_add(bytes.len() as u64);
            if next >= size {
                // The last block would complete the file there.
                self.unchanged().await?;
            }
            if feed.send(bytes).await.is_err() {
                // The request has ended; the caller awaits its response or error.
                std::future::pending::<()>().await;
            }
            self.progress.is_partial.store(true, Ordering::Relaxed);
            self.progress.taken.store(at.saturating_sub(self.max_in_flight), Ordering::Relaxed);
            self.progress.fed.store(next, Ordering::Relaxed);
            at = next;
        }
        Ok(hashers.map(Hasher::finish).to_vec())
    }

    /// Reads one block.
    async fn block(&self, at: u64, hashers: &mut [Hasher; 2]) -> Result<Bytes> {
        let length = BLOCK_BYTES.min(self.reader.metadata().open_bytes().saturating_sub(at));
        let read = backend::read_range(&*self.reader, at..at.saturating_add(length)).await;
        let block = read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(),
            _ => local_error(BackendError::from(error).into()),
        })?;
        let mut sums = hashers.clone();
        let hashed = tokio::task::spawn_blocking(move || {
            sums.iter_mut().for_each(|hasher| hasher.update(&block));
            (block, sums)
        });
        let (block, sums) =
            hashed.await.map_err(|_| local_error(BackendError::shutting_down().into()))?;
        *hashers = sums;
        Ok(block)
    }

    /// Fails if the file has changed since it was opened.
    async fn unchanged(&self) -> Result<()> {
        match self.reader.is_current().await {
            Ok(true) => Ok(()),
            _ => Err(changed()),
        }
    }

    async fn fields(&self) -> HeaderMap {
        let mut fields = HeaderMap::new();
        let kind = HeaderValue::from_static("application/octet-stream");
        fields.insert(header::CONTENT_TYPE, kind);
        if !self.replace {
            fields.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        // A server that supports these fields verifies before it gives the file its name.
        let stored = self.reader.checksum(Algorithm::Adler32, ChecksumMode::Cached).await;
        if let Ok(Some(sum)) = stored {
            for (name, value) in
                [(DIGEST, digest::to_field(&sum)), (REPR_DIGEST, digest::to_repr_field(&sum))]
            {
                fields.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
            }
        }
        fields
    }
}

/// The maximum of bytes that a connection took and the other machine may not have received.
fn max_in_flight() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap_or_default();
    let max = text.split_ascii_whitespace().nth(2).and_then(|max| max.parse().ok());
    MAX_IN_MEMORY.saturating_add(max.unwrap_or(MAX_IN_KERNEL))
}

fn changed() -> Error {
    Error::new(ErrorKind::Changed, "the file changed while it was sent")
}
