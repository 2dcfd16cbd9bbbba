//! Work queue of a job: files that were found and not opened yet, and open files.
//!
//! Every worker asks here for its next work. Pieces of open files come before files that are not
//! open, so that few files are half done at any time; a worker for which there is neither takes
//! half of what the slowest other one still owes.

use crate::file::{CopyItem, FileCopy, Piece};
use hither_core::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Next task of a worker.
#[derive(Debug)]
pub(crate) enum NextTask {
    Piece(Arc<FileCopy>, Arc<Piece>),
    Open(CopyItem),
    /// Nothing at the moment.
    Wait,
    /// Nothing any more.
    Over,
}

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    found: VecDeque<CopyItem>,
    open: Vec<Arc<FileCopy>>,
    /// Files being opened, and open ones that are not in `open` yet or any more, but not done.
    in_hand: usize,
    /// Whoever may still find files.
    finders: usize,
    max_open: usize,
}

impl Queue {
    /// A queue of at most `max_open` open files, which lasts as long as there are `finders`.
    pub(crate) fn new(max_open: usize, finders: usize) -> Self {
        let state =
            State { found: VecDeque::new(), open: Vec::new(), in_hand: 0, finders, max_open };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    pub(crate) fn found(&self, item: CopyItem) {
        self.state().found.push_back(item);
        self.changed.notify_one();
    }

    /// One finder less.
    pub(crate) fn found_all(&self) {
        let mut state = self.state();
        state.finders = state.finders.saturating_sub(1);
        drop(state);
        self.changed.notify_waiters();
    }

    /// The next task of `worker`. A file that is to be opened is in the worker's hand until
    /// [`Queue::opened`] or [`Queue::closed`].
    pub(crate) fn take(&self, worker: usize) -> NextTask {
        let mut state = self.state();
        let is_last = state.found.is_empty() && state.finders == 0;
        for file in &state.open {
            if let Some(piece) = file.take(worker, is_last) {
                return NextTask::Piece(Arc::clone(file), piece);
            }
        }
        if state.in_hand < state.max_open
            && let Some(item) = state.found.pop_front()
        {
            state.in_hand += 1;
            return NextTask::Open(item);
        }
        if state.found.is_empty() {
            for file in &state.open {
                if let Some(piece) = file.split_slowest_piece() {
                    return NextTask::Piece(Arc::clone(file), piece);
                }
            }
        }
        if state.found.is_empty() && state.in_hand == 0 && state.finders == 0 {
            NextTask::Over
        } else {
            NextTask::Wait
        }
    }

    /// Pieces of the file may be taken.
    pub(crate) fn opened(&self, file: Arc<FileCopy>) {
        self.state().open.push(file);
        self.changed.notify_waiters();
    }

    /// A file is done with, if it was opened (`file`) or not. It may be copied anew (`again`).
    pub(crate) fn closed(&self, file: Option<&Arc<FileCopy>>, again: Option<CopyItem>) {
        let mut state = self.state();
        if let Some(file) = file {
            state.open.retain(|open| !Arc::ptr_eq(open, file));
        }
        state.in_hand = state.in_hand.saturating_sub(1);
        state.found.extend(again);
        drop(state);
        self.changed.notify_waiters();
    }

    /// More can be taken than before.
    pub(crate) fn more(&self) {
        self.changed.notify_waiters();
    }

    /// Done when there may be something to do that there was not when this was
    /// [enabled](Notified::enable).
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
