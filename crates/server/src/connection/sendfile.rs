//! The short way of file data, from the page cache to a socket without encryption: `sendfile`, past all memory of this
//! process.
//!
//! hyper writes slices of memory and knows of nothing else, and everything else that it does is wanted: framing, keep-alive,
//! pipelining, clocks, the graceful end. So it is given slices that *stand for* a piece of a file. There is an area of memory
//! in which nothing ever is, and a [`BodyChunk::Piece`] of n bytes shows n bytes of that. Where they come to the socket
//! ([`SendfileSocket`]) they are known by their address, and the kernel is told to send the piece of the file instead.
//!
//! ```text
//!  body ── Shortcut::piece ──> Chunk::Piece ── hyper: head, slices ──> Socket ── is it of the area? ── no ──> sendmsg
//!             │                                                          │
//!             ╰── what is to be sent: file, offset, length ──────────────┴── yes ─────────────────────────> sendfile
//! ```
//!
//! What is in that area must never be sent itself. Whoever takes something from a chunk says how much (`Buf::advance`), and
//! the chunk holds that against what the socket has sent of files. A chunk of which more was taken than was sent has been
//! copied somewhere; then, and if one is dropped with something left, the shortcut is *broken*: the socket writes nothing any
//! more, and the connection ends with an error instead of wrong bytes.
//!
//! `sendfile` waits where a page is not in memory, on a thread that serves others as well. [`reach`] looks before: what is
//! not there goes the long way ([`crate::sending::body`]), by way of threads that may wait.

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

/// Bytes of a file that are sent at a time: no other connection of the same thread waits for more.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// How far apart the bytes lie that are looked for to tell whether a piece is in memory: the kernel reads and forgets in runs.
const PROBE_BYTES: u64 = 256 << 10;

/// The area that stands for pieces of files. Nobody writes or reads there, so it takes no memory.
#[derive(Debug, Clone)]
pub(crate) struct PlaceholderMemory(Arc<Box<[u8]>>);

impl Default for PlaceholderMemory {
    fn default() -> Self {
        Self(Arc::new(vec![0; MAX_BYTES].into_boxed_slice()))
    }
}

/// What body and socket of a connection share.
#[derive(Debug)]
pub(crate) struct SendfileQueue {
    area: PlaceholderMemory,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is to be sent, in this order.
    waiting: VecDeque<Piece>,
    /// Bytes that were sent of files, and not yet taken from chunks.
    ahead: usize,
    is_broken: bool,
}

#[derive(Debug)]
struct Piece {
    file: Arc<File>,
    offset: u64,
    left: usize,
}

/// Some bytes of an answer.
#[derive(Debug)]
pub(crate) enum BodyChunk {
    Memory(Bytes),
    /// So many bytes of a file, which the socket knows.
    Piece(Placeholder),
}

/// What hyper has of a piece of a file.
#[derive(Debug)]
pub(crate) struct Placeholder {
    left: usize,
    shortcut: Arc<SendfileQueue>,
}

impl SendfileQueue {
    pub(crate) fn new(area: &PlaceholderMemory) -> Self {
        Self { area: area.clone(), state: Mutex::default() }
    }

    fn is_stand_in(&self, slice: &[u8]) -> bool {
        self.area.0.as_ptr_range().contains(&slice.as_ptr())
    }

    /// A piece of a file, to be sent over the socket that shares this; no more than [`MAX_BYTES`] of it.
    pub(crate) fn piece(self: &Arc<Self>, file: Arc<File>, range: &Range<u64>) -> BodyChunk {
        let left = usize::try_from(range.end - range.start).map_or(MAX_BYTES, |n| n.min(MAX_BYTES));
        self.state().waiting.push_back(Piece { file, offset: range.start, left });
        BodyChunk::Piece(Placeholder { left, shortcut: Arc::clone(self) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Writes as much of `slices` as the socket takes at once.
    fn write(&self, socket: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = slices.iter().take_while(|slice| !self.is_stand_in(slice)).count();
        let (memory, pieces) = slices.split_at_checked(count).unwrap_or_default();
        let bytes: usize = memory.iter().map(|slice| slice.len()).sum();
        let mut state = self.state();
        if state.is_broken {
            return Err(io::Error::other("file data for sendfile was copied instead of sent"));
        }
        let mut sent = 0;
        if bytes > 0 {
            // The head of an answer goes in one packet with what follows it.
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
    /// Sends up to `most` bytes of the piece whose turn it is.
    fn send(&mut self, socket: &TcpStream, most: usize) -> io::Result<usize> {
        let piece = self.waiting.front_mut();
        let piece =
            piece.ok_or_else(|| io::Error::other("a placeholder has no file range to send"))?;
        let most = most.min(piece.left);
        let sent = retry_on_intr(|| sendfile(socket, &piece.file, Some(&mut piece.offset), most))?;
        if sent == 0 && most > 0 {
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
            Self::Piece(piece) => piece.shortcut.area.0.get(..piece.left).unwrap_or_default(),
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
        let mut state = self.shortcut.state();
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
            self.shortcut.state().is_broken = true;
        }
    }
}

/// A socket that knows what stands for pieces of files.
#[derive(Debug)]
pub(crate) struct SendfileSocket {
    stream: TcpStream,
    shortcut: Arc<SendfileQueue>,
}

impl SendfileSocket {
    pub(crate) fn new(stream: TcpStream, shortcut: Arc<SendfileQueue>) -> Self {
        Self { stream, shortcut }
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
            let write = || self.shortcut.write(&self.stream, slices);
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

/// Where the file is in memory up to, from `range.start` on, as far as looking here and there tells; the start where the file
/// system cannot tell.
pub(crate) fn cached_prefix(file: &File, range: &Range<u64>) -> u64 {
    let (mut reach, mut at) = (range.start, range.start);
    while at < range.end {
        if !is_page_cached(file, at) {
            return reach;
        }
        reach = at;
        at = at.saturating_add(PROBE_BYTES);
    }
    if reach < range.end && is_page_cached(file, range.end - 1) { range.end } else { reach }
}

/// Whether the byte at `offset` can be read without waiting.
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
        let shortcut = Arc::new(SendfileQueue::new(&PlaceholderMemory::default()));
        let socket = SendfileSocket::new(listener.accept().await.unwrap().0, Arc::clone(&shortcut));
        (client, socket, shortcut)
    }

    /// As hyper does: what is there is offered, what was taken is advanced over.
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
        fn memory_and_pieces_arrive_in_their_order(
            chunks in prop::collection::vec((any::<bool>(), 0..SIZE, 0..MAX_BYTES + 5000), 1..12)
        ) {
            static FILE: LazyLock<Arc<File>> = LazyLock::new(file);
            run(async {
                let (mut client, mut socket, shortcut) = pair().await;
                let (mut expected, mut offered) = (Vec::new(), VecDeque::new());
                for (is_piece, start, len) in chunks {
                    let end = (start + len.min(MAX_BYTES)).min(SIZE);
                    expected.extend_from_slice(&CONTENT[start..end]);
                    offered.push_back(match is_piece {
                        true => shortcut.piece(Arc::clone(&FILE), &(start as u64..end as u64)),
                        false => BodyChunk::Memory(Bytes::copy_from_slice(&CONTENT[start..end])),
                    });
                }
                // Taken in small portions, so that the socket is full most of the time.
                let taken = tokio::spawn(async move {
                    let (mut all, mut part) = (Vec::new(), [0; 10_000]);
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
    fn what_was_copied_instead_of_sent_ends_the_connection() {
        run(async {
            let (mut client, mut socket, shortcut) = pair().await;
            let mut piece = shortcut.piece(file(), &(0..1000));
            let copy = piece.copy_to_bytes(1000);
            assert!(socket.write_all(&copy).await.is_err());
            assert!(socket.write_all(b"anything").await.is_err());
            drop(socket);
            let mut came = Vec::new();
            client.read_to_end(&mut came).await.unwrap();
            assert_eq!(came, b"");
        });
    }

    #[test]
    fn a_piece_that_is_dropped_ends_the_connection() {
        run(async {
            let (_client, mut socket, shortcut) = pair().await;
            drop(shortcut.piece(file(), &(0..1000)));
            assert!(socket.write_all(b"the next answer").await.is_err());
        });
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error() {
        run(async {
            let (_client, mut socket, shortcut) = pair().await;
            let file = file();
            let chunk = shortcut.piece(Arc::clone(&file), &(0..1000));
            file.set_len(500).unwrap();
            let error = write_all(&mut socket, VecDeque::from([chunk])).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        });
    }

    #[test]
    fn what_was_just_written_is_in_memory_and_no_more() {
        let file = file();
        if !is_page_cached(&file, 0) {
            eprintln!("this file system does not tell what is in memory");
            return;
        }
        for range in [0..1, 5..1_000_000, 0..SIZE as u64] {
            assert_eq!(cached_prefix(&file, &range), range.end);
        }
        assert_eq!(cached_prefix(&file, &(7..7)), 7);
        assert!(cached_prefix(&file, &(0..SIZE as u64 + 1)) <= SIZE as u64);
    }
}
