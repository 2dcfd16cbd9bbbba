//! The byte meter of a connection: received bytes, their spacing, and when a request was sent.

use crate::connect::low_water::LowWater;
use crate::connect::source_addresses::SourceUse;
use crate::connect::tcp_info::SocketGuard;
use crate::counters::TransferCounters;
use crate::counters::activity::ConnectionRecorder;
use crate::counters::progress::PoolProgress;
use hither_core::source::link::BandwidthEstimator;
use hither_core::sync::lock;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The meter of one connection: the number of received bytes, their spacing, and the time when a
/// request is sent.
///
/// A request counts as sent when the kernel has its first bytes, not when the HTTP codec has it:
/// the codec drops cancelled requests, which no server sees.
#[derive(Debug)]
pub(crate) struct ConnectionMeter {
    counters: Arc<TransferCounters>,
    /// Shared with the other connections of the pool.
    progress: PoolProgress,
    opened: Instant,
    train: Mutex<BandwidthEstimator>,
    /// Bytes of the file that the next request asks for, until it is sent.
    requested: Mutex<Option<u64>>,
    /// The round trip of the last request.
    round_trip: AtomicU64,
    received: AtomicU64,
    /// Bytes that had been received when the last request was sent.
    received_before: AtomicU64,
    /// The last response is not complete before this number of bytes has been received.
    response_end: AtomicU64,
    /// For explanations of a job.
    recorder: Option<ConnectionRecorder>,
    /// The source address, if the client chose one.
    source: OnceLock<SourceUse>,
}

impl ConnectionMeter {
    pub(crate) fn new(counters: Arc<TransferCounters>, progress: PoolProgress) -> Self {
        let recorder = counters.activity().map(|it| ConnectionRecorder::new(Arc::clone(it)));
        Self {
            recorder,
            counters,
            progress,
            opened: Instant::now(),
            train: Mutex::default(),
            requested: Mutex::default(),
            round_trip: AtomicU64::new(0),
            received: AtomicU64::new(0),
            received_before: AtomicU64::new(0),
            response_end: AtomicU64::new(0),
            source: OnceLock::new(),
        }
    }

    /// The transfer counters.
    pub(crate) fn counters(&self) -> &TransferCounters {
        &self.counters
    }

    /// The recorder of what the connection does, if there is one.
    pub(crate) fn recorder(&self) -> Option<&ConnectionRecorder> {
        self.recorder.as_ref()
    }

    /// Records the source address of the connection.
    pub(crate) fn set_source(&self, source: SourceUse) {
        // A meter is for one connection.
        drop(self.source.set(source));
    }

    /// Counts the connection as one that carries a request, or no longer.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.source.get().inspect(|it| it.set_busy(is_busy));
    }

    /// The connections from the same source address that carry requests.
    pub(crate) fn busy(&self) -> usize {
        self.source.get().map_or(0, SourceUse::busy)
    }

    /// Gives up the connection's slot if another source address has two fewer; see
    /// [`SourceUse::yields`].
    pub(crate) fn yields(&self) -> bool {
        self.source.get().is_some_and(SourceUse::yields)
    }

    fn is_cut(&self) -> bool {
        self.source.get().is_some_and(SourceUse::is_cut)
    }

    fn arrived(&self, bytes: usize) {
        self.source.get().inspect(|it| it.received(bytes as u64));
        if let Some(recorder) = &self.recorder {
            recorder.arrived(bytes as u64);
        }
        let now = self.opened.elapsed();
        self.counters.received(bytes as u64);
        self.progress.note();
        self.received.fetch_add(bytes as u64, Ordering::AcqRel);
        lock(&self.train).arrived(now, bytes as u64);
    }

    /// Counts the pending request as sent in round trip `round_trip`, if something was written.
    fn wrote(&self, round_trip: u64, polled: &Poll<std::io::Result<usize>>) {
        let Poll::Ready(Ok(written @ 1..)) = polled else { return };
        self.counters.wrote(*written as u64);
        self.progress.note();
        self.source.get().inspect(|it| it.sent(*written as u64));
        let requested = lock(&self.requested).take();
        if let Some(recorder) = &self.recorder {
            if requested.is_some() {
                recorder.sent();
            }
            recorder.wrote(*written as u64);
        }
        if let Some(bytes) = requested {
            self.counters.sent(round_trip, bytes);
            self.round_trip.store(round_trip, Ordering::Release);
        }
    }

    /// Records that the response to the last request has begun.
    pub(crate) fn answered(&self) {
        self.counters.answered(self.round_trip.load(Ordering::Acquire));
    }

    /// Records that the response to the last request has a body of `length` bytes.
    pub(crate) fn expects_body(&self, length: u64) {
        let before = self.received_before.load(Ordering::Acquire);
        self.response_end.store(before.saturating_add(length), Ordering::Release);
    }

    /// Bytes that certainly have yet to arrive of the last response.
    fn left(&self) -> u64 {
        let received = self.received.load(Ordering::Acquire);
        self.response_end.load(Ordering::Acquire).saturating_sub(received)
    }

    /// Records that a request for `requested_bytes` bytes of a file will be written. The bytes of
    /// its response are a packet train of their own.
    pub(crate) fn restart(&self, rtt: Option<Duration>, requested_bytes: u64) {
        self.response_end.store(0, Ordering::Release);
        self.received_before.store(self.received.load(Ordering::Acquire), Ordering::Release);
        *lock(&self.requested) = Some(requested_bytes);
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
    meter: Arc<ConnectionMeter>,
    low_water: LowWater,
}

impl MeteredStream {
    pub(crate) fn new(stream: TcpStream, guard: SocketGuard, meter: Arc<ConnectionMeter>) -> Self {
        Self { _guard: guard, stream, meter, low_water: LowWater::new() }
    }

    /// The meter.
    pub(crate) fn meter(&self) -> &Arc<ConnectionMeter> {
        &self.meter
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        this.low_water.set(&this.stream, this.meter.left());
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        if read > 0 {
            this.meter.arrived(read);
            this.low_water.read(read as u64);
        } else if matches!(polled, Poll::Ready(Ok(()))) && this.meter.is_cut() {
            // The server did not end the connection: the received bytes are not all.
            let what = "nothing answers through the source address of the connection";
            return Poll::Ready(Err(std::io::Error::new(ErrorKind::ConnectionAborted, what)));
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
        let round_trip = self.meter.counters.next_round_trip();
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.meter.wrote(round_trip, &polled);
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
        let round_trip = self.meter.counters.next_round_trip();
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.meter.wrote(round_trip, &polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::tcp_info::SocketRef;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::Notify;
    use tokio::time::timeout;

    const HEAD: [u8; 100] = [0; 100];
    const BODY_BYTES: usize = 64 << 20;
    const REST: [u8; 3_000] = [0; 3_000];

    /// The rest arrives when everything before it was read, on a connection that stays open.
    #[tokio::test]
    async fn long_bodies_are_read_to_their_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let (_socket, guard) = SocketRef::to(&stream);
        let meter = Arc::new(ConnectionMeter::new(Arc::default(), PoolProgress::default()));
        let mut stream = MeteredStream::new(stream, guard, Arc::clone(&meter));
        let is_read = Notify::new();
        for _ in 0..2 {
            meter.restart(None, 0);
            peer.write_all(&HEAD).await.unwrap();
            stream.read_exact(&mut [0; HEAD.len()]).await.unwrap();
            meter.expects_body((BODY_BYTES + REST.len()) as u64);
            let writing = async {
                peer.write_all(&vec![0; BODY_BYTES]).await.unwrap();
                is_read.notified().await;
                peer.write_all(&REST).await.unwrap();
            };
            let reading = async {
                let mut buffer = vec![0; 64 << 10];
                let mut left = BODY_BYTES + REST.len();
                while left > 0 {
                    left -= stream.read(&mut buffer).await.unwrap();
                    if left == REST.len() {
                        is_read.notify_one();
                    }
                }
            };
            let both = async { tokio::join!(writing, reading) };
            timeout(Duration::from_secs(60), both).await.unwrap();
        }
    }
}
