//! Work queue of a job: open files, and files that were found and not opened yet.
//!
//! Every worker takes its next task here. Pieces of open files come before files that are not open,
//! so that few files are half done at any time. If there is neither, a worker takes half of the
//! bytes that the slowest worker has not received. A file that goes to its target as one stream has
//! one worker, and more only where no other file can begin, because it is sent by a single request.
//! A finder waits while [`MAX_FOUND`] files have not been opened.
//!
//! Small files from listings wait in a list of their own, for tasks of their own
//! ([`crate::copy::worker`]): hundreds of them are in flight where the server takes that many
//! requests. While large files move as well, small files get half of the number that `--transfers`
//! allows.

use crate::copy::resources::memory_budget::MemoryBudget;
use crate::copy::small_slot::{SmallSlot, SmallSlots};
use crate::file::blocks::piece::Piece;
use crate::file::item::CopyItem;
use crate::file::{FileCopy, WorkRequest};
use crate::tree::small_files::{SmallFile, SmallFiles, TreeBatch};
use hither_core::sync::lock;
use hither_tune::FileLimits;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The largest number of files that were found and not opened yet: more than any number of workers
/// can open while a directory is listed, and one or two megabytes of memory. Also the largest
/// number of small files that are written and wait for the disk and their names.
pub(crate) const MAX_FOUND: usize = 4096;

/// Next task of a worker.
#[derive(Debug)]
pub(crate) enum NextTask {
    Piece(Arc<FileCopy>, Arc<Piece>),
    Open(Box<CopyItem>),
    /// A batch of small files of a tree.
    Batch(TreeBatch),
    /// Nothing at the moment.
    Wait,
    /// Nothing any more.
    Over,
}

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Small files that are being fetched or uploaded.
    slots: Arc<SmallSlots>,
    changed: Notify,
    room: Notify,
}

#[derive(Debug)]
struct State {
    found: VecDeque<CopyItem>,
    /// Small files of trees, for batches.
    small: SmallFiles,
    /// Small files that are copied one by one.
    singles: VecDeque<CopyItem>,
    /// The small files in flight.
    singles_in_hand: usize,
    open: Vec<Arc<FileCopy>>,
    /// Large files that are being opened, and open files that are not done and not in `open`, yet
    /// or any more.
    in_hand: usize,
    /// The number of finders that still run.
    finders: usize,
    max_open: usize,
    /// The queue has ended: no worker takes from it any more.
    closed: bool,
}

impl State {
    /// Returns true if all files were found and opened.
    fn has_found_all(&self) -> bool {
        let nothing_waits = self.found.is_empty() && self.singles.is_empty();
        nothing_waits && self.finders == 0 && self.small.is_idle()
    }

    fn is_over(&self) -> bool {
        self.has_found_all() && self.in_hand + self.singles_in_hand == 0
    }
}

impl Queue {
    /// A queue of at most `max_open` open files, which lasts as long as there are `finders`.
    pub(crate) fn new(max_open: usize, finders: usize) -> Self {
        let state = State {
            found: VecDeque::new(),
            small: SmallFiles::default(),
            singles: VecDeque::new(),
            singles_in_hand: 0,
            open: Vec::new(),
            in_hand: 0,
            finders,
            max_open,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            slots: Arc::default(),
            changed: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Adds a file; waits while the queue is full.
    pub(crate) async fn found(&self, item: CopyItem) {
        let is_small = item.is_small;
        self.add(item, |state| {
            let list = if is_small { &mut state.singles } else { &mut state.found };
            (list.len() < MAX_FOUND).then_some(list)
        })
        .await;
        if is_small { self.slots.notify() } else { self.changed.notify_one() }
    }

    /// Adds files of a worker's batch, which are copied one by one now. It does not wait while the
    /// queue is full, because only workers empty it.
    pub(crate) fn give_back(&self, items: Vec<CopyItem>) {
        let (small, large): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.is_small);
        let mut state = self.state();
        state.singles.extend(small);
        state.found.extend(large);
        drop(state);
        self.slots.notify();
        self.changed.notify_waiters();
    }

    /// Adds a small file; waits while the list is full.
    pub(crate) async fn found_small(&self, file: SmallFile) {
        self.add(file, |state| state.small.room()).await;
        self.changed.notify_one();
    }

    /// Adds `item` to the list that `room` returns once that has room.
    async fn add<T>(&self, item: T, room: impl Fn(&mut State) -> Option<&mut VecDeque<T>>) {
        loop {
            let mut waiting = pin!(self.room.notified());
            // Enabled before the queue is read, so that no place that becomes free in between is
            // missed.
            waiting.as_mut().enable();
            {
                let mut state = self.state();
                if state.closed {
                    return;
                }
                if let Some(list) = room(&mut state) {
                    return list.push_back(item);
                }
            }
            waiting.await;
        }
    }

    /// Ends the queue: what is found from now on is dropped, and so are open files, which hold the
    /// queue as it holds them.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let open = std::mem::take(&mut state.open);
        drop(state);
        drop(open);
        self.room.notify_waiters();
    }

    /// Records that a batch has ended.
    pub(crate) fn ended_batch(&self) {
        self.state().small.ended_batch();
        self.changed.notify_waiters();
    }

    /// Records that a finder has ended.
    pub(crate) fn found_all(&self) {
        let mut state = self.state();
        state.finders = state.finders.saturating_sub(1);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns true if nothing is left to do, and nothing will be found.
    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over()
    }

    /// The next small file, if one more may be in flight. It counts as in flight until
    /// [`Queue::closed`]. Its memory is taken from `budget`.
    pub(crate) fn take_small(
        &self,
        limits: FileLimits,
        budget: &Arc<MemoryBudget>,
    ) -> Option<(CopyItem, SmallSlot)> {
        let mut state = self.state();
        let has_others = !state.open.is_empty() || !state.found.is_empty();
        let share = if has_others { limits.all.div_ceil(2) } else { limits.all };
        let fetching = self.slots.taken();
        if fetching >= limits.small.min(share)
            || fetching + state.in_hand >= limits.all
            || state.singles_in_hand >= MAX_FOUND
        {
            return None;
        }
        let item = state.singles.pop_front()?;
        state.singles_in_hand += 1;
        if state.singles.len() == MAX_FOUND / 2 {
            self.room.notify_waiters();
        }
        let slot = self.slots.take(budget, item.counted_bytes());
        Some((item, slot))
    }

    /// Large files that were begun and are not done.
    pub(crate) fn in_hand(&self) -> usize {
        self.state().in_hand
    }

    /// Returns true if small files wait for others to be fetched.
    pub(crate) fn has_small(&self) -> bool {
        !self.state().singles.is_empty()
    }

    /// Completes when there may be one more small file to take.
    pub(crate) fn small_changed(&self) -> Notified<'_> {
        self.slots.changed()
    }

    /// The next task of a worker. A file that is to be opened belongs to the worker until
    /// [`Queue::opened`] or [`Queue::closed`].
    pub(crate) fn take(&self, request: WorkRequest, limits: FileLimits) -> NextTask {
        let workers = request.workers;
        let mut state = self.state();
        // Half of the workers move small files as long as there are others.
        let has_others = !state.open.is_empty() || !state.found.is_empty();
        let most = if has_others { workers.div_ceil(2) } else { workers };
        if state.small.batches() < most
            && let Some(batch) = state.small.take(workers)
        {
            drop(state);
            self.room.notify_waiters();
            return NextTask::Batch(batch);
        }
        let is_last = state.has_found_all();
        let may_open = state.in_hand < state.max_open.min(limits.large)
            && self.slots.taken() + state.in_hand < limits.all;
        let of_file = |file: &Arc<FileCopy>| {
            let piece = file.take(request, is_last)?;
            Some(NextTask::Piece(Arc::clone(file), piece))
        };
        let has_worker =
            |file: &&Arc<FileCopy>| file.target().is_stream() && file.blocks().is_under_way();
        if let Some(task) = state.open.iter().filter(|it| !has_worker(it)).find_map(of_file) {
            return task;
        }
        if may_open && let Some(item) = state.found.pop_front() {
            state.in_hand += 1;
            if state.found.len() == MAX_FOUND / 2 {
                self.room.notify_waiters();
            }
            return NextTask::Open(Box::new(item));
        }
        if let Some(task) = state.open.iter().filter(has_worker).find_map(of_file) {
            return task;
        }
        if state.found.is_empty() {
            for file in &state.open {
                if let Some(piece) = file.split_slowest_piece(request) {
                    return NextTask::Piece(Arc::clone(file), piece);
                }
            }
        }
        if state.is_over() { NextTask::Over } else { NextTask::Wait }
    }

    /// Takes the missing parts of the pieces of workers above `workers` back, for others to fetch.
    pub(crate) fn take_back(&self, workers: usize) {
        let open = self.state().open.clone();
        for file in open {
            file.take_back(workers);
        }
        self.changed.notify_waiters();
    }

    /// Pieces of the file may be taken.
    pub(crate) fn opened(&self, file: Arc<FileCopy>) {
        let mut state = self.state();
        if !state.closed {
            state.open.push(file);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends a file, opened (`file`) or not. It may be queued again (`again`).
    pub(crate) fn closed(
        &self,
        is_small: bool,
        file: Option<&Arc<FileCopy>>,
        again: Option<CopyItem>,
    ) {
        let mut state = self.state();
        if let Some(file) = file.filter(|_| !is_small) {
            state.open.retain(|open| !Arc::ptr_eq(open, file));
        }
        if is_small {
            state.singles_in_hand = state.singles_in_hand.saturating_sub(1);
        } else {
            state.in_hand = state.in_hand.saturating_sub(1);
        }
        let wakes_workers = !is_small || again.is_some() || state.is_over();
        match again {
            Some(item) if item.is_small => state.singles.push_back(item),
            again => state.found.extend(again),
        }
        drop(state);
        self.slots.notify();
        if wakes_workers {
            self.changed.notify_waiters();
        }
    }

    /// Wakes workers, because there is more work to take.
    pub(crate) fn more(&self) {
        self.changed.notify_waiters();
    }

    /// Completes when there may be work that did not exist when this was
    /// [enabled](Notified::enable).
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::{CopyPath, Target};
    use futures_util::FutureExt;
    use hither_transport::LocalStorage;

    #[test]
    fn a_finder_waits_while_too_many_files_are_not_opened() {
        let source = CopyPath {
            storage: Arc::new(LocalStorage::new("/", Arc::default())),
            path: "x".to_owned(),
            local: None,
            is_directory: false,
            contents: false,
        };
        let item = CopyItem::new(source, None, Target::Discard);
        let all = FileLimits { large: usize::MAX, small: 1, all: usize::MAX };
        let queue = Queue::new(usize::MAX, 1);
        let request = WorkRequest { number: 0, workers: 1, has_more_workers: false };
        for _ in 0..MAX_FOUND {
            queue.found(item.clone()).now_or_never().unwrap();
        }
        let mut waiting = Box::pin(queue.found(item.clone()));
        assert!(waiting.as_mut().now_or_never().is_none());
        while queue.state().found.len() >= MAX_FOUND / 2 {
            assert!(matches!(queue.take(request, all), NextTask::Open(_)));
        }
        assert!(waiting.now_or_never().is_some());
        queue.close();
        queue.found(item).now_or_never().unwrap();
        assert_eq!(queue.state().found.len(), MAX_FOUND / 2);
    }
}
