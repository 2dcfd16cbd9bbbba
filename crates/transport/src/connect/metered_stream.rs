//! The byte meter of a connection: received bytes, their spacing, and when a request was sent.

use crate::connect::tcp_info::SocketGuard;
use crate::counters::TransferCounters;
use hither_core::sync::lock;
use hither_core::tune::link::BandwidthEstimator;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The meter of one connection: the number of received bytes, their spacing, and the time when a
/// request is sent.
///
/// A request counts as sent when the kernel has its first bytes, not when the HTTP codec has it:
/// the codec drops requests that nobody waits for any more, and no server sees those.
#[derive(Debug)]
pub(crate) struct ConnectionMeter {
    account: Arc<TransferCounters>,
    opened: Instant,
    train: Mutex<BandwidthEstimator>,
    /// Bytes of the file that the next request asks for, until it is sent.
    asked: Mutex<Option<u64>>,
    /// The round trip of the last request.
    round_trip: AtomicU64,
}

impl ConnectionMeter {
    pub(crate) fn new(account: Arc<TransferCounters>) -> Self {
        Self {
            account,
            opened: Instant::now(),
            train: Mutex::default(),
            asked: Mutex::default(),
            round_trip: AtomicU64::new(0),
        }
    }

    /// The transfer counters.
    pub(crate) fn account(&self) -> &TransferCounters {
        &self.account
    }

    fn arrived(&self, bytes: usize) {
        let now = self.opened.elapsed();
        self.account.received(bytes as u64);
        lock(&self.train).arrived(now, bytes as u64);
    }

    /// Counts the pending request as sent in round trip `round_trip`, if something was written.
    fn wrote(&self, round_trip: u64, polled: &Poll<std::io::Result<usize>>) {
        if !matches!(polled, Poll::Ready(Ok(1..))) {
            return;
        }
        let asked = lock(&self.asked).take();
        if let Some(bytes) = asked {
            self.account.sent(round_trip, bytes);
            self.round_trip.store(round_trip, Ordering::Release);
        }
    }

    /// Records that the response to the last request has begun.
    pub(crate) fn answered(&self) {
        self.account.answered(self.round_trip.load(Ordering::Acquire));
    }

    /// Records that a request for `bytes_asked` bytes of a file will be written. The bytes of its
    /// response are a packet train of their own.
    pub(crate) fn restart(&self, rtt: Option<Duration>, bytes_asked: u64) {
        *lock(&self.asked) = Some(bytes_asked);
        self.watch(rtt);
    }

    /// Begins a new packet train for the responses that follow.
    pub(crate) fn watch(&self, rtt: Option<Duration>) {
        *lock(&self.train) = BandwidthEstimator::new(rtt);
    }

    pub(crate) fn bandwidth(&self) -> Option<f64> {
        lock(&self.train).bandwidth()
    }
}

/// The stream below the HTTP codec, with its meter.
#[derive(Debug)]
pub(crate) struct MeteredStream {
    /// Dropped before the stream.
    _guard: SocketGuard,
    stream: TcpStream,
    tap: Arc<ConnectionMeter>,
}

impl MeteredStream {
    pub(crate) fn new(stream: TcpStream, guard: SocketGuard, tap: Arc<ConnectionMeter>) -> Self {
        Self { _guard: guard, stream, tap }
    }
}

impl AsyncRead for MeteredStream {
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

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let round_trip = self.tap.account.next_round_trip();
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.tap.wrote(round_trip, &polled);
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
        let round_trip = self.tap.account.next_round_trip();
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.tap.wrote(round_trip, &polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
