//! One file that is opened ahead of use: how far it is, and who waits for it.

use crate::file::origin::FileOrigin;
use crate::open_ahead::fetch;
use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::prefetched::PrefetchedEnds;
use crate::open_ahead::queue::OpenAheadQueue;
use hither_core::error::{Error, Result, Retry};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Failures of opening a file that may pass, before it counts as failed.
const MAX_FAILURES: u32 = 4;

/// Bytes of the end of a file that are fetched when it is opened, at most.
const MAX_TAIL: u64 = 1 << 20;

/// A file that may be opened ahead.
pub(crate) struct OpenAheadTask {
    pub(crate) origin: Arc<FileOrigin>,
    /// Its server.
    site: String,
    state: Mutex<TaskState>,
    changed: Notify,
    used: AtomicBool,
    dataset: OnceLock<Arc<FolderAccess>>,
    /// Somebody waits for it to be opened in its turn.
    awaited: AtomicBool,
    /// Bytes of its end that are to be brought along at the least.
    tail: AtomicU64,
}

/// How far it is.
#[derive(Debug)]
enum TaskState {
    /// Nothing was done for it.
    Idle,
    /// In line.
    InLine(Tries),
    /// Being opened.
    Running(Tries),
    /// It comes back when its time is over.
    Away(Tries),
    /// Open.
    Open(Arc<PrefetchedEnds>, Range<Instant>),
    /// It could not be opened, and nobody has been told yet.
    Failed(Error),
    /// Its bytes are asked for as they are wanted.
    Plain,
}

/// What was tried so far.
#[derive(Debug, Clone, Default)]
struct Tries {
    /// The file is open already, and more of it is fetched.
    opened: Option<Arc<PrefetchedEnds>>,
    /// When the first one began.
    began: Option<Instant>,
    failures: u32,
    /// When it was put off first.
    put_off: Option<Instant>,
}

impl Tries {
    fn begun(self) -> Self {
        Self { began: self.began.or_else(|| Some(Instant::now())), ..self }
    }
}

/// What comes after a try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    /// More of it, if more is wanted by now.
    Opened,
    /// Nothing: it is open, or failed.
    Done,
    /// Another try after this time.
    Later(Duration),
}

impl fmt::Debug for OpenAheadTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").field("source", &self.origin.source.name()).finish_non_exhaustive()
    }
}

impl OpenAheadTask {
    pub(crate) fn new(origin: Arc<FileOrigin>) -> Arc<Self> {
        Arc::new(Self {
            site: origin.server(),
            origin,
            state: Mutex::new(TaskState::Idle),
            changed: Notify::new(),
            used: AtomicBool::new(false),
            dataset: OnceLock::new(),
            awaited: AtomicBool::new(false),
            tail: AtomicU64::new(0),
        })
    }

    /// The server that the file is on.
    pub(crate) fn site(&self) -> &str {
        &self.site
    }

    /// Files of its server that may be opened at a time.
    pub(crate) fn max_at_once(&self) -> usize {
        self.origin.source.max_connections().max(1)
    }

    /// Bytes of its end that the program will want; 0 if it does not say.
    pub(crate) fn tail(&self) -> u64 {
        self.tail.load(Ordering::Relaxed)
    }

    /// The program will want so many bytes of its end.
    pub(crate) fn set_tail(&self, tail: u64) {
        self.tail.fetch_max(tail.clamp(1, MAX_TAIL), Ordering::Relaxed);
    }

    /// Whether the program has used the file.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether it is to be opened even if nothing of it can be held.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    /// What was fetched ahead, which is waited for; none if the file is not opened ahead.
    ///
    /// # Errors
    /// What opening it failed with, once: whoever tries again asks the server.
    pub(crate) async fn first_use(self: &Arc<Self>) -> Result<Option<Arc<PrefetchedEnds>>> {
        self.used.store(true, Ordering::Relaxed);
        if self.start_now() {
            self.origin.context.open_ahead.begin(Arc::clone(self));
        }
        self.settled().await
    }

    /// The file is used in a way that nothing was fetched for.
    pub(crate) fn skip(&self) {
        self.used.store(true, Ordering::Relaxed);
        let mut state = self.state();
        if matches!(&*state, TaskState::Idle | TaskState::InLine(Tries { opened: None, .. })) {
            *state = TaskState::Plain;
        }
    }

    /// When it was opened: from its first turn until it was open; none as long as it is not.
    pub(crate) fn open_ahead_interval(&self) -> Option<Range<Instant>> {
        match &*self.state() {
            TaskState::Open(_, between) => Some(between.clone()),
            _ => None,
        }
    }

    /// Waits until it is open, in its turn.
    ///
    /// # Errors
    /// What opening it failed with.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<()> {
        self.awaited.store(true, Ordering::Relaxed);
        self.origin.context.open_ahead.enqueue(self);
        self.settled().await.map(drop)
    }

    async fn settled(&self) -> Result<Option<Arc<PrefetchedEnds>>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                match &*state {
                    TaskState::Open(opened, _) => return Ok(Some(Arc::clone(opened))),
                    TaskState::Plain => return Ok(None),
                    TaskState::Idle => {
                        *state = TaskState::Plain;
                        return Ok(None);
                    }
                    TaskState::Failed(error) => {
                        let error = error.clone();
                        *state = TaskState::Plain;
                        return Err(error);
                    }
                    TaskState::InLine(_) | TaskState::Running(_) | TaskState::Away(_) => {}
                }
            }
            changed.await;
        }
    }

    /// Takes a place in line; tells whether there was a reason to.
    pub(crate) fn enqueue(&self) -> bool {
        let mut state = self.state();
        let tries = match &*state {
            TaskState::Idle => Tries::default(),
            TaskState::Away(tries) => tries.clone(),
            _ => return false,
        };
        *state = TaskState::InLine(tries);
        true
    }

    /// Takes a place in line once more, for what the habit has become; tells whether there was a reason to.
    pub(crate) fn stand_in_line_for_more(&self) -> bool {
        let mut state = self.state();
        let TaskState::Open(opened, between) = &*state else { return false };
        if self.is_used() || !opened.lacks(&self.dataset().wanted(opened.size)) {
            return false;
        }
        let (opened, began) = (Some(Arc::clone(opened)), Some(between.start));
        *state = TaskState::InLine(Tries { opened, began, ..Tries::default() });
        true
    }

    /// The files beside it.
    pub(crate) fn dataset(&self) -> &Arc<FolderAccess> {
        self.dataset.get_or_init(|| self.origin.context.open_ahead.dataset(&self.origin.folder()))
    }

    /// The program reads something of it, of which more was fetched ahead than is usual.
    pub(crate) fn reads(&self, opened: &PrefetchedEnds, ranges: &[Range<u64>]) {
        if self.dataset().reads(opened, ranges) {
            self.origin.context.open_ahead.habit_changed(self.site(), self.dataset());
        }
    }

    /// Leaves the line to be opened; tells whether it still stood there.
    pub(crate) fn take_turn(&self) -> bool {
        let mut state = self.state();
        let TaskState::InLine(tries) = &*state else { return false };
        *state = TaskState::Running(tries.clone().begun());
        true
    }

    /// Leaves the line to be opened at once. Where there is no room for what that would fetch, it is not opened at all.
    fn start_now(&self) -> bool {
        let has_room = self.origin.context.open_ahead.has_room();
        let mut state = self.state();
        let TaskState::InLine(tries) = &*state else { return false };
        let begins = has_room || tries.opened.is_some();
        *state = if begins { TaskState::Running(tries.clone().begun()) } else { TaskState::Plain };
        begins
    }

    /// One try to open it.
    pub(crate) async fn run(self: &Arc<Self>, opener: &Arc<OpenAheadQueue>) -> TaskOutcome {
        let before = match &*self.state() {
            TaskState::Running(tries) => tries.opened.clone(),
            _ => return TaskOutcome::Done,
        };
        let (result, came) = match before {
            None if self.tail() > 0 && fetch::is_remembered(self).await => {
                // The store has the ends, and the first answer to what is read besides tells whether they are still true.
                *self.state() = TaskState::Plain;
                self.changed.notify_waiters();
                return TaskOutcome::Done;
            }
            None => (fetch::open(self, opener).await.map(Arc::new), true),
            Some(opened) => {
                // If that fails, whoever needs it asks again.
                let came = fetch::more(self, &opened).await.is_ok();
                (Ok(opened), came)
            }
        };
        let mut state = self.state();
        let TaskState::Running(tries) = &*state else { return TaskOutcome::Done };
        let tries = tries.clone();
        let again = match &result {
            Ok(_) => None,
            Err(error) => self.again(error, tries.clone()),
        };
        let (next, turn) = match (result, again) {
            (_, Some((tries, after))) => (TaskState::Away(tries), TaskOutcome::Later(after)),
            (Ok(opened), None) => {
                let now = Instant::now();
                let between = tries.began.unwrap_or(now)..now;
                let turn = if came { TaskOutcome::Opened } else { TaskOutcome::Done };
                (TaskState::Open(opened, between), turn)
            }
            (Err(error), None) => (TaskState::Failed(error), TaskOutcome::Done),
        };
        *state = next;
        drop(state);
        if !matches!(turn, TaskOutcome::Later(_)) {
            self.changed.notify_waiters();
            if !self.is_used() {
                self.dataset().unused(self);
            }
        }
        turn
    }

    /// Whether and when to try again after a failure.
    fn again(&self, error: &Error, mut tries: Tries) -> Option<(Tries, Duration)> {
        match error.retry() {
            Retry::Later { after } => {
                let since = *tries.put_off.get_or_insert_with(Instant::now);
                let waited = since.elapsed().saturating_add(after);
                (waited < self.origin.context.config.reader.staging_timeout)
                    .then_some((tries, after))
            }
            Retry::SameServer { after } => {
                let failures = tries.failures + 1;
                (failures < MAX_FAILURES).then_some((Tries { failures, ..tries }, after))
            }
            Retry::Never | Retry::OtherServer => None,
        }
    }

    /// The program begins to use the file: returns how often it has read the previous one of the
    /// folder.
    pub(crate) fn reads_before(&self, ends: &PrefetchedEnds) -> Option<usize> {
        self.dataset().begins(ends)
    }

    fn state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
