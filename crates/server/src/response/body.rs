//! The body of an answer: nothing, some bytes, or blocks that are made as the client takes them.
//!
//! A block goes past memory if it can ([`crate::connection::shortcut`]). One whose data is not in memory is made on a thread that may wait for
//! the disk, and while it is on its way to the client, the next is being read: disk and network overlap. One whose data is in
//! memory is made on the spot, when the client has taken others: a thread that is woken for it costs more than it helps. Only
//! where a block is of many small pieces, and as long as a processor may be free, another thread makes the one after it
//! meanwhile.
//!
//! No more than two blocks are in memory; see [`crate::sending::loan`] for what bounds all of them.

use crate::connection::sendfile::{BodyChunk, SendfileQueue};
use crate::response::buffer_pool::{BufferPool, BufferQuota, PooledBuffer};
use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use hyper::body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Blocks of one answer in memory: one that is sent, one that is read.
const BLOCKS: usize = 2;
/// Blocks that are made on the spot until others have their turn.
const MAX_AT_ONCE: u32 = 16;

/// Whether work may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskWait {
    Yes,
    No,
}

/// Makes the blocks of an answer, one after the other.
pub(crate) trait BlockSource: Send + Debug + 'static {
    /// About how many bytes the next block takes; 0 if there is none.
    fn next_bytes(&self) -> usize;
    /// Writes the next block to the front of `buffer`, whatever is in it, and tells its length. May wait for the disk.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
    /// Whether the next block can perhaps be [taken](Self::take) and made without waiting.
    fn is_page_cached(&self) -> bool {
        false
    }
    /// The next block as work of its own; nothing if there is no such thing.
    fn take(&mut self) -> Option<Box<dyn BlockTask>> {
        None
    }
    /// Whether the next block takes longer to make than another thread to wake.
    fn is_laborious(&self) -> bool {
        false
    }
    /// The next block, which may then be of any length, as a piece of a file that is in memory; nothing, and nothing has
    /// changed, if it is no such thing.
    fn piece(&mut self) -> Option<(Arc<File>, Range<u64>)> {
        None
    }
}

/// A block, apart from what comes before and after it.
pub(crate) trait BlockTask: Send + Debug + 'static {
    /// As [`BlockSource::fill`]; where it may not wait and would have to, an error of the kind `WouldBlock`.
    fn make(&self, buffer: &mut Vec<u8>, wait: DiskWait) -> io::Result<usize>;
}

/// See the module above.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Empty,
    Whole(Bytes),
    Supplied(BlockBody),
    Stream(ChunkStream),
}

/// Chunks of a body whose length is not known, as somebody makes them.
pub(crate) struct ChunkStream(pub(crate) BoxStream<'static, io::Result<BodyChunk>>);

impl Debug for ChunkStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkStream")
    }
}

/// A body in blocks.
#[derive(Debug)]
pub(crate) struct BlockBody {
    memory: Arc<BufferPool>,
    allowance: BufferQuota,
    /// What makes the next block; none while it makes one, and when there are no more.
    supply: Option<Box<dyn BlockSource>>,
    /// Blocks that other threads are making, in their order.
    making: VecDeque<JoinHandle<io::Result<Made>>>,
    /// While the next block could be made on the spot, but there is no room for it yet.
    borrowing: Option<Borrowing>,
    /// Past memory, where that is possible.
    shortcut: Option<Arc<SendfileQueue>>,
    /// Blocks made on the spot since others had their turn.
    at_once: u32,
    /// Bytes that are still to come, if that is known.
    left: Option<u64>,
    /// How long the blocks so far took to be made.
    disk: Duration,
}

/// A block that another thread has made.
#[derive(Debug)]
struct Made {
    bytes: Bytes,
    took: Duration,
    /// What makes the next one, if it was away for this one.
    supply: Option<Box<dyn BlockSource>>,
}

struct Borrowing(BoxFuture<'static, Option<PooledBuffer>>);

impl Debug for Borrowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Borrowing")
    }
}

impl BlockBody {
    /// A body of `length` bytes, if that is known.
    pub(crate) fn new(
        supply: Box<dyn BlockSource>,
        length: Option<u64>,
        memory: &Arc<BufferPool>,
    ) -> Self {
        Self {
            memory: Arc::clone(memory),
            allowance: Arc::new(Semaphore::new(BLOCKS)),
            supply: Some(supply),
            making: VecDeque::new(),
            borrowing: None,
            shortcut: None,
            at_once: 0,
            left: length,
            disk: Duration::ZERO,
        }
    }

    /// Has the next block made on a thread that may wait.
    fn begin(&mut self, supply: Box<dyn BlockSource>) {
        let bytes = supply.next_bytes();
        self.making.push_back(match self.memory.try_borrow(bytes, &self.allowance) {
            Some(loan) => tokio::task::spawn_blocking(move || fill(supply, loan)),
            None => {
                let (memory, allowance) = (Arc::clone(&self.memory), Arc::clone(&self.allowance));
                tokio::spawn(async move {
                    let loan = memory.borrow(bytes, allowance).await.ok_or_else(given_up)?;
                    tokio::task::spawn_blocking(move || fill(supply, loan)).await?
                })
            }
        });
    }

    /// A block is on its way: the next one is begun, if that takes more than to make it when its turn comes.
    fn look_ahead(&mut self) {
        if !self.making.is_empty() {
            return;
        }
        match self.supply.take() {
            Some(supply) if supply.next_bytes() > 0 && !supply.is_page_cached() => {
                self.begin(supply)
            }
            supply => self.supply = supply,
        }
    }

    /// Has the block after the one that is made on the spot made meanwhile, if that helps.
    fn share(&mut self, supply: &mut dyn BlockSource) {
        if supply.is_laborious()
            && supply.is_page_cached()
            && let Some(help) = self.memory.help()
            && let Some(loan) = self.memory.try_borrow(supply.next_bytes(), &self.allowance)
            && let Some(work) = supply.take()
        {
            self.making.push_back(tokio::task::spawn_blocking(move || {
                let made = make(&*work, loan);
                drop(help);
                made
            }));
        }
    }

    /// The next block, made on the spot; nothing if that turns out to take longer.
    fn make(
        &mut self,
        mut supply: Box<dyn BlockSource>,
        mut loan: PooledBuffer,
    ) -> io::Result<Option<BodyChunk>> {
        let Some(work) = supply.take() else {
            self.making.push_back(tokio::task::spawn_blocking(move || fill(supply, loan)));
            return Ok(None);
        };
        self.share(&mut *supply);
        self.supply = Some(supply);
        let began = Instant::now();
        let made = work.make(loan.buffer(), DiskWait::No);
        self.disk += began.elapsed();
        match made {
            Ok(filled) => {
                self.at_once += 1;
                self.look_ahead();
                Ok(Some(BodyChunk::Memory(loan.freeze(filled))))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let making = tokio::task::spawn_blocking(move || make(&*work, loan));
                self.making.push_front(making);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The next block; nothing if there is something else to be looked at, or none.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<BodyChunk>>> {
        if let Some(making) = self.making.front_mut() {
            let made = ready!(making.poll_unpin(cx)).map_err(io::Error::from).flatten();
            self.making.pop_front();
            let Made { bytes, took, supply } = made?;
            self.at_once = 0;
            self.disk += took;
            self.supply = supply.or_else(|| self.supply.take());
            self.look_ahead();
            return Poll::Ready(Ok((!bytes.is_empty()).then_some(BodyChunk::Memory(bytes))));
        }
        let Some(mut supply) = self.supply.take() else { return Poll::Ready(Ok(None)) };
        if self.at_once >= MAX_AT_ONCE {
            self.at_once = 0;
            self.supply = Some(supply);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(shortcut) = &self.shortcut
            && let Some((file, range)) = supply.piece()
        {
            self.at_once += 1;
            self.supply = Some(supply);
            return Poll::Ready(Ok(Some(shortcut.piece(file, &range))));
        }
        let bytes = supply.next_bytes();
        if bytes == 0 {
            return Poll::Ready(Ok(None));
        }
        if !supply.is_page_cached() {
            self.begin(supply);
            return Poll::Ready(Ok(None));
        }
        let borrowing = self.borrowing.get_or_insert_with(|| {
            let memory = Arc::clone(&self.memory);
            Borrowing(memory.borrow(bytes, Arc::clone(&self.allowance)).boxed())
        });
        let Poll::Ready(loan) = borrowing.0.poll_unpin(cx) else {
            self.supply = Some(supply);
            return Poll::Pending;
        };
        self.borrowing = None;
        Poll::Ready(loan.ok_or_else(given_up).and_then(|loan| self.make(supply, loan)))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<BodyChunk>>> {
        loop {
            let chunk = match ready!(self.step(cx)) {
                Ok(Some(chunk)) => chunk,
                Ok(None) if self.making.is_empty() && self.supply.is_none() => {
                    return Poll::Ready(None);
                }
                Ok(None) => continue,
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(chunk.remaining() as u64);
            }
            return Poll::Ready(Some(Ok(chunk)));
        }
    }
}

fn fill(mut supply: Box<dyn BlockSource>, mut loan: PooledBuffer) -> io::Result<Made> {
    let began = Instant::now();
    let filled = supply.fill(loan.buffer())?;
    Ok(Made { bytes: loan.freeze(filled), took: began.elapsed(), supply: Some(supply) })
}

fn make(work: &dyn BlockTask, mut loan: PooledBuffer) -> io::Result<Made> {
    let began = Instant::now();
    let filled = work.make(loan.buffer(), DiskWait::Yes)?;
    Ok(Made { bytes: loan.freeze(filled), took: began.elapsed(), supply: None })
}

impl Drop for BlockBody {
    fn drop(&mut self) {
        for making in &self.making {
            making.abort();
        }
    }
}

fn given_up() -> io::Error {
    io::Error::other("the server is shutting down")
}

impl ResponseBody {
    /// How long it took to make what was sent of it.
    pub(crate) fn disk_time(&self) -> Duration {
        match self {
            Self::Supplied(supplied) => supplied.disk,
            Self::Empty | Self::Whole(_) | Self::Stream(_) => Duration::ZERO,
        }
    }

    /// What of it is a piece of a file may go that way.
    pub(crate) fn by(&mut self, shortcut: Option<&Arc<SendfileQueue>>) {
        if let Self::Supplied(supplied) = self {
            supplied.shortcut = shortcut.cloned();
        }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = BodyChunk;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<BodyChunk>>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                let chunk = (!bytes.is_empty()).then_some(BodyChunk::Memory(bytes));
                Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
            Self::Supplied(supplied) => {
                let chunk = ready!(supplied.poll(cx));
                Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
            }
            Self::Stream(chunks) => {
                let chunk = ready!(chunks.0.poll_next_unpin(cx));
                Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Supplied(supplied) => supplied.left == Some(0),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Supplied(supplied) => {
                supplied.left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
