//! The fetch of one piece by a worker, which receives and writes bytes concurrently.
//!
//! The connection delivers into the buffer of the piece, on the threads that drive sockets. As soon
//! as enough bytes wait there, they are written, one write at a time for each worker: by the same
//! thread if writes are quick, else by a thread that may block, while more bytes arrive. When the
//! memory budget is spent, the worker stops reading its connection until bytes have been written. A
//! piece is done when it is written, not when it has arrived, so that an interruption never costs a
//! worker more than its current block.
//!
//! A request that fails is sent again for the rest of the piece ([`hither_core::retry`]). Any
//! received byte counts as progress.

use crate::file::FileCopy;
use crate::file::blocks::piece::Piece;
use crate::file::write;
use futures_core::future::BoxFuture;
use hither_core::retry::{self, Failed};
use hither_core::{Error, ErrorKind, Failure, Part, ResponseMeta, Result, range};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tracing::{debug, trace};

/// The smallest write by another thread, in bytes: below, waking it costs more than copying.
pub const WRITE_BYTES: u64 = 1 << 20;
/// The smallest write by the same thread, in bytes: below, the system call costs more than copying;
/// far above, the first bytes have left the processor's cache.
const WRITE_IN_PLACE_BYTES: u64 = 256 << 10;
/// The bytes that a worker whose writes cannot keep up holds, besides those being written: more
/// would leave the processor's caches before they are written.
const MAX_WAITING_BYTES: u64 = 2 * WRITE_BYTES;

/// Fetches and writes a piece.
pub(crate) async fn run(file: &Arc<FileCopy>, piece: &Arc<Piece>) -> Result<()> {
    if file.is_local_copy() {
        return write::copy_piece(file, piece).await;
    }
    let attempt = || async {
        let missing = piece.buffer.missing();
        let worker = PieceFetch {
            file,
            piece,
            fetch: (missing.start < missing.end).then(|| fetch(file, piece)),
            fetched: Ok(()),
            write: None,
            is_full: false,
            pause: None,
            times: PieceTimes::begin(file.source.now()),
        };
        let fetched = worker.await.map_err(Failed::finally)?;
        let still_missing = piece.buffer.missing();
        if still_missing.is_empty() {
            return fetched.or_else(|error| match error.kind() {
                // The end of the response has shown that its bytes are of another version.
                ErrorKind::Changed => Err(Failed::finally(error)),
                // How a response ends does not matter once all bytes have come.
                _ => Ok(()),
            });
        }
        let bytes = range::len(&still_missing);
        let error = fetched.err().unwrap_or_else(|| {
            let message = format!("{}: the response lacks {bytes} requested bytes", file.item.name);
            Error::new(ErrorKind::Protocol, message).with_failure(Failure::Garbled)
        });
        let offset = still_missing.start;
        debug!(file = file.item.name, offset, bytes, %error, "piece failed");
        if file.blocks.is_over() {
            return Err(Failed::finally(error));
        }
        Err(Failed::from(error).after_progress(offset > missing.start))
    };
    retry::run(&file.resources.options.retry, file.source.source().clock(), attempt).await
}

/// The request for the missing bytes of a piece.
fn fetch<'a>(file: &'a Arc<FileCopy>, piece: &Arc<Piece>) -> BoxFuture<'a, Result<()>> {
    let request = file.source.request(piece.buffer.missing());
    let resources = Arc::clone(&file.resources);
    let directions = file.item.directions();
    let buffer_of = Arc::clone(piece);
    let keep = !file.discards_bytes();
    let needs_room = keep && !file.is_small();
    let sink = Box::new(move |part: Part| {
        let came = part.bytes.len() as u64;
        let taken = buffer_of.buffer.accept(&part, keep);
        resources.results.note_arrived(came, taken);
        if let Some(limiter) = &resources.options.bandwidth {
            limiter.take(came, directions);
        }
        if needs_room {
            resources.budget.hold(taken);
        }
        if !keep {
            resources.progress.done_bytes(taken);
        }
    });
    Box::pin(async move {
        let response: ResponseMeta = file.source.source().fetch(request, sink).await?;
        file.note_version();
        file.source.check_response(&response)
    })
}

struct PieceFetch<'a> {
    file: &'a Arc<FileCopy>,
    piece: &'a Arc<Piece>,
    fetch: Option<BoxFuture<'a, Result<()>>>,
    fetched: Result<()>,
    write: Option<BoxFuture<'static, Result<()>>>,
    /// The memory budget was used up at the last poll.
    is_full: bool,
    /// Ends when the limit of bandwidth allows more.
    pause: Option<BoxFuture<'static, ()>>,
    times: PieceTimes,
}

/// Times of one request for a piece, by the clock of its source.
#[derive(Debug)]
struct PieceTimes {
    began: Duration,
    fetched_at: Option<Duration>,
    blocked_since: Option<Duration>,
    blocked: Duration,
    writing_since: Option<Duration>,
    writing: Duration,
}

impl PieceTimes {
    fn begin(now: Duration) -> Self {
        Self {
            began: now,
            fetched_at: None,
            blocked_since: None,
            blocked: Duration::ZERO,
            writing_since: None,
            writing: Duration::ZERO,
        }
    }

    /// Records whether reading the connection is blocked from now on.
    fn block(&mut self, is_blocked: bool, now: Duration) {
        match self.blocked_since.take() {
            Some(since) if !is_blocked => self.blocked += now.saturating_sub(since),
            since => self.blocked_since = since.or_else(|| is_blocked.then_some(now)),
        }
    }
}

impl Drop for PieceFetch<'_> {
    fn drop(&mut self) {
        let now = self.file.source.now();
        let progress = &self.file.resources.progress;
        self.times.block(false, now);
        let times = &self.times;
        let fetching = times.fetched_at.unwrap_or(now).saturating_sub(times.began);
        progress.fetch.busy(fetching.saturating_sub(times.blocked));
        progress.fetch.blocked(times.blocked);
        let writing = times
            .writing_since
            .map_or(times.writing, |since| times.writing + now.saturating_sub(since));
        progress.write.starved(now.saturating_sub(times.began).saturating_sub(writing));
    }
}

impl PieceFetch<'_> {
    /// Starts a write of the waiting bytes, if they are enough and no write is in progress.
    fn start_write(&mut self) -> bool {
        if self.write.is_some() {
            return false;
        }
        let batch = if self.file.target.is_exact() {
            self.piece.buffer.take(self.file.blocks.block_bytes(), true)
        } else {
            let min_bytes = match self.file.target.writes_in_place() {
                _ if self.is_full || self.fetch.is_none() => 1,
                true => WRITE_IN_PLACE_BYTES,
                false => WRITE_BYTES,
            };
            self.piece.buffer.take(min_bytes, false)
        };
        self.write = batch.map(|batch| Box::pin(write::write(Arc::clone(self.file), batch)) as _);
        if self.write.is_some() {
            self.times.writing_since = Some(self.now());
        }
        self.write.is_some()
    }

    fn now(&self) -> Duration {
        self.file.source.now()
    }

    /// Ready when the limit of bandwidth allows more.
    fn poll_bandwidth(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let now = self.now();
            let directions = self.file.item.directions();
            let limiter = self.file.resources.options.bandwidth.as_ref();
            let Some(pause) = limiter.and_then(|limiter| limiter.pause(directions)) else {
                return Poll::Ready(());
            };
            self.times.block(true, now);
            self.pause = Some(pause);
        }
    }

    /// Ready when more may arrive. Where writes are whole blocks, the number of workers bounds the
    /// memory: the worker whose turn it is must never wait for the others.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_bandwidth(context));
        let exact = self.file.target.is_exact();
        let max_bytes = if exact { 2 * self.file.blocks.block_bytes() } else { MAX_WAITING_BYTES };
        if self.write.is_some() && self.piece.buffer.waiting_bytes() >= max_bytes {
            // The write under way wakes this worker.
            return Poll::Pending;
        }
        if exact { Poll::Ready(()) } else { self.file.resources.budget.poll_room(context) }
    }
}

impl Future for PieceFetch<'_> {
    /// The outer result is that of writing, the inner one that of fetching.
    type Output = Result<Result<()>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.piece.cut_off.register(context.waker());
        loop {
            if let Some(write) = &mut self.write
                && let Poll::Ready(written) = write.as_mut().poll(context)
            {
                self.write = None;
                if let Some(since) = self.times.writing_since.take() {
                    let now = self.now();
                    self.times.writing += now.saturating_sub(since);
                }
                if let Err(error) = written {
                    return Poll::Ready(Err(error));
                }
            }
            if self.start_write() {
                continue;
            }
            if self.piece.buffer.may_be_cut_off() || self.file.blocks.is_over() {
                self.fetch = None;
            }
            if self.fetch.is_none() {
                let now = self.now();
                self.times.block(false, now);
                self.times.fetched_at.get_or_insert(now);
                // The write in progress was polled above, and wakes this worker.
                return match self.write {
                    Some(_) => Poll::Pending,
                    None => Poll::Ready(Ok(std::mem::replace(&mut self.fetched, Ok(())))),
                };
            }
            if self.poll_room(context).is_pending() {
                let now = self.now();
                self.times.block(true, now);
                if std::mem::replace(&mut self.is_full, true) {
                    return Poll::Pending;
                }
                trace!(file = self.file.item.name, "receiving stalls until a write frees memory");
                continue;
            }
            self.is_full = false;
            if self.times.blocked_since.is_some() {
                let now = self.now();
                self.times.block(false, now);
            }
            let Some(fetch) = &mut self.fetch else { continue };
            match fetch.as_mut().poll(context) {
                Poll::Ready(fetched) => {
                    self.fetched = fetched;
                    self.fetch = None;
                }
                Poll::Pending if self.start_write() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests;
