//! The stream of one connection, plain or TLS.
//!
//! An error of TLS, or of a server on the wrong port, appears here as an I/O error in the middle of
//! HTTP. It is explained at once, and the explanation travels inside the I/O error through the HTTP
//! codec to [`tls_error`], which extracts it.

use crate::connect::metered_stream::MeteredStream;
use crate::connect::tls::{TlsErrorText, TlsStream};
use hither_core::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct MaybeTlsStream {
    wire: Wire,
    explains: TlsErrorText,
    /// Nothing has been received yet.
    fresh: bool,
}

#[derive(Debug)]
enum Wire {
    Plain(MeteredStream),
    Tls(Box<TlsStream>),
}

impl MaybeTlsStream {
    pub(crate) fn plain(stream: MeteredStream, explains: TlsErrorText) -> Self {
        Self { wire: Wire::Plain(stream), explains, fresh: true }
    }

    pub(crate) fn tls(stream: TlsStream, explains: TlsErrorText) -> Self {
        Self { wire: Wire::Tls(Box::new(stream)), explains, fresh: true }
    }

    fn explained(&self, error: io::Error) -> io::Error {
        match self.explains.session(&error) {
            Some(explained) => io::Error::new(error.kind(), explained),
            None => error,
        }
    }
}

/// The explained error among the causes of `error`, if there is one.
pub(crate) fn tls_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut inner = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref());
    inner.find_map(|cause| cause.downcast_ref::<Error>().cloned())
}

/// The beginning of a TLS alert (RFC 8446 section 5.1): how a TLS server responds to an unencrypted
/// request.
const ALERT: [u8; 2] = [21, 3];

impl AsyncRead for MaybeTlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match &mut self.wire {
            Wire::Tls(stream) => {
                let polled = ready!(Pin::new(stream).poll_read(cx, buf));
                Poll::Ready(polled.map_err(|error| self.explained(error)))
            }
            Wire::Plain(stream) => {
                ready!(Pin::new(stream).poll_read(cx, buf))?;
                let first = std::mem::take(&mut self.fresh);
                if first && buf.filled().get(before..).is_some_and(|read| read.starts_with(&ALERT))
                {
                    let error = self.explains.plain();
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for MaybeTlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.wire {
            Wire::Plain(stream) => return Pin::new(stream).poll_write(cx, buf),
            Wire::Tls(stream) => ready!(Pin::new(stream).poll_write(cx, buf)),
        };
        Poll::Ready(polled.map_err(|error| self.explained(error)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.wire {
            Wire::Plain(stream) => return Pin::new(stream).poll_write_vectored(cx, bufs),
            Wire::Tls(stream) => ready!(Pin::new(stream).poll_write_vectored(cx, bufs)),
        };
        Poll::Ready(polled.map_err(|error| self.explained(error)))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
