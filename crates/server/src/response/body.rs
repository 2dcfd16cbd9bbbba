//! The body of a response: nothing, bytes, or blocks that are made while the client reads.
//!
//! - A block whose data is not in memory is made on a thread that may wait for the disk. While it
//!   is sent, the next one is read: disk and network overlap.
//! - A block whose data is in memory is made in place, once the client has read the one before:
//!   waking a thread costs more than it saves. Only if a block has many small ranges, and a
//!   processor may be free, another thread makes the next one at the same time.
//!
//! At most two blocks of a body are in memory; [`crate::response::buffer_pool`] bounds all bodies
//! together.

use crate::backend::blocking::{self, BlockingTask};
use crate::response::buffer_pool::{BufferQuota, ConnectionMemory, PooledBuffer};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use hyper::body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The maximum number of blocks of one response in memory: one is sent, one is read.
const BLOCKS: usize = 2;
/// Blocks made in place before other tasks get their turn.
const MAX_IN_PLACE: u32 = 16;

/// Permission to wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskWait {
    Yes,
    No,
}

/// Makes the blocks of a response, one after the other.
pub(crate) trait BlockSource: Send + Debug + 'static {
    /// The approximate length of the next block; 0 after the last.
    fn next_bytes(&self) -> usize;
    /// Writes the next block to the front of `buffer`, whatever it contains, and returns the
    /// block's length. May wait for the disk.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
    /// Returns true if the next block can probably be [taken](Self::take) and made without waiting.
    fn is_page_cached(&self) -> bool {
        false
    }
    /// Takes the next block as a task of its own; none if the source does not support that.
    fn take(&mut self) -> Option<Box<dyn BlockTask>> {
        None
    }
    /// Sets the length of the blocks that are not laid out yet, if the source can change it.
    fn set_block_bytes(&mut self, _bytes: usize) {}
    /// Returns true if making the next block takes longer than waking another thread.
    fn is_expensive(&self) -> bool {
        false
    }
}

/// A block that can be made without the blocks before and after it.
pub(crate) trait BlockTask: Send + Debug + 'static {
    /// Like [`BlockSource::fill`]; a `WouldBlock` error if it would have to wait and may not.
    fn make(&self, buffer: &mut Vec<u8>, wait: DiskWait) -> io::Result<usize>;
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Empty,
    Whole(Bytes),
    Supplied(BlockBody),
    Stream(ChunkStream),
}

/// A body in chunks that a stream makes.
pub(crate) struct ChunkStream {
    pub(crate) chunks: BoxStream<'static, io::Result<Bytes>>,
    /// Bytes that are still to come, if that is known.
    left: Option<u64>,
}

impl ChunkStream {
    /// A body of `length` bytes, if that is known.
    pub(crate) fn new(chunks: BoxStream<'static, io::Result<Bytes>>, length: Option<u64>) -> Self {
        Self { chunks, left: length }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let chunk = ready!(self.chunks.poll_next_unpin(cx));
        if let (Some(left), Some(Ok(chunk))) = (&mut self.left, &chunk) {
            *left = left.saturating_sub(chunk.len() as u64);
        }
        Poll::Ready(chunk)
    }
}

impl Debug for ChunkStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkStream")
    }
}

/// A body in blocks.
#[derive(Debug)]
pub(crate) struct BlockBody {
    memory: Arc<ConnectionMemory>,
    /// The length of blocks while memory is not scarce.
    block_bytes: usize,
    quota: BufferQuota,
    /// The source of the next block; none while it makes one, and after the last.
    source: Option<Box<dyn BlockSource>>,
    /// Blocks that other threads are making, in order.
    making: VecDeque<BlockingTask<io::Result<Made>>>,
    /// The wait for a buffer of a block that could be made in place.
    buffer_wait: Option<BufferWait>,
    /// Blocks made in place since other tasks had their turn.
    in_place: u32,
    /// Bytes still to come, if known.
    left: Option<u64>,
    /// Time spent making blocks.
    disk: Duration,
}

/// A block that another thread has made.
#[derive(Debug)]
struct Made {
    bytes: Bytes,
    took: Duration,
    /// The source, if it made this block itself.
    source: Option<Box<dyn BlockSource>>,
}

struct BufferWait(BoxFuture<'static, Option<PooledBuffer>>);

impl Debug for BufferWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BufferWait")
    }
}

impl BlockBody {
    /// A body of `length` bytes, if known.
    pub(crate) fn new(
        source: Box<dyn BlockSource>,
        length: Option<u64>,
        memory: &Arc<ConnectionMemory>,
        block_bytes: usize,
    ) -> Self {
        Self {
            memory: Arc::clone(memory),
            block_bytes,
            quota: Arc::new(Semaphore::new(BLOCKS)),
            source: Some(source),
            making: VecDeque::new(),
            buffer_wait: None,
            in_place: 0,
            left: length,
            disk: Duration::ZERO,
        }
    }

    /// Takes the source of the next block; further blocks are as long as the memory allows.
    fn take_source(&mut self) -> Option<Box<dyn BlockSource>> {
        let mut source = self.source.take()?;
        source.set_block_bytes(self.memory.block_bytes(self.block_bytes));
        Some(source)
    }

    /// Has the next block made on a thread that may wait for the disk.
    fn begin(&mut self, source: Box<dyn BlockSource>) {
        let bytes = source.next_bytes();
        self.making.push_back(match self.memory.try_borrow(bytes, &self.quota) {
            Some(buffer) => blocking::spawn(move |_| fill(source, buffer)),
            None => {
                let memory = Arc::clone(&self.memory);
                let quota = Arc::clone(&self.quota);
                blocking::spawn_async(async move {
                    let buffer = memory.borrow(bytes, quota).await.ok_or_else(shutting_down)?;
                    blocking::spawn(move |_| fill(source, buffer)).await?
                })
            }
        });
    }

    /// Begins the next block while one is being sent, if its data is not in memory.
    fn look_ahead(&mut self) {
        if !self.making.is_empty() {
            return;
        }
        match self.take_source() {
            Some(source) if source.next_bytes() > 0 && !source.is_page_cached() => {
                self.begin(source)
            }
            source => self.source = source,
        }
    }

    /// Has another thread make the block after the one being made in place, if that helps.
    fn share(&mut self, source: &mut dyn BlockSource) {
        if source.is_expensive()
            && source.is_page_cached()
            && let Some(permit) = self.memory.help()
            && let Some(buffer) = self.memory.try_borrow(source.next_bytes(), &self.quota)
            && let Some(task) = source.take()
        {
            self.making.push_back(blocking::spawn(move |_| {
                let made = make(&*task, buffer);
                drop(permit);
                made
            }));
        }
    }

    /// Makes the next block in place; returns nothing if that would wait for the disk.
    fn make(
        &mut self,
        mut source: Box<dyn BlockSource>,
        mut buffer: PooledBuffer,
    ) -> io::Result<Option<Bytes>> {
        let Some(task) = source.take() else {
            self.making.push_back(blocking::spawn(move |_| fill(source, buffer)));
            return Ok(None);
        };
        self.share(&mut *source);
        self.source = Some(source);
        let began = Instant::now();
        let made = task.make(buffer.buffer(), DiskWait::No);
        self.disk += began.elapsed();
        match made {
            Ok(filled) => {
                self.in_place += 1;
                self.look_ahead();
                Ok(Some(buffer.freeze(filled)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let making = blocking::spawn(move |_| make(&*task, buffer));
                self.making.push_front(making);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the next block, or nothing: then there is none, or another call is needed.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if let Some(making) = self.making.front_mut() {
            let made = ready!(making.poll_unpin(cx)).map_err(io::Error::from).flatten();
            self.making.pop_front();
            let Made { bytes, took, source } = made?;
            self.in_place = 0;
            self.disk += took;
            self.source = source.or_else(|| self.source.take());
            self.look_ahead();
            return Poll::Ready(Ok((!bytes.is_empty()).then_some(bytes)));
        }
        let Some(source) = self.take_source() else { return Poll::Ready(Ok(None)) };
        if self.in_place >= MAX_IN_PLACE {
            self.in_place = 0;
            self.source = Some(source);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let bytes = source.next_bytes();
        if bytes == 0 {
            return Poll::Ready(Ok(None));
        }
        if !source.is_page_cached() {
            self.begin(source);
            return Poll::Ready(Ok(None));
        }
        let buffer_wait = self.buffer_wait.get_or_insert_with(|| {
            let memory = Arc::clone(&self.memory);
            BufferWait(memory.borrow(bytes, Arc::clone(&self.quota)).boxed())
        });
        let Poll::Ready(buffer) = buffer_wait.0.poll_unpin(cx) else {
            self.source = Some(source);
            return Poll::Pending;
        };
        self.buffer_wait = None;
        Poll::Ready(buffer.ok_or_else(shutting_down).and_then(|buffer| self.make(source, buffer)))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let chunk = match ready!(self.step(cx)) {
                Ok(Some(chunk)) => chunk,
                Ok(None) if self.making.is_empty() && self.source.is_none() => {
                    return Poll::Ready(None);
                }
                Ok(None) => continue,
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(chunk.len() as u64);
            }
            return Poll::Ready(Some(Ok(chunk)));
        }
    }
}

fn fill(mut source: Box<dyn BlockSource>, mut buffer: PooledBuffer) -> io::Result<Made> {
    let began = Instant::now();
    let filled = source.fill(buffer.buffer())?;
    Ok(Made { bytes: buffer.freeze(filled), took: began.elapsed(), source: Some(source) })
}

fn make(task: &dyn BlockTask, mut buffer: PooledBuffer) -> io::Result<Made> {
    let began = Instant::now();
    let filled = task.make(buffer.buffer(), DiskWait::Yes)?;
    Ok(Made { bytes: buffer.freeze(filled), took: began.elapsed(), source: None })
}

fn shutting_down() -> io::Error {
    io::Error::other("the server is shutting down")
}

impl ResponseBody {
    /// Time spent making the blocks so far.
    pub(crate) fn disk_time(&self) -> Duration {
        match self {
            Self::Supplied(supplied) => supplied.disk,
            Self::Empty | Self::Whole(_) | Self::Stream(_) => Duration::ZERO,
        }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                let chunk = (!bytes.is_empty()).then_some(bytes);
                Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
            Self::Supplied(supplied) => {
                let chunk = ready!(supplied.poll(cx));
                Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
            }
            Self::Stream(chunks) => {
                let chunk = ready!(chunks.poll(cx));
                Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Supplied(supplied) => supplied.left == Some(0),
            Self::Stream(stream) => stream.left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Supplied(supplied) => {
                supplied.left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Self::Stream(stream) => {
                stream.left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
