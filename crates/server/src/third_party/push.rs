//! A file is sent to another server (`COPY` with a `Destination` there).
//!
//! One PUT under the very name. A body of some size is not sent before the other server has said that it wants it, so one that
//! sends elsewhere first (as dCache's doors do), or refuses, has said so before anything moves. Where a connection breaks, the
//! file is sent again from its beginning, [`ATTEMPTS`] times in all.

use crate::authorization::authorizer::Action;
use crate::backend::{self, BackendError, ChecksumMode, FileReader};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::preconditions;
use crate::request::ServerRequest;
use crate::response::ServerResponse;
use crate::response::body::ResponseBody;
use crate::third_party::checksum_comparison::ChecksumComparison;
use crate::third_party::copier::{ThirdPartyCopier, local_error};
use crate::third_party::copy_request::CopyRequest;
use crate::third_party::copy_slot::CopyDirection;
use crate::third_party::perf_markers::{self, CopyProgress, MarkedCopy, TYPE};
use crate::third_party::pull::over;
use crate::third_party::remote::{self, RemoteState};
use crate::third_party::stall_watchdog::StallWatchdog;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hither_core::checksum::{Algorithm, Checksum, Hasher};
use hither_core::error::{Error, ErrorKind, Result, Retry};
use hither_http::digest::{DIGEST, Digest, DigestAlgorithm, REPR_DIGEST};
use hither_transport::{
    HttpRequest as Sent, HttpResponse, Location, Network, RequestBody, StreamedBody,
};
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode, header};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes that are read and sent at a time.
const BLOCK_BYTES: u64 = 1 << 20;
/// Times that a file is sent from its beginning.
const ATTEMPTS: u32 = 3;
/// What is computed of the bytes as they pass.
const PASSING: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];
/// Bytes that may be between a file and the kernel: a block that waits, one that is being sent, and what HTTP and TLS have.
const IN_MEMORY: u64 = 3 * BLOCK_BYTES;
/// Bytes that Linux holds of a connection at the most, if it does not say: those that were sent and not acknowledged, and more.
const IN_KERNEL: u64 = 4 << 20;
/// For the removal of what is left there of a file.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// What there is to do.
#[derive(Debug)]
struct Push {
    third: Arc<ThirdPartyCopier>,
    order: CopyRequest,
    reader: Arc<dyn FileReader>,
    replace: bool,
    progress: Arc<PushProgress>,
    /// The most bytes that were given to a connection and may not have reached the other machine.
    in_flight: u64,
}

/// How far it is.
#[derive(Debug)]
struct PushProgress {
    network: Arc<Network>,
    other: Location,
    /// Bytes that were given to the connection, and those that have surely reached the other machine.
    fed: AtomicU64,
    taken: AtomicU64,
    /// Something of the file was sent, and it may be there in part.
    is_torn: AtomicBool,
}

impl CopyProgress for PushProgress {
    fn count(&self) -> BoxFuture<'static, u64> {
        Box::pin(std::future::ready(self.taken.load(Ordering::Relaxed)))
    }

    fn address(&self) -> Option<SocketAddr> {
        self.network.address(&self.other)
    }
}

pub(crate) async fn handle(
    context: &Arc<ServerContext>,
    third: &Arc<ThirdPartyCopier>,
    request: &ServerRequest,
    url: &str,
) -> Result<ServerResponse, HttpError> {
    context.authorize(request, &request.path, Action::Read)?;
    let reader = context.backend.open(request.path.path()).await?;
    if reader.metadata().is_directory() || request.path.is_directory() {
        let what = "third-party copies are of files, and this is a directory";
        return Err(HttpError::new(StatusCode::FORBIDDEN, what));
    }
    preconditions::check(&request.headers, Some(reader.metadata()))?;
    let order = CopyRequest::parse(&request.headers, url)?;
    let replace = request.overwrites()?;
    let taking = third.take_slot(CopyDirection::Push, &context.copies)?;
    let before = match third.first_look(&order.other).await? {
        Ok(RemoteState::There(_)) if !replace => {
            let what =
                format!("{} exists, and the request does not allow to replace it", order.other);
            return Err(HttpError::new(StatusCode::PRECONDITION_FAILED, what));
        }
        Ok(look) => look,
        Err(error) => return Ok(over(taking, error)),
    };
    let progress = Arc::new(PushProgress {
        network: Arc::clone(&third.network),
        other: order.other.clone(),
        fed: AtomicU64::new(0),
        taken: AtomicU64::new(0),
        is_torn: AtomicBool::new(false),
    });
    let third = Arc::clone(third);
    let every = third.settings.marker();
    let (count, left) = (Arc::clone(&progress), Arc::clone(&progress));
    let clean_up = async move {
        if before == RemoteState::Absent && left.is_torn.load(Ordering::Relaxed) {
            // It has failed anyway.
            drop(tokio::time::timeout(CLEAN_UP, left.removed()).await);
        }
    };
    let push = Push { third, order, reader, replace, progress, in_flight: max_in_flight() };
    let telling =
        perf_markers::tell(MarkedCopy { work: push.run(), clean_up, count, every, taking });
    let answer = ServerResponse::empty(StatusCode::ACCEPTED).with(header::CONTENT_TYPE, TYPE);
    Ok(ServerResponse { body: ResponseBody::Stream(telling), ..answer })
}

impl PushProgress {
    /// Removes what is there of a file that was not there before.
    async fn removed(&self) -> Result<()> {
        match remote::look(&self.network, &self.other).await? {
            RemoteState::Absent => Ok(()),
            RemoteState::There(_) | RemoteState::Unknown => {
                let call = Sent::new(Method::DELETE, self.other.clone());
                self.network.call(call).await.map(drop)
            }
        }
    }
}

impl Push {
    async fn run(self) -> Result<u64> {
        let (size, other) = (self.reader.metadata().size, &self.order.other);
        let watch = StallWatchdog::new(&self.third, other);
        // The answer to all of it may take its time, which has a clock of its own.
        let moved = || Some(self.progress.fed.load(Ordering::Relaxed)).filter(|it| *it < size);
        let passed = watch.over(self.sent(), moved).await??;
        let told = remote::checksums(&self.third.network, other).await;
        let settings = &self.third.settings;
        let is_required = self.order.require_checksum.unwrap_or(settings.require_checksum);
        let comparison = ChecksumComparison { told, passed, is_required, other: other.to_string() };
        let compute = async |algorithm| {
            let computed = self.reader.checksum(algorithm, ChecksumMode::Compute).await;
            let computed = computed.map_err(|error| local_error(error.into()))?;
            computed.ok_or_else(changed)
        };
        comparison.compare(compute).await?;
        self.progress.is_torn.store(false, Ordering::Relaxed);
        Ok(size)
    }

    /// Sends the file until it was taken; the checksums of what was sent.
    async fn sent(&self) -> Result<Vec<Checksum>> {
        let mut attempt = 1;
        loop {
            self.progress.fed.store(0, Ordering::Relaxed);
            self.progress.taken.store(0, Ordering::Relaxed);
            let error = match self.sent_once().await {
                Ok(sums) => return Ok(sums),
                Err(error) => error,
            };
            match error.retry() {
                Retry::SameServer { after } if attempt < ATTEMPTS => {
                    tokio::time::sleep(after).await;
                    attempt += 1;
                }
                _ => return Err(error),
            }
        }
    }

    async fn sent_once(&self) -> Result<Vec<Checksum>> {
        let size = self.reader.metadata().size;
        let mut call = Sent::new(Method::PUT, self.order.other.clone());
        call.headers = self.fields().await;
        let (reply, sums) = match size <= BLOCK_BYTES {
            true => {
                // At hand, it can follow a redirect at any time.
                let mut hashers = PASSING.map(Hasher::new);
                let bytes = self.block(0, &mut hashers).await?;
                self.unchanged().await?;
                self.progress.fed.store(size, Ordering::Relaxed);
                call.content = RequestBody::Bytes(bytes);
                self.progress.is_torn.store(size > 0, Ordering::Relaxed);
                let reply = self.third.network.call(call).await?;
                (reply, Some(hashers.map(Hasher::finish).to_vec()))
            }
            false => {
                let (stream, feed) = StreamedBody::new(size);
                call.content = RequestBody::Stream(stream);
                self.streamed(call, feed).await?
            }
        };
        if !reply.status.is_success() {
            if reply.status.is_client_error() {
                // It has not taken it, and may have something else of that name by now.
                self.progress.is_torn.store(false, Ordering::Relaxed);
            }
            return Err(remote::refused(&reply, "PUT", &self.order));
        }
        self.progress.taken.store(size, Ordering::Relaxed);
        sums.ok_or_else(|| {
            let what =
                format!("{} responded before it had received the whole file", self.order.other);
            Error::new(ErrorKind::Protocol, what)
        })
    }

    /// Sends a call and feeds it; with the answer come the checksums of what went, if all of it did.
    async fn streamed(
        &self,
        call: Sent,
        feed: mpsc::Sender<Bytes>,
    ) -> Result<(HttpResponse, Option<Vec<Checksum>>)> {
        let mut calling = pin!(self.third.network.call(call));
        let mut feeding = pin!(self.fed(feed));
        let mut sums = None;
        loop {
            tokio::select! {
                reply = &mut calling => return Ok((reply?, sums)),
                fed = &mut feeding, if sums.is_none() => sums = Some(fed?),
            }
        }
    }

    /// Feeds all of the file, and sums it up.
    async fn fed(&self, feed: mpsc::Sender<Bytes>) -> Result<Vec<Checksum>> {
        let size = self.reader.metadata().size;
        let mut hashers = PASSING.map(Hasher::new);
        let mut at = 0;
        while at < size {
            let bytes = self.block(at, &mut hashers).await?;
            let next = at.saturating_add(bytes.len() as u64);
            if next >= size {
                // With the last block the file would be complete there.
                self.unchanged().await?;
            }
            if feed.send(bytes).await.is_err() {
                // It has been answered, or has failed: that is waited for elsewhere.
                std::future::pending::<()>().await;
            }
            self.progress.is_torn.store(true, Ordering::Relaxed);
            self.progress.taken.store(at.saturating_sub(self.in_flight), Ordering::Relaxed);
            self.progress.fed.store(next, Ordering::Relaxed);
            at = next;
        }
        Ok(hashers.map(Hasher::finish).to_vec())
    }

    /// Reads one block.
    async fn block(&self, at: u64, hashers: &mut [Hasher; 2]) -> Result<Bytes> {
        let length = BLOCK_BYTES.min(self.reader.metadata().size.saturating_sub(at));
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
        // A server that knows these looks before it gives the file its name.
        let stored = self.reader.checksum(Algorithm::Adler32, ChecksumMode::Cached).await;
        if let Ok(Some(sum)) = stored {
            let (algorithm, value) = (DigestAlgorithm::Adler32, sum.value().to_vec());
            let digest = Digest { algorithm, value };
            for (name, value) in
                [(DIGEST, digest.to_field()), (REPR_DIGEST, digest.to_repr_field())]
            {
                fields.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
            }
        }
        fields
    }
}

/// The most bytes of a file that were given to a connection and may not have reached the other
/// machine.
fn max_in_flight() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap_or_default();
    let most = text.split_ascii_whitespace().nth(2).and_then(|most| most.parse().ok());
    IN_MEMORY.saturating_add(most.unwrap_or(IN_KERNEL))
}

fn changed() -> Error {
    Error::new(ErrorKind::Changed, "the file changed while it was sent")
}
