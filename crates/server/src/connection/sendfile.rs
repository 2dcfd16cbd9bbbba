//! `sendfile` under hyper: file data goes from the page cache to an unencrypted socket without
//! passing through the memory of this process.
//!
//! hyper writes slices of memory only, but the rest of hyper is needed: framing, keep-alive,
//! pipelining, timeouts, graceful shutdown. So it gets slices that *stand for* ranges of files. An
//! area of memory is never used, and a [`BodyChunk::Piece`] of n bytes shows n bytes of it. The
//! socket ([`SendfileSocket`]) recognises these slices by their address, and has the kernel send
//! the range of the file instead.
//!
//! ```text
//!  body ── piece ──> BodyChunk::Piece ── hyper: slices ──> SendfileSocket
//!            │                                                  │
//!            │                                      is the slice a placeholder?
//!            │                                                  ├── no ───> sendmsg
//!            ╰── queue: file, offset, length ───────────────────┴── yes ──> sendfile
//! ```
//!
//! The placeholder bytes must never be sent. Whoever takes bytes from a chunk reports the number
//! (`Buf::advance`), and the chunk compares it with the bytes that the socket has sent from files.
//! If more was taken than sent, the placeholder was copied somewhere. Then, and when a chunk is
//! dropped with bytes left, the queue is *broken*: the socket writes nothing more, and the
//! connection ends with an error instead of wrong bytes.
//!
//! `sendfile` blocks where a page is not in memory, on a thread that serves other connections as
//! well. So [`cached_prefix`] is called before; data that is not in memory goes through
//! [`crate::response::body`], by threads that may block.

use bytes::{Buf, Bytes};
use hither_core::sync::lock;
use rustix::fs::sendfile;
use rustix::io::{ReadWriteFlags, preadv2, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The maximum number of bytes that one call of `sendfile` sends: other connections of the same
/// thread wait no longer than for these.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The distance between two probes of the page cache; the kernel reads and evicts in runs.
const PROBE_BYTES: u64 = 256 << 10;

/// The memory that stands for ranges of files. It is never touched, so it occupies no pages.
#[derive(Debug, Clone)]
pub(crate) struct PlaceholderMemory(Arc<Box<[u8]>>);

impl Default for PlaceholderMemory {
    fn default() -> Self {
        Self(Arc::new(vec![0; MAX_BYTES].into_boxed_slice()))
    }
}

/// The ranges of files that the body of a connection hands to its socket.
#[derive(Debug)]
pub(crate) struct SendfileQueue {
    area: PlaceholderMemory,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The ranges to be sent, in order.
    waiting: VecDeque<Piece>,
    /// Bytes sent from files that hyper has not yet taken from chunks.
    ahead: usize,
    is_broken: bool,
}

#[derive(Debug)]
struct Piece {
    file: Arc<File>,
    offset: u64,
    left: usize,
}

/// Some bytes of a response.
#[derive(Debug)]
pub(crate) enum BodyChunk {
    Memory(Bytes),
    /// Bytes of a file that the socket sends.
    Piece(Placeholder),
}

/// The stand-in for a range of a file that hyper holds.
#[derive(Debug)]
pub(crate) struct Placeholder {
    left: usize,
    queue: Arc<SendfileQueue>,
}

impl SendfileQueue {
    pub(crate) fn new(area: &PlaceholderMemory) -> Self {
        Self { area: area.clone(), state: Mutex::default() }
    }

    fn is_placeholder(&self, slice: &[u8]) -> bool {
        self.area.0.as_ptr_range().contains(&slice.as_ptr())
    }

    /// Queues at most [`MAX_BYTES`] of a file, to be sent over the socket that shares this queue.
    pub(crate) fn piece(self: &Arc<Self>, file: Arc<File>, range: &Range<u64>) -> BodyChunk {
        let left = usize::try_from(range.end - range.start).map_or(MAX_BYTES, |n| n.min(MAX_BYTES));
        self.state().waiting.push_back(Piece { file, offset: range.start, left });
        BodyChunk::Piece(Placeholder { left, queue: Arc::clone(self) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Writes as much of `slices` as the socket takes without blocking.
    fn write(&self, socket: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = slices.iter().take_while(|slice| !self.is_placeholder(slice)).count();
        let (memory, pieces) = slices.split_at_checked(count).unwrap_or_default();
        let bytes: usize = memory.iter().map(|slice| slice.len()).sum();
        let mut state = self.state();
        if state.is_broken {
            return Err(io::Error::other("file data for sendfile was copied instead of sent"));
        }
        let mut sent = 0;
        if bytes > 0 {
            // The head of a response shares a packet with the data that follows it.
            let more = if pieces.is_empty() { SendFlags::empty() } else { SendFlags::MORE };
            let flags = SendFlags::NOSIGNAL | more;
            let mut control = SendAncillaryBuffer::default();
            sent = retry_on_intr(|| sendmsg(socket, memory, &mut control, flags))?;
        }
        let Some(piece) = pieces.first().filter(|_| sent == bytes) else { return Ok(sent) };
        match state.send(socket, piece.len()) {
            Ok(more) => Ok(sent + more),
            Err(error) if sent > 0 && error.kind() == io::ErrorKind::WouldBlock => Ok(sent),
            Err(error) => Err(error),
        }
    }
}

impl State {
    /// Sends up to `max_bytes` of the first waiting range.
    fn send(&mut self, socket: &TcpStream, max_bytes: usize) -> io::Result<usize> {
        let piece = self.waiting.front_mut();
        let piece =
            piece.ok_or_else(|| io::Error::other("a placeholder has no file range to send"))?;
        let count = max_bytes.min(piece.left);
        let sent = retry_on_intr(|| sendfile(socket, &piece.file, Some(&mut piece.offset), count))?;
        if sent == 0 && count > 0 {
            let what = "the file was truncated while it was sent";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        piece.left -= sent;
        if piece.left == 0 {
            self.waiting.pop_front();
        }
        self.ahead += sent;
        Ok(sent)
    }
}

impl Buf for BodyChunk {
    fn remaining(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Piece(piece) => piece.left,
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Piece(piece) => piece.queue.area.0.get(..piece.left).unwrap_or_default(),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Memory(bytes) => bytes.advance(count),
            Self::Piece(piece) => piece.advance(count),
        }
    }
}

impl Placeholder {
    fn advance(&mut self, count: usize) {
        let mut state = self.queue.state();
        match state.ahead.checked_sub(count) {
            Some(ahead) => state.ahead = ahead,
            None => state.is_broken = true,
        }
        self.left = self.left.saturating_sub(count);
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        if self.left > 0 {
            self.queue.state().is_broken = true;
        }
    }
}

/// A socket that sends the file ranges behind placeholders.
#[derive(Debug)]
pub(crate) struct SendfileSocket {
    stream: TcpStream,
    queue: Arc<SendfileQueue>,
}

impl SendfileSocket {
    pub(crate) fn new(stream: TcpStream, queue: Arc<SendfileQueue>) -> Self {
        Self { stream, queue }
    }
}

impl AsyncRead for SendfileSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for SendfileSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let write = || self.queue.write(&self.stream, slices);
            match self.stream.try_io(Interest::WRITABLE, write) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns the end of the part of `range` that begins at its start and is in memory, as far as
/// probes tell; the start where the file system cannot tell.
pub(crate) fn cached_prefix(file: &File, range: &Range<u64>) -> u64 {
    let mut reach = range.start;
    let mut at = range.start;
    while at < range.end {
        if !is_page_cached(file, at) {
            return reach;
        }
        reach = at;
        at = at.saturating_add(PROBE_BYTES);
    }
    if reach < range.end && is_page_cached(file, range.end - 1) { range.end } else { reach }
}

/// Returns true if the byte at `offset` can be read without blocking.
pub(crate) fn is_page_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let probe = &mut [IoSliceMut::new(&mut byte)];
    matches!(retry_on_intr(|| preadv2(file, probe, offset, ReadWriteFlags::NOWAIT)), Ok(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::sync::LazyLock;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const SIZE: usize = 3_000_000;

    static CONTENT: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..SIZE).map(|n| u8::try_from((n * n / 7 + n) % 251).unwrap()).collect());

    fn file() -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&CONTENT).unwrap();
        Arc::new(file)
    }

    async fn pair() -> (TcpStream, SendfileSocket, Arc<SendfileQueue>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let queue = Arc::new(SendfileQueue::new(&PlaceholderMemory::default()));
        let socket = SendfileSocket::new(listener.accept().await.unwrap().0, Arc::clone(&queue));
        (client, socket, queue)
    }

    /// Writes as hyper does: offers all chunks, then advances over the bytes written.
    async fn write_all(
        socket: &mut SendfileSocket,
        mut chunks: VecDeque<BodyChunk>,
    ) -> io::Result<()> {
        while let Some(first) = chunks.front_mut() {
            if !first.has_remaining() {
                chunks.pop_front();
                continue;
            }
            let slices: Vec<_> = chunks.iter().map(|chunk| IoSlice::new(chunk.chunk())).collect();
            let mut written = socket.write_vectored(&slices).await?;
            for chunk in &mut chunks {
                let part = written.min(chunk.remaining());
                chunk.advance(part);
                written -= part;
            }
        }
        Ok(())
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn memory_and_file_ranges_arrive_in_order(
            chunks in prop::collection::vec((any::<bool>(), 0..SIZE, 0..MAX_BYTES + 5000), 1..12)
        ) {
            static FILE: LazyLock<Arc<File>> = LazyLock::new(file);
            run(async {
                let (mut client, mut socket, queue) = pair().await;
                let mut expected = Vec::new();
                let mut offered = VecDeque::new();
                for (is_piece, start, len) in chunks {
                    let end = (start + len.min(MAX_BYTES)).min(SIZE);
                    expected.extend_from_slice(&CONTENT[start..end]);
                    offered.push_back(if is_piece {
                        queue.piece(Arc::clone(&FILE), &(start as u64..end as u64))
                    } else {
                        BodyChunk::Memory(Bytes::copy_from_slice(&CONTENT[start..end]))
                    });
                }
                // Read in small portions, so that the socket is full most of the time.
                let taken = tokio::spawn(async move {
                    let mut all = Vec::new();
                    let mut part = [0; 10_000];
                    loop {
                        match client.read(&mut part).await.unwrap() {
                            0 => return all,
                            count => all.extend_from_slice(&part[..count]),
                        }
                    }
                });
                write_all(&mut socket, offered).await.unwrap();
                drop(socket);
                assert!(taken.await.unwrap() == expected);
            });
        }
    }

    #[test]
    fn a_copied_placeholder_ends_the_connection() {
        run(async {
            let (mut client, mut socket, queue) = pair().await;
            let mut piece = queue.piece(file(), &(0..1000));
            let copy = piece.copy_to_bytes(1000);
            assert!(socket.write_all(&copy).await.is_err());
            assert!(socket.write_all(b"anything").await.is_err());
            drop(socket);
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap();
            assert_eq!(received, b"");
        });
    }

    #[test]
    fn a_dropped_file_range_ends_the_connection() {
        run(async {
            let (_client, mut socket, queue) = pair().await;
            drop(queue.piece(file(), &(0..1000)));
            assert!(socket.write_all(b"the next response").await.is_err());
        });
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        run(async {
            let (_client, mut socket, queue) = pair().await;
            let file = file();
            let chunk = queue.piece(Arc::clone(&file), &(0..1000));
            file.set_len(500).unwrap();
            let error = write_all(&mut socket, VecDeque::from([chunk])).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        });
    }

    #[test]
    fn only_bytes_of_the_file_are_found_in_the_page_cache() {
        let file = file();
        if !is_page_cached(&file, 0) {
            eprintln!("this file system does not tell which pages are in memory");
            return;
        }
        for range in [0..1, 5..1_000_000, 0..SIZE as u64] {
            assert_eq!(cached_prefix(&file, &range), range.end);
        }
        assert_eq!(cached_prefix(&file, &(7..7)), 7);
        assert!(cached_prefix(&file, &(0..SIZE as u64 + 1)) <= SIZE as u64);
    }
}
