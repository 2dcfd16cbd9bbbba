//! The body of an answer: nothing, some bytes, or blocks that are made on threads that may wait for the disk.
//!
//! While one block is on its way to the client, the next is being read: disk and network overlap. No more than that is read
//! ahead; see [`crate::loan`] for what bounds it.

use crate::loan::{Allowance, Memory};
use crate::third_party::Telling;
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::body::{Frame, SizeHint};
use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Blocks of one answer in memory: one that is sent, one that is read.
const BLOCKS: usize = 2;

/// Makes the blocks of an answer, one after the other.
pub(crate) trait Supply: Send + Debug + 'static {
    /// About how many bytes the next block takes; 0 if there is none.
    fn next_bytes(&self) -> usize;
    /// Writes the next block to the front of `buffer`, whatever is in it, and tells its length. May wait for the disk.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
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
    Filling(JoinHandle<Filled>),
    Over,
}

impl Supplied {
    /// A body of `length` bytes, if that is known.
    pub(crate) fn new(supply: Box<dyn Supply>, length: Option<u64>, memory: &Arc<Memory>) -> Self {
        let (memory, allowance) = (Arc::clone(memory), Arc::new(Semaphore::new(BLOCKS)));
        let state = State::Waiting(supply);
        Self { memory, allowance, state, left: length, disk: Duration::ZERO }
    }

    fn begin(&mut self, mut supply: Box<dyn Supply>) {
        let bytes = supply.next_bytes();
        if bytes == 0 {
            self.state = State::Over;
            return;
        }
        let fill = move |mut loan: crate::loan::Loan| {
            let began = Instant::now();
            let filled = supply.fill(loan.buffer())?;
            Ok((supply, loan.freeze(filled), began.elapsed()))
        };
        self.state = State::Filling(match self.memory.try_borrow(bytes, &self.allowance) {
            Some(loan) => tokio::task::spawn_blocking(move || fill(loan)),
            None => {
                let (memory, allowance) = (Arc::clone(&self.memory), Arc::clone(&self.allowance));
                tokio::spawn(async move {
                    let loan = memory.borrow(bytes, allowance).await.ok_or_else(given_up)?;
                    tokio::task::spawn_blocking(move || fill(loan)).await?
                })
            }
        });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Waiting(supply) => self.begin(supply),
                State::Filling(mut filling) => {
                    let Poll::Ready(filled) = filling.poll_unpin(cx) else {
                        self.state = State::Filling(filling);
                        return Poll::Pending;
                    };
                    let (supply, bytes, time) = match filled.map_err(io::Error::from).flatten() {
                        Ok(filled) => filled,
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    };
                    self.disk += time;
                    self.begin(supply);
                    if let Some(left) = &mut self.left {
                        *left = left.saturating_sub(bytes.len() as u64);
                    }
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
            }
        }
    }
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
    /// How long threads have been making what was sent of it.
    pub(crate) fn disk_time(&self) -> Duration {
        match self {
            Self::Supplied(supplied) => supplied.disk,
            Self::Empty | Self::Whole(_) | Self::Told(_) => Duration::ZERO,
        }
    }
}

impl hyper::body::Body for Body {
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
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Supplied(supplied) => {
                let bytes = ready!(supplied.poll(cx));
                Poll::Ready(bytes.map(|bytes| bytes.map(Frame::data)))
            }
            Self::Told(telling) => {
                let bytes = ready!(telling.poll(cx));
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
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
