//! A stream with timeouts for the first bytes and for writes, so that a client cannot hold it
//! forever. (The timeout between requests is the [monitor]'s, the one within the body of a request
//! [`crate::connection::incoming_body`]'s.)
//!
//! Bytes that arrive between requests are the head of the next one. hyper bounds each; here they
//! count against the memory of the server, so that many connections cannot hold more than that.
//!
//! [monitor]: crate::connection::monitor

use crate::connection::monitor::ConnectionMonitor;
use crate::connection::table::OpenConnection;
use crate::response::buffer_pool::{ChargePurpose, MemoryCharge};
use hither_transport::SocketGuard;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tracing::debug;

/// A stream with timeouts for the first bytes and for writes.
#[derive(Debug)]
pub(crate) struct TimeoutStream<S> {
    /// Declared first, so that it is dropped before the stream.
    guard: Option<SocketGuard>,
    head: Option<HeadCharge>,
    stream: S,
    /// Runs until the first bytes arrive.
    first: Option<Pin<Box<Sleep>>>,
    stall: Duration,
    /// Runs while a write waits.
    writing: Option<Pin<Box<Sleep>>>,
}

/// The memory of the head that is arriving.
#[derive(Debug)]
struct HeadCharge {
    monitor: Arc<ConnectionMonitor>,
    charge: MemoryCharge,
    /// The number of requests before this head, and its bytes so far.
    begun: u64,
    bytes: usize,
    /// Its end has arrived.
    has_ended: bool,
    /// The size from which on hyper refuses it.
    max_bytes: usize,
}

impl HeadCharge {
    fn new(connection: &OpenConnection, max_bytes: usize) -> Self {
        Self {
            monitor: Arc::clone(&connection.monitor),
            charge: MemoryCharge::new(&connection.memory, ChargePurpose::Head),
            begun: 0,
            bytes: 0,
            has_ended: false,
            max_bytes,
        }
    }

    /// Counts the bytes that were read. Returns false if there is no memory for them.
    fn arrived(&mut self, read: &[u8]) -> bool {
        let begun = self.monitor.begun();
        if self.begun != begun || self.monitor.is_active() {
            (self.begun, self.bytes, self.has_ended) = (begun, 0, false);
            self.charge.reset();
        }
        if self.monitor.is_active() {
            return true;
        }
        // The bytes behind a head that were read with it belong to its body. A client that sends
        // further heads instead gains one uncounted read.
        let end = read.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        let bytes = end.filter(|_| !self.has_ended).unwrap_or(read.len());
        self.has_ended |= end.is_some();
        self.bytes = self.max_bytes.min(self.bytes + bytes);
        self.charge.extend(self.bytes)
    }
}

impl<S> TimeoutStream<S> {
    pub(crate) fn new(stream: S, first: Duration, stall: Duration) -> Self {
        let first = Some(Box::pin(sleep(first)));
        Self { guard: None, head: None, stream, first, stall, writing: None }
    }

    /// Keeps the guard of the stream's socket until the stream ends, and has the heads of requests
    /// count against the memory of the connection.
    pub(crate) fn counted(
        mut self,
        guard: SocketGuard,
        connection: &OpenConnection,
        max_bytes: usize,
    ) -> Self {
        self.guard = Some(guard);
        self.head = Some(HeadCharge::new(connection, max_bytes));
        self
    }

    /// Returns the result of a write; a pending one runs into the timeout.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let stall = self.stall;
        let timeout = self.writing.get_or_insert_with(|| Box::pin(sleep(stall)));
        match timeout.as_mut().poll(cx) {
            Poll::Ready(()) => {
                debug!(?stall, "connection stalled: the client reads nothing");
                Poll::Ready(Err(timed_out("write timeout: the client reads nothing")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.first = None;
            let read = buffer.filled().get(before..).unwrap_or_default();
            if self.head.as_mut().is_some_and(|head| !head.arrived(read)) {
                debug!("connection ended: there is no memory for the head of its request");
                let what = "the heads of requests that are arriving take all of their memory";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, what)));
            }
        } else if let Some(first) = &mut self.first
            && first.as_mut().poll(cx).is_ready()
        {
            debug!("connection idle: the client sent nothing");
            return Poll::Ready(Err(timed_out("timeout: the client sent nothing")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::table::ConnectionTable;
    use crate::response::buffer_pool::BufferPool;
    use crate::settings::ServerLimits;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const SOON: Duration = Duration::from_millis(20);
    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn the_body_that_arrives_with_a_head_does_not_count_as_one() {
        // Heads may take 4 KiB of it, and 8 KiB are free.
        let memory = Arc::new(BufferPool::new(64 << 10));
        let table = Arc::new(ConnectionTable::new(&ServerLimits::default(), &memory));
        let connection = table.admit([192, 0, 2, 1].into()).await.unwrap();
        let head = || HeadCharge::new(&connection, 64 << 10);
        let body = vec![b'x'; 60 << 10];
        let put = [b"PUT / HTTP/1.1\r\nContent-Length: 61440\r\n\r\n", &*body].concat();
        assert!(head().arrived(&put));
        assert!(!head().arrived(&body), "a head that does not end");
        let mut several = head();
        assert!(several.arrived(&put));
        assert!(!several.arrived(&put), "the end counts once before a request begins");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_times_out() {
        let (_client, server) = tokio::io::duplex(64);
        let mut server = TimeoutStream::new(server, SOON, NEVER);
        let error = server.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_first_bytes_a_silent_client_does_not_time_out() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = TimeoutStream::new(server, SOON, NEVER);
        client.write_all(b"a").await.unwrap();
        server.read_u8().await.unwrap();
        let waiting = tokio::time::timeout(SOON * 10, server.read_u8());
        assert!(waiting.await.is_err(), "no error of its own");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_times_out() {
        let (_client, server) = tokio::io::duplex(64);
        let mut server = TimeoutStream::new(server, NEVER, SOON);
        let error = server.write_all(&[0; 256]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
