//! The body of a request, and its progress.
//!
//! A body is bytes in memory, or a stream that another task feeds. Both are sent in pieces, whose
//! number shows progress: a connection that accepts no piece for a while is stalled; one that waits
//! for its feeder is not.
//!
//! A streamed body may first wait for the server's permission (`Expect: 100-continue`, RFC 9110
//! section 10.1.1). A server that redirects or rejects does so before anything was sent, so the
//! stream can be sent elsewhere as a whole. If the server does not respond, the body is sent after
//! [`CONTINUE_TIMEOUT`].

use bytes::Bytes;
use hither_core::error::Delivery;
use hither_core::sync::lock;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

/// The maximum wait for "100 Continue". Servers that support it respond within a round trip.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that are sent at a time.
const PIECE_BYTES: usize = 128 * 1024;

/// The body of a request in the type of every connection.
pub(crate) type BoxBody = UnsyncBoxBody<Bytes, io::Error>;

/// The body of a request.
#[derive(Debug, Clone)]
pub enum RequestBody {
    /// No body.
    Empty,
    /// Bytes in memory, which can be sent again.
    Bytes(Bytes),
    /// A stream, which can be sent again as long as nothing of it was taken.
    Stream(StreamedBody),
}

impl RequestBody {
    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stream(stream) => stream.bytes,
        }
    }

    /// Returns whether it can be sent from its beginning.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Empty | Self::Bytes(_) => true,
            Self::Stream(stream) => !stream.taken.load(Ordering::Acquire),
        }
    }
}

/// A body that another task feeds.
#[derive(Debug, Clone)]
pub struct StreamedBody {
    bytes: u64,
    receiver: Arc<Mutex<mpsc::Receiver<Bytes>>>,
    taken: Arc<AtomicBool>,
}

impl StreamedBody {
    /// A body of `bytes` bytes, and the sender that feeds it. At most one block waits while another
    /// is being sent.
    #[must_use]
    pub fn new(bytes: u64) -> (Self, mpsc::Sender<Bytes>) {
        let (sender, receiver) = mpsc::channel(1);
        let receiver = Arc::new(Mutex::new(receiver));
        (Self { bytes, receiver, taken: Arc::default() }, sender)
    }
}

/// The progress of a body.
#[derive(Debug, Default)]
pub(crate) struct SendProgress {
    taken: AtomicU64,
    waiting: AtomicBool,
    done: AtomicBool,
}

impl SendProgress {
    /// Bytes that the connection has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns whether the body waits for its feeder or the server's permission, not for the
    /// connection.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns whether all of it was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// The part of the request that may have left this machine.
    pub(crate) fn delivery(&self) -> Delivery {
        if self.is_done() { Delivery::Sent } else { Delivery::Partial }
    }
}

/// A body that is being sent.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    content: RequestBody,
    left: u64,
    /// The rest of the last block of the stream.
    current: Bytes,
    gate: Option<Gate>,
    progress: Arc<SendProgress>,
}

#[derive(Debug)]
struct Gate {
    /// `None` once it cannot be opened any more, because the response has come: it may redirect.
    opened: Option<oneshot::Receiver<()>>,
    timeout: Pin<Box<Sleep>>,
}

impl TrackedBody {
    /// Sends `content`. With a `gate`, waits until it is opened or [`CONTINUE_TIMEOUT`] has passed.
    pub(crate) fn new(
        content: RequestBody,
        gate: Option<oneshot::Receiver<()>>,
    ) -> (Self, Arc<SendProgress>) {
        let progress = Arc::new(SendProgress::default());
        let left = content.len();
        progress.done.store(left == 0, Ordering::Relaxed);
        let current = match &content {
            RequestBody::Bytes(bytes) => bytes.clone(),
            RequestBody::Empty | RequestBody::Stream(_) => Bytes::new(),
        };
        let timeout = || Box::pin(tokio::time::sleep(CONTINUE_TIMEOUT));
        let gate = gate.map(|opened| Gate { opened: Some(opened), timeout: timeout() });
        (Self { content, left, current, gate, progress: Arc::clone(&progress) }, progress)
    }

    /// Takes the next block of the stream.
    fn poll_current(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let RequestBody::Stream(stream) = &self.content else { return Poll::Ready(Ok(())) };
        let mut receiver = lock(&stream.receiver);
        while self.current.is_empty() {
            match receiver.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    return Poll::Ready(Err(io::Error::other("the upload was cancelled")));
                }
                Poll::Ready(Some(bytes)) if bytes.len() as u64 > self.left => {
                    return Poll::Ready(Err(io::Error::other("more bytes than the declared size")));
                }
                Poll::Ready(Some(bytes)) => {
                    stream.taken.store(true, Ordering::Release);
                    self.current = bytes;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            self.progress.done.store(true, Ordering::Relaxed);
            return Poll::Ready(None);
        }
        self.progress.waiting.store(true, Ordering::Relaxed);
        if let Some(gate) = &mut self.gate {
            let answer = gate.opened.as_mut().map(|opened| Pin::new(opened).poll(cx));
            let is_open = matches!(answer, Some(Poll::Ready(Ok(()))));
            if let Some(Poll::Ready(Err(_))) = answer {
                gate.opened = None;
            }
            if !is_open && gate.timeout.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.gate = None;
        }
        match self.poll_current(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => {}
        }
        self.progress.waiting.store(false, Ordering::Relaxed);
        let len = self.current.len().min(PIECE_BYTES);
        let piece = self.current.split_to(len);
        self.left = self.left.saturating_sub(len as u64);
        self.progress.taken.fetch_add(len as u64, Ordering::Relaxed);
        self.progress.done.store(self.left == 0, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
