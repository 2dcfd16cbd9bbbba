//! Order of eviction when the cache exceeds its budget.
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP
//! 2023): new extents enter a small queue of a tenth of the capacity. At its end those that were
//! not read again are evicted; the others move to the main queue, where every further read allows
//! one more turn. The positions of evicted extents are remembered for a while (the ghosts), and an
//! extent that returns enters the main queue directly. So a program that reads a file from end to
//! end passes through the small queue and does not displace what others read repeatedly. A hit
//! moves nothing.
//!
//! Two things are different here.
//!
//! *Reading again* means the same bytes: a program that reads an extent in small steps, one after
//! the other, reads it once.
//!
//! *Prefetched extents* that have not been read have a third queue, [`Class::Ahead`], from which
//! extents are evicted only when the others are empty: its size is bounded when prefetches are
//! claimed, and evicting from it wastes the fetch. After its first read such an extent is like any
//! other. It can also be [demoted](super::Cache) once it is known that it will not be read.

use std::collections::{HashSet, VecDeque};

/// The queue of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Prefetched and not read yet.
    Ahead,
    /// Read once.
    Small,
    /// Read again.
    Main,
}

/// The queue slot of an extent: its entry, its offset, and a stamp that distinguishes it from
/// earlier slots of the extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) entry: u64,
    pub(super) start: u64,
    pub(super) stamp: u64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Oldest first. Tokens whose extents have left are skipped when they reach the front.
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
    /// In flight, and no read waits for them; of all files.
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

    /// Adds an extent to the queue of its class; returns its stamp.
    pub(super) fn enter(&mut self, class: Class, entry: u64, start: u64, bytes: u64) -> u64 {
        self.next_stamp += 1;
        let stamp = self.next_stamp;
        let queue = self.queue(class);
        queue.tokens.push_back(Token { entry, start, stamp });
        queue.bytes += bytes;
        queue.extents += 1;
        stamp
    }

    /// Removes an extent from the size of its queue.
    pub(super) fn leave(&mut self, class: Class, bytes: u64) {
        let queue = self.queue(class);
        queue.bytes = queue.bytes.saturating_sub(bytes);
        queue.extents = queue.extents.saturating_sub(1);
    }

    /// Adds the growth of an extent to the size of its queue.
    pub(super) fn grow(&mut self, class: Class, bytes: u64) {
        self.queue(class).bytes += bytes;
    }

    /// The queue of an extent that was read for the first time since it arrived.
    pub(super) fn class_of_read(&mut self, entry: u64, start: u64) -> Class {
        if self.ghost_set.remove(&(entry, start)) { Class::Main } else { Class::Small }
    }

    /// Remembers an evicted extent as a ghost.
    pub(super) fn remember(&mut self, entry: u64, start: u64) {
        if self.ghost_set.insert((entry, start)) {
            self.ghosts.push_back((entry, start));
        }
        // As many as the main queue has extents, at least some; those that returned are still in
        // the list.
        let most = self.main.extents.max(64);
        while self.ghosts.len() > most {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.ghost_set.remove(&oldest);
            }
        }
    }

    /// The next candidate for eviction. The extent may have left this slot.
    pub(super) fn next_victim(&mut self) -> Option<(Class, Token)> {
        let small_full = self.small.bytes.saturating_mul(SMALL_PART) >= self.bytes();
        let order = if small_full {
            [Class::Small, Class::Main, Class::Ahead]
        } else {
            [Class::Main, Class::Small, Class::Ahead]
        };
        order.into_iter().find_map(|class| Some((class, self.queue(class).tokens.pop_front()?)))
    }

    /// The oldest of the prefetched extents.
    pub(super) fn next_ahead(&mut self) -> Option<Token> {
        self.ahead.tokens.pop_front()
    }

    /// Drops tokens of extents that have left, in queues where they outnumber the others.
    pub(super) fn sweep(&mut self, is_there: impl Fn(&Token) -> bool) {
        for queue in [&mut self.ahead, &mut self.small, &mut self.main] {
            if queue.tokens.len() > 2 * queue.extents + 64 {
                queue.tokens.retain(&is_there);
            }
        }
    }
}
