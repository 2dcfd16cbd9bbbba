//! A stream with timeouts for the first bytes and for writes, so that a client cannot hold it
//! forever. (The timeout between requests is hyper's, the one within the body of a request
//! [`crate::connection::incoming_body`]'s.)

use crate::connection::tcp_info::SocketGuard;
use std::future::Future;
use std::io;
use std::pin::Pin;
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
    stream: S,
    /// Runs until the first bytes arrive.
    first: Option<Pin<Box<Sleep>>>,
    stall: Duration,
    /// Runs while a write waits.
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    pub(crate) fn new(stream: S, first: Duration, stall: Duration) -> Self {
        let first = Some(Box::pin(sleep(first)));
        Self { guard: None, stream, first, stall, writing: None }
    }

    /// Keeps the guard of the stream's socket until the stream ends.
    pub(crate) fn guarded(mut self, guard: SocketGuard) -> Self {
        self.guard = Some(guard);
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
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.first = None;
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const SOON: Duration = Duration::from_millis(20);
    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_client_that_sends_nothing_times_out() {
        let (_client, server) = tokio::io::duplex(64);
        let mut server = TimeoutStream::new(server, SOON, NEVER);
        let error = server.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn after_the_first_bytes_a_silent_client_does_not_time_out() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = TimeoutStream::new(server, SOON, NEVER);
        client.write_all(b"a").await.unwrap();
        server.read_u8().await.unwrap();
        let waiting = tokio::time::timeout(SOON * 10, server.read_u8());
        assert!(waiting.await.is_err(), "no error of its own");
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_times_out() {
        let (_client, server) = tokio::io::duplex(64);
        let mut server = TimeoutStream::new(server, NEVER, SOON);
        let error = server.write_all(&[0; 256]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
