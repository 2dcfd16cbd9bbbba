//! Order of eviction when there is no room.
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP
//! 2023): what is new enters a small queue of a tenth of the room, and what has not been read again
//! when it comes to its end goes; what has moves to the main queue, where every further reading
//! buys one more turn. What went is remembered for a while by its place (the ghost), and if it
//! comes back enters the main queue at once. So a program that reads a file from end to end passes
//! through the small queue and leaves alone what others read again and again. A hit moves nothing.
//!
//! Two things are different here.
//!
//! *Reading again* means the same bytes: a program that reads an extent in small steps, one after
//! the other, reads it once.
//!
//! *What was fetched ahead* and has not been read at all has a third queue, [`Class::Ahead`], which
//! is touched only when the others are empty: it is bounded by those who fetch, and to drop it is
//! to have fetched for nothing. With the first reading it becomes like any other. It can also be
//! [demoted](super::Cache): once it is known that nobody comes for it.

use std::collections::{HashSet, VecDeque};

/// In which queue an extent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Fetched ahead and not read at all.
    Ahead,
    /// Read, and not again.
    Small,
    /// Read again.
    Main,
}

/// A place in a queue: of which entry, where in the file, and which of the places that the extent
/// has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) entry: u64,
    pub(super) start: u64,
    pub(super) stamp: u64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Oldest first. Those whose extents have left are skipped when they come to the front.
    tokens: VecDeque<Token>,
    bytes: u64,
    extents: usize,
}

/// The queues and their sizes. The extents themselves are with their files.
#[derive(Debug)]
pub(super) struct EvictionPolicy {
    budget_bytes: u64,
    ahead: Queue,
    small: Queue,
    main: Queue,
    ghosts: VecDeque<(u64, u64)>,
    ghost_set: HashSet<(u64, u64)>,
    next_stamp: u64,
    /// On the way, and nobody waits for them; in all files.
    pub(super) prefetching_bytes: u64,
}

/// Divisor of the capacity that gives the small queue's part.
const SMALL_PART: u64 = 10;

impl EvictionPolicy {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            ahead: Queue::default(),
            small: Queue::default(),
            main: Queue::default(),
            ghosts: VecDeque::new(),
            ghost_set: HashSet::new(),
            next_stamp: 0,
            prefetching_bytes: 0,
        }
    }

    fn queue(&mut self, class: Class) -> &mut Queue {
        match class {
            Class::Ahead => &mut self.ahead,
            Class::Small => &mut self.small,
            Class::Main => &mut self.main,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ahead.bytes + self.small.bytes + self.main.bytes
    }

    pub(super) fn ahead_bytes(&self) -> u64 {
        self.ahead.bytes
    }

    pub(super) fn is_over_budget(&self) -> bool {
        self.bytes() > self.budget_bytes
    }

    /// An extent enters the queue of its class; its stamp.
    pub(super) fn enter(&mut self, class: Class, entry: u64, start: u64, bytes: u64) -> u64 {
        self.next_stamp += 1;
        let stamp = self.next_stamp;
        let queue = self.queue(class);
        queue.tokens.push_back(Token { entry, start, stamp });
        queue.bytes += bytes;
        queue.extents += 1;
        stamp
    }

    /// An extent leaves its queue.
    pub(super) fn leave(&mut self, class: Class, bytes: u64) {
        let queue = self.queue(class);
        queue.bytes = queue.bytes.saturating_sub(bytes);
        queue.extents = queue.extents.saturating_sub(1);
    }

    /// An extent has grown.
    pub(super) fn grow(&mut self, class: Class, bytes: u64) {
        self.queue(class).bytes += bytes;
    }

    /// Where an extent goes that was read for the first time since it came.
    pub(super) fn class_of_read(&mut self, entry: u64, start: u64) -> Class {
        if self.ghost_set.remove(&(entry, start)) { Class::Main } else { Class::Small }
    }

    /// Remembers that an extent went.
    pub(super) fn remember(&mut self, entry: u64, start: u64) {
        if self.ghost_set.insert((entry, start)) {
            self.ghosts.push_back((entry, start));
        }
        // As many as there are extents, at least some; those that came back are still in the list.
        let most = self.main.extents.max(64);
        while self.ghosts.len() > most {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.ghost_set.remove(&oldest);
            }
        }
    }

    /// The next one to look at when room is wanted. The extent may have left the place.
    pub(super) fn next_victim(&mut self) -> Option<(Class, Token)> {
        let small_full = self.small.bytes.saturating_mul(SMALL_PART) >= self.bytes();
        let order = if small_full {
            [Class::Small, Class::Main, Class::Ahead]
        } else {
            [Class::Main, Class::Small, Class::Ahead]
        };
        order.into_iter().find_map(|class| Some((class, self.queue(class).tokens.pop_front()?)))
    }

    /// The oldest of what was fetched ahead.
    pub(super) fn next_ahead(&mut self) -> Option<Token> {
        self.ahead.tokens.pop_front()
    }

    /// Forgets places that were left, where they have become more than those that were not.
    pub(super) fn sweep(&mut self, is_there: impl Fn(&Token) -> bool) {
        for queue in [&mut self.ahead, &mut self.small, &mut self.main] {
            if queue.tokens.len() > 2 * queue.extents + 64 {
                queue.tokens.retain(&is_there);
            }
        }
    }
}
