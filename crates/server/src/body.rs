//! The body of an answer: nothing, some bytes, or blocks that are made as the client takes them.
//!
//! A block goes past memory if it can ([`crate::shortcut`]). One whose data is in memory is made on the spot, when the client has
//! taken others: a thread that is woken for it costs more than it helps. One whose data is not is made on a thread that may wait
//! for the disk, and while it is on its way to the client, the next is being read: disk and network overlap.
//!
//! No more than that one block is made ahead; see [`crate::loan`] for what bounds it.

use crate::loan::{Allowance, Loan, Memory};
use crate::shortcut::{Chunk, Shortcut};
use crate::third_party::Telling;
use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
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
const MOST_AT_ONCE: u32 = 4;

/// Makes the blocks of an answer, one after the other.
pub(crate) trait Supply: Send + Debug + 'static {
    /// About how many bytes the next block takes; 0 if there is none.
    fn next_bytes(&self) -> usize;
    /// Writes the next block to the front of `buffer`, whatever is in it, and tells its length. May wait for the disk.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
    /// Whether the next block can perhaps be made without waiting.
    fn is_near(&self) -> bool {
        false
    }
    /// The same as `fill`, without waiting; nothing, and nothing has changed, if that cannot be.
    fn fill_now(&mut self, _buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        Ok(None)
    }
    /// The next block, which may then be of any length, as a piece of a file that is in memory; nothing, and nothing has
    /// changed, if it is no such thing.
    fn piece(&mut self) -> Option<(Arc<File>, Range<u64>)> {
        None
    }
}

/// See the module above.
#[derive(Debug)]
pub(crate) enum Body {
    Empty,
    Whole(Bytes),
    Supplied(Supplied),
    /// What becomes of a copy.
    Told(Telling),
}

/// A body in blocks.
#[derive(Debug)]
pub(crate) struct Supplied {
    memory: Arc<Memory>,
    allowance: Allowance,
    state: State,
    /// Past memory, where that is possible.
    shortcut: Option<Arc<Shortcut>>,
    /// Blocks made on the spot since others had their turn.
    at_once: u32,
    /// Bytes that are still to come, if that is known.
    left: Option<u64>,
    /// How long the blocks so far took to be made.
    disk: Duration,
}

/// What makes the next block, this one, and how long it took.
type Filled = io::Result<(Box<dyn Supply>, Bytes, Duration)>;

#[derive(Debug)]
enum State {
    Waiting(Box<dyn Supply>),
    /// Its data is in memory, but there is no room for it yet.
    Borrowing(Box<dyn Supply>, Borrowing),
    Filling(JoinHandle<Filled>),
    Over,
}

struct Borrowing(BoxFuture<'static, Option<Loan>>);

impl Debug for Borrowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Borrowing")
    }
}

impl Supplied {
    /// A body of `length` bytes, if that is known.
    pub(crate) fn new(supply: Box<dyn Supply>, length: Option<u64>, memory: &Arc<Memory>) -> Self {
        let (memory, allowance) = (Arc::clone(memory), Arc::new(Semaphore::new(BLOCKS)));
        let state = State::Waiting(supply);
        let disk = Duration::ZERO;
        Self { memory, allowance, state, shortcut: None, at_once: 0, left: length, disk }
    }

    /// Has the next block made on a thread that may wait.
    fn begin(&mut self, supply: Box<dyn Supply>) {
        let bytes = supply.next_bytes();
        if bytes == 0 {
            self.state = State::Over;
            return;
        }
        self.state = State::Filling(match self.memory.try_borrow(bytes, &self.allowance) {
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
    fn look_ahead(&mut self, supply: Box<dyn Supply>) {
        match supply.is_near() {
            true => self.state = State::Waiting(supply),
            false => self.begin(supply),
        }
    }

    /// The next block, if it needs nothing but a buffer.
    fn make(&mut self, mut supply: Box<dyn Supply>, mut loan: Loan) -> io::Result<Option<Chunk>> {
        let began = Instant::now();
        let filled = supply.fill_now(loan.buffer())?;
        self.disk += began.elapsed();
        let Some(filled) = filled else {
            self.state = State::Filling(tokio::task::spawn_blocking(move || fill(supply, loan)));
            return Ok(None);
        };
        self.at_once += 1;
        self.look_ahead(supply);
        Ok(Some(Chunk::Memory(loan.freeze(filled))))
    }

    /// The next block; nothing if the state has changed and is to be looked at again.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Chunk>>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => Poll::Ready(Ok(None)),
            State::Waiting(supply) if self.at_once >= MOST_AT_ONCE => {
                self.at_once = 0;
                self.state = State::Waiting(supply);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            State::Waiting(mut supply) => {
                if let Some(shortcut) = &self.shortcut
                    && let Some((file, range)) = supply.piece()
                {
                    self.at_once += 1;
                    self.state = State::Waiting(supply);
                    return Poll::Ready(Ok(Some(shortcut.piece(file, &range))));
                }
                let bytes = supply.next_bytes();
                if bytes == 0 || !supply.is_near() {
                    self.begin(supply);
                } else if let Some(loan) = self.memory.try_borrow(bytes, &self.allowance) {
                    return Poll::Ready(self.make(supply, loan));
                } else {
                    let memory = Arc::clone(&self.memory);
                    let loan = memory.borrow(bytes, Arc::clone(&self.allowance)).boxed();
                    self.state = State::Borrowing(supply, Borrowing(loan));
                }
                Poll::Ready(Ok(None))
            }
            State::Borrowing(supply, mut borrowing) => match borrowing.0.poll_unpin(cx) {
                Poll::Ready(Some(loan)) => Poll::Ready(self.make(supply, loan)),
                Poll::Ready(None) => Poll::Ready(Err(given_up())),
                Poll::Pending => {
                    self.state = State::Borrowing(supply, borrowing);
                    Poll::Pending
                }
            },
            State::Filling(mut filling) => {
                let Poll::Ready(filled) = filling.poll_unpin(cx) else {
                    self.state = State::Filling(filling);
                    return Poll::Pending;
                };
                self.at_once = 0;
                let (supply, bytes, time) = filled.map_err(io::Error::from).flatten()?;
                self.disk += time;
                self.look_ahead(supply);
                Poll::Ready(Ok((!bytes.is_empty()).then_some(Chunk::Memory(bytes))))
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        loop {
            let chunk = match ready!(self.step(cx)) {
                Ok(Some(chunk)) => chunk,
                Ok(None) if matches!(self.state, State::Over) => return Poll::Ready(None),
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

fn fill(mut supply: Box<dyn Supply>, mut loan: Loan) -> Filled {
    let began = Instant::now();
    let filled = supply.fill(loan.buffer())?;
    Ok((supply, loan.freeze(filled), began.elapsed()))
}

impl Drop for Supplied {
    fn drop(&mut self) {
        if let State::Filling(filling) = &self.state {
            filling.abort();
        }
    }
}

fn given_up() -> io::Error {
    io::Error::other("the server has stopped")
}

impl Body {
    /// How long it took to make what was sent of it.
    pub(crate) fn disk_time(&self) -> Duration {
        match self {
            Self::Supplied(supplied) => supplied.disk,
            Self::Empty | Self::Whole(_) | Self::Told(_) => Duration::ZERO,
        }
    }

    /// What of it is a piece of a file may go that way.
    pub(crate) fn by(&mut self, shortcut: Option<&Arc<Shortcut>>) {
        if let Self::Supplied(supplied) = self {
            supplied.shortcut = shortcut.cloned();
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Chunk;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Chunk>>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                let chunk = (!bytes.is_empty()).then_some(Chunk::Memory(bytes));
                Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
            Self::Supplied(supplied) => {
                let chunk = ready!(supplied.poll(cx));
                Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
            }
            Self::Told(telling) => {
                let bytes = ready!(telling.poll(cx));
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(Chunk::Memory(bytes)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Supplied(supplied) => supplied.left == Some(0),
            Self::Told(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Supplied(supplied) => {
                supplied.left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Self::Told(_) => SizeHint::default(),
        }
    }
}
