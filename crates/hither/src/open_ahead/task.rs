//! The state machine of one file that may be opened ahead: idle, queued, running, open or failed.

use crate::file::origin::FileOrigin;
use crate::open_ahead::fetch;
use crate::open_ahead::folder::FolderAccess;
use crate::open_ahead::prefetched::PrefetchedEnds;
use crate::open_ahead::queue::OpenAheadQueue;
use hither_core::Backoff;
use hither_core::error::{Error, Result};
use hither_core::sync::lock;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The longest tail that is fetched when a file is opened.
const MAX_TAIL_BYTES: u64 = 1 << 20;

/// A file that may be opened ahead.
pub(crate) struct OpenAheadTask {
    pub(crate) origin: Arc<FileOrigin>,
    pub(crate) queue: Arc<OpenAheadQueue>,
    /// The server of the file, whose queue it waits in.
    server: String,
    state: Mutex<TaskState>,
    changed: Notify,
    used: AtomicBool,
    folder: OnceLock<Arc<FolderAccess>>,
    /// A caller waits for the file to be opened in its turn.
    awaited: AtomicBool,
    /// The smallest number of bytes to fetch of the tail; 0 if the program has named none.
    tail: AtomicU64,
}

/// The state of a file that may be opened ahead.
#[derive(Debug)]
enum TaskState {
    /// Nothing was done yet.
    Idle,
    /// Waits in the queue of its server.
    Queued(Attempts),
    /// Is being opened.
    Running(Attempts),
    /// Waits for the delay before the next attempt.
    Delayed(Attempts),
    /// Open, since the end of the interval.
    Open(Arc<PrefetchedEnds>, Range<Instant>),
    /// Could not be opened; the error is returned at the first use.
    Failed(Error),
    /// Not opened ahead: reads cause the only requests.
    Bypassed,
}

/// The attempts so far.
#[derive(Debug, Clone, Default)]
struct Attempts {
    /// The ends of a file that is open and fetches more ranges.
    ends: Option<Arc<PrefetchedEnds>>,
    /// The start of the first attempt.
    started: Option<Instant>,
    backoff: Backoff,
}

impl Attempts {
    fn start(self) -> Self {
        Self { started: self.started.or_else(|| Some(Instant::now())), ..self }
    }
}

/// The result of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    /// Open; further ranges may have become due.
    Opened,
    /// Done: it is open, or has failed.
    Done,
    /// Another attempt after this delay.
    Later(Duration),
}

impl fmt::Debug for OpenAheadTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAheadTask")
            .field("source", &self.origin.source.name())
            .finish_non_exhaustive()
    }
}

impl OpenAheadTask {
    pub(crate) fn new(origin: Arc<FileOrigin>, queue: Arc<OpenAheadQueue>) -> Arc<Self> {
        Arc::new(Self {
            server: origin.server(),
            origin,
            queue,
            state: Mutex::new(TaskState::Idle),
            changed: Notify::new(),
            used: AtomicBool::new(false),
            folder: OnceLock::new(),
            awaited: AtomicBool::new(false),
            tail: AtomicU64::new(0),
        })
    }

    /// The server of the file.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The largest number of files of the server that may be opened at a time.
    pub(crate) fn max_at_once(&self) -> usize {
        self.origin.source.max_connections().max(1)
    }

    /// The number of bytes of the tail that the program will read; 0 if it has named none.
    pub(crate) fn tail(&self) -> u64 {
        self.tail.load(Ordering::Relaxed)
    }

    /// Sets the number of bytes of the tail that the program will read.
    pub(crate) fn set_tail(&self, tail: u64) {
        self.tail.fetch_max(tail.clamp(1, MAX_TAIL_BYTES), Ordering::Relaxed);
    }

    /// Returns true if the program has used the file.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns true if the file is opened even without memory for its prefetched bytes.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    /// Waits for the prefetched ends; none if the file is not opened ahead.
    ///
    /// # Errors
    ///
    /// The error of opening the file, once: the next use asks the server.
    pub(crate) async fn first_use(self: &Arc<Self>) -> Result<Option<Arc<PrefetchedEnds>>> {
        self.used.store(true, Ordering::Relaxed);
        if self.start_now() {
            self.queue.start(Arc::clone(self));
        }
        self.wait().await
    }

    /// Records a use of the file that needs no prefetched ends.
    pub(crate) fn skip(&self) {
        self.used.store(true, Ordering::Relaxed);
        let mut state = self.state();
        if matches!(&*state, TaskState::Idle | TaskState::Queued(Attempts { ends: None, .. })) {
            *state = TaskState::Bypassed;
            self.changed.notify_waiters();
        }
    }

    /// The interval from the start of the first attempt until the file was open; none if it is not
    /// open.
    pub(crate) fn open_ahead_interval(&self) -> Option<Range<Instant>> {
        match &*self.state() {
            TaskState::Open(_, interval) => Some(interval.clone()),
            _ => None,
        }
    }

    /// Waits until the file is open, in its turn.
    ///
    /// # Errors
    ///
    /// The error of opening the file.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<()> {
        self.awaited.store(true, Ordering::Relaxed);
        self.queue.enqueue(self);
        self.wait().await.map(drop)
    }

    async fn wait(&self) -> Result<Option<Arc<PrefetchedEnds>>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                match &*state {
                    TaskState::Open(ends, _) => return Ok(Some(Arc::clone(ends))),
                    TaskState::Bypassed => return Ok(None),
                    TaskState::Idle => {
                        *state = TaskState::Bypassed;
                        return Ok(None);
                    }
                    TaskState::Failed(error) => {
                        let error = error.clone();
                        *state = TaskState::Bypassed;
                        return Err(error);
                    }
                    TaskState::Queued(_) | TaskState::Running(_) | TaskState::Delayed(_) => {}
                }
            }
            changed.await;
        }
    }

    /// Enters the state of a queued file. Returns false if the file is queued, open or failed
    /// already.
    pub(crate) fn enqueue(&self) -> bool {
        let mut state = self.state();
        let attempts = match &*state {
            TaskState::Idle => Attempts::default(),
            TaskState::Delayed(attempts) => attempts.clone(),
            _ => return false,
        };
        *state = TaskState::Queued(attempts);
        true
    }

    /// Queues an open file once more, if the pattern of its folder has new ranges for it. Returns
    /// true if it was queued.
    pub(crate) fn requeue(&self) -> bool {
        let mut state = self.state();
        let TaskState::Open(ends, interval) = &*state else { return false };
        if self.is_used() || !ends.lacks(&self.folder().prefetch_ranges(ends.size)) {
            return false;
        }
        *state = TaskState::Queued(Attempts {
            ends: Some(Arc::clone(ends)),
            started: Some(interval.start),
            ..Attempts::default()
        });
        true
    }

    /// The access pattern of the folder of the file.
    pub(crate) fn folder(&self) -> &Arc<FolderAccess> {
        self.folder.get_or_init(|| self.queue.folder(&self.origin.folder()))
    }

    /// Records reads in the access pattern of the folder.
    pub(crate) fn record_reads(&self, ends: &PrefetchedEnds, ranges: &[Range<u64>]) {
        if self.folder().record_reads(ends, ranges) {
            self.queue.pattern_changed(self.server(), self.folder());
        }
    }

    /// Leaves the queue to be opened. Returns false if the file is no longer queued.
    pub(crate) fn take_turn(&self) -> bool {
        let mut state = self.state();
        let TaskState::Queued(attempts) = &*state else { return false };
        *state = TaskState::Running(attempts.clone().start());
        true
    }

    /// Leaves the queue to be opened at once. Without memory for its prefetched bytes, the file is
    /// not opened ahead.
    fn start_now(&self) -> bool {
        let has_room = self.queue.has_room();
        let mut state = self.state();
        let TaskState::Queued(attempts) = &*state else { return false };
        let starts = has_room || attempts.ends.is_some();
        *state =
            if starts { TaskState::Running(attempts.clone().start()) } else { TaskState::Bypassed };
        if !starts {
            self.changed.notify_waiters();
        }
        starts
    }

    /// Makes one attempt to open the file, or to fetch further ranges of it.
    pub(crate) async fn run(self: &Arc<Self>) -> TaskOutcome {
        let before = match &*self.state() {
            TaskState::Running(attempts) => attempts.ends.clone(),
            _ => return TaskOutcome::Done,
        };
        let (result, fetched) = match before {
            None if self.tail() > 0 && fetch::is_stored(self).await => {
                // The store has the ends. The response to the first other read validates them.
                *self.state() = TaskState::Bypassed;
                self.changed.notify_waiters();
                return TaskOutcome::Done;
            }
            None => (fetch::open(self).await.map(Arc::new), true),
            Some(ends) => {
                // If that fails, the reads of these ranges ask again.
                let fetched = fetch::fetch_missing(self, &ends).await.is_ok();
                (Ok(ends), fetched)
            }
        };
        let mut state = self.state();
        let TaskState::Running(attempts) = &*state else { return TaskOutcome::Done };
        let attempts = attempts.clone();
        let retry = match &result {
            Ok(_) => None,
            Err(error) => self.next_attempt(error, attempts.clone()),
        };
        let (next, outcome) = match (result, retry) {
            (_, Some((attempts, after))) => {
                (TaskState::Delayed(attempts), TaskOutcome::Later(after))
            }
            (Ok(ends), None) => {
                let now = Instant::now();
                let interval = attempts.started.unwrap_or(now)..now;
                let outcome = if fetched { TaskOutcome::Opened } else { TaskOutcome::Done };
                (TaskState::Open(ends, interval), outcome)
            }
            (Err(error), None) => (TaskState::Failed(error), TaskOutcome::Done),
        };
        *state = next;
        drop(state);
        if !matches!(outcome, TaskOutcome::Later(_)) {
            self.changed.notify_waiters();
            if !self.is_used() {
                self.folder().add_unused(self);
            }
        }
        outcome
    }

    /// The next attempt after an error, and the delay before it; none if the error is final.
    fn next_attempt(&self, error: &Error, mut attempts: Attempts) -> Option<(Attempts, Duration)> {
        let policy = &self.origin.context.config.reader.retry;
        let clock = self.origin.source.clock();
        let pause = attempts.backoff.next(policy, error.retry(), false, clock)?;
        Some((attempts, pause))
    }

    /// Records that the program starts to use the file. Returns the number of reads of the file of
    /// the folder that it used before.
    pub(crate) fn reads_before(&self, ends: &PrefetchedEnds) -> Option<usize> {
        self.folder().begin_use(ends)
    }

    fn state(&self) -> MutexGuard<'_, TaskState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, ClientConfig};
    use std::pin::pin;

    /// A file that waits for its next attempt.
    fn delayed(client: &Client) -> Arc<OpenAheadTask> {
        let file = client.open("http://127.0.0.1:9/file").unwrap();
        let task = Arc::clone(file.path.open_ahead().unwrap());
        *task.state() = TaskState::Delayed(Attempts::default());
        task
    }

    #[test]
    fn a_file_that_is_bypassed_is_not_waited_for() {
        let client = Client::new(ClientConfig::default()).unwrap();
        let task = delayed(&client);
        let found = client.block_on(async {
            let mut used = pin!(task.first_use());
            assert!(futures_util::poll!(&mut used).is_pending());
            assert!(task.enqueue());
            // Another thread reads the file.
            task.skip();
            tokio::time::timeout(Duration::from_secs(10), used).await
        });
        assert!(found.unwrap().unwrap().is_none());
    }

    #[test]
    fn a_file_that_is_waited_for_starts_when_it_is_queued_though_no_memory_is_left() {
        let client = Client::new(ClientConfig::default()).unwrap();
        let task = delayed(&client);
        let _all = client.open_ahead.reserve(u64::MAX / 2);
        client.block_on(async {
            let mut used = pin!(task.first_use());
            assert!(futures_util::poll!(&mut used).is_pending());
            client.open_ahead.enqueue(&task);
        });
        let state = task.state();
        assert!(!matches!(&*state, TaskState::Queued(_)), "{state:?}");
    }
}
