//! One connection that carries one request at a time.

use crate::account::Account;
use bytes::Bytes;
use hither_core::Held;
use hither_core::link::TrainEstimator;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http1::SendRequest;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What goes with a request: nothing, a few bytes, or a stream.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A connection and what is watched on it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) sender: SendRequest<Body>,
    pub(crate) tap: Arc<Tap>,
    /// Answers received so far.
    pub(crate) answers: u64,
    /// The right to this connection among those of all processes.
    pub(crate) _claim: Option<Box<dyn Held>>,
}

/// What the bytes of one connection tell: how many, and how they were spaced; and when a request is on its way.
///
/// A request counts as sent when its first bytes are with the kernel, not when they are handed to the HTTP codec, which
/// drops those that nobody waits for any more: no server would know of them.
#[derive(Debug)]
pub(crate) struct Tap {
    account: Arc<Account>,
    opened: Instant,
    train: Mutex<TrainEstimator>,
    /// Bytes of the file that the next request asks for, until it is sent.
    asked: Mutex<Option<u64>>,
    /// The flight of the last request.
    flight: AtomicU64,
}

impl Tap {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            opened: Instant::now(),
            train: Mutex::default(),
            asked: Mutex::default(),
            flight: AtomicU64::new(0),
        }
    }

    fn arrived(&self, bytes: usize) {
        let now = self.opened.elapsed();
        self.account.received(bytes as u64);
        self.train.lock().unwrap_or_else(PoisonError::into_inner).arrived(now, bytes as u64);
    }

    /// If something was written, and a request was to be, that is under way.
    fn wrote(&self, polled: &Poll<std::io::Result<usize>>) {
        if !matches!(polled, Poll::Ready(Ok(1..))) {
            return;
        }
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bytes) = asked {
            self.flight.store(self.account.sent(bytes), Ordering::Release);
        }
    }

    /// The answer to the last request has begun to arrive.
    pub(crate) fn answered(&self) {
        self.account.answered(self.flight.load(Ordering::Acquire));
    }

    /// A request for so many bytes of a file is about to be written, and a new answer awaited: its bytes are a train of
    /// their own.
    pub(crate) fn restart(&self, rtt: Option<Duration>, bytes_asked: u64) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes_asked);
        *self.train.lock().unwrap_or_else(PoisonError::into_inner) = TrainEstimator::new(rtt);
    }

    pub(crate) fn bandwidth(&self) -> Option<f64> {
        self.train.lock().unwrap_or_else(PoisonError::into_inner).bandwidth()
    }
}

/// The stream under the HTTP codec, tapped.
#[derive(Debug)]
pub(crate) struct Tapped {
    stream: TcpStream,
    tap: Arc<Tap>,
}

impl Tapped {
    pub(crate) fn new(stream: TcpStream, tap: Arc<Tap>) -> Self {
        Self { stream, tap }
    }
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        if read > 0 {
            self.tap.arrived(read);
        }
        polled
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.tap.wrote(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.tap.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
