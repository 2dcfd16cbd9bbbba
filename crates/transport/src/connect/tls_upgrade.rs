//! A stream that sends a message before TLS without waiting for the response.
//!
//! Over `roots://` a client requests TLS unencrypted, and the server confirms unencrypted. The
//! first message of TLS does not depend on that confirmation, so it is sent right behind the
//! request, in the same segment, which saves one round trip. [`TlsUpgradeStream`] is the stream
//! below TLS that does so: it writes the request before the first bytes, and removes the response
//! from the first bytes that it reads.
//!
//! The response has a fixed form: 16 bytes for the handshake of XRootD, and a frame for the request
//! `protocol`, whose header of 8 bytes ends with its length. This module only finds its end; the
//! caller interprets it.

use bytes::{Bytes, BytesMut};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The response to the handshake, and the header of the frame behind it.
const FIXED_BYTES: usize = 16 + 8;
/// The offset of the length of the frame.
const LENGTH_AT: usize = 20;
/// No server sends a longer response.
const MAX_BYTES: usize = 64 * 1024;

/// A stream that sends a message before TLS.
#[derive(Debug)]
pub(crate) struct TlsUpgradeStream<S> {
    stream: S,
    /// The message, until it is written.
    unsent: Bytes,
    received: BytesMut,
    answer: Arc<OnceLock<Bytes>>,
}

impl<S> TlsUpgradeStream<S> {
    /// Sends `words` on `stream` first. The returned cell receives the response, also if TLS fails
    /// after it.
    pub(crate) fn new(stream: S, words: Bytes) -> (Self, Arc<OnceLock<Bytes>>) {
        let answer = Arc::<OnceLock<Bytes>>::default();
        let preface =
            Self { stream, unsent: words, received: BytesMut::new(), answer: Arc::clone(&answer) };
        (preface, answer)
    }

    /// Bytes of the response that are still missing, as far as known.
    fn missing(&self) -> io::Result<usize> {
        let length =
            self.received.get(LENGTH_AT..FIXED_BYTES).and_then(|field| field.try_into().ok());
        let whole = match length.map(u32::from_be_bytes) {
            None => FIXED_BYTES,
            Some(length) => match usize::try_from(length) {
                Ok(length @ ..=MAX_BYTES) => FIXED_BYTES + length,
                _ => {
                    let what = format!(
                        "the response to the request for TLS declares {length} bytes, expected a few dozen"
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            },
        };
        Ok(whole - self.received.len())
    }
}

impl<S: AsyncRead + Unpin> TlsUpgradeStream<S> {
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                let received = std::mem::take(&mut self.received).freeze();
                // Set once: this code is not reached again.
                let _first = self.answer.set(received);
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; 64];
            let mut buffer = ReadBuf::new(bytes.get_mut(..missing.min(64)).unwrap_or_default());
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.received.extend_from_slice(buffer.filled());
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TlsUpgradeStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.answer.get().is_none() {
            ready!(self.poll_answer(cx))?;
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TlsUpgradeStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.unsent.is_empty() {
            return Pin::new(&mut self.stream).poll_write(cx, buf);
        }
        // One write, so that both leave in one segment. Bytes that the kernel accepts count for the
        // words first.
        let together = [&self.unsent, buf].concat();
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &together))?;
        let sent = written.min(self.unsent.len());
        let _sent = self.unsent.split_to(sent);
        match written - sent {
            0 if !buf.is_empty() => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            written => Poll::Ready(Ok(written)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn answer(length: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![1; LENGTH_AT];
        bytes.extend(length.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[tokio::test]
    async fn early_bytes_precede_the_handshake_and_their_response_is_kept_from_tls() {
        // A pipe of this size splits everything.
        for pipe in [3, 64, 4096] {
            let (ours, mut theirs) = duplex(pipe);
            let (mut preface, received) = TlsUpgradeStream::new(ours, Bytes::from_static(b"words"));
            let server = tokio::spawn(async move {
                let mut seen = [0; 10];
                theirs.read_exact(&mut seen).await.unwrap();
                theirs.write_all(&answer(3, b"yes")).await.unwrap();
                theirs.write_all(b"tls").await.unwrap();
                seen
            });
            preface.write_all(b"hello").await.unwrap();
            let mut got = [0; 3];
            preface.read_exact(&mut got).await.unwrap();
            assert_eq!(&server.await.unwrap(), b"wordshello");
            assert_eq!(
                (&got, received.get().map(|it| it.to_vec())),
                (b"tls", Some(answer(3, b"yes")))
            );
        }
    }

    #[tokio::test]
    async fn endless_and_truncated_responses_before_tls_are_errors() {
        for (sent, kind) in [
            (answer(u32::MAX, b""), io::ErrorKind::InvalidData),
            (answer(3, b"ye"), io::ErrorKind::UnexpectedEof),
        ] {
            let (ours, mut theirs) = duplex(4096);
            let (mut preface, received) = TlsUpgradeStream::new(ours, Bytes::new());
            theirs.write_all(&sent).await.unwrap();
            drop(theirs);
            let error = preface.read_u8().await.unwrap_err();
            assert_eq!((error.kind(), received.get()), (kind, None));
        }
    }
}
