//! One file that is opened ahead of use: how far it is, and who waits for it.

use crate::client::Shared;
use crate::opened::{self, Opened};
use crate::opener::Opener;
use hither_core::Source;
use hither_core::error::{Error, Result, Retry};
use hither_store::MetadataKey;
use hither_transport::Location;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Failures of opening a file that may pass, before it counts as failed.
const MOST_FAILURES: u32 = 4;

/// A file that may be opened ahead.
pub(crate) struct Ahead {
    pub(crate) shared: Arc<Shared>,
    pub(crate) source: Arc<dyn Source>,
    /// Where it is, if that is a place with a memory.
    pub(crate) location: Option<Location>,
    /// Its server.
    site: String,
    state: Mutex<State>,
    changed: Notify,
    used: AtomicBool,
    /// Somebody waits for it to be opened in its turn.
    awaited: AtomicBool,
}

/// How far it is.
#[derive(Debug)]
enum State {
    /// Nothing was done for it.
    Idle,
    /// In line.
    InLine(Tries),
    /// Being opened.
    Running(Tries),
    /// It comes back when its time is over.
    Away(Tries),
    /// Open.
    Open(Arc<Opened>),
    /// It could not be opened, and nobody has been told yet.
    Failed(Error),
    /// Its bytes are asked for as they are wanted.
    Plain,
}

/// What was tried so far.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    failures: u32,
    /// When it was put off first.
    put_off: Option<Instant>,
}

/// What comes after a try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing: it is open, or failed.
    Done,
    /// Another try after this time.
    Later(Duration),
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").field("source", &self.source.name()).finish_non_exhaustive()
    }
}

impl Ahead {
    pub(crate) fn new(
        shared: Arc<Shared>,
        source: Arc<dyn Source>,
        location: Option<Location>,
        site: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            source,
            location,
            site,
            state: Mutex::new(State::Idle),
            changed: Notify::new(),
            used: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
        })
    }

    /// The server that the file is on.
    pub(crate) fn site(&self) -> &str {
        &self.site
    }

    /// What the file is remembered under. May have to wait for a token.
    pub(crate) fn key(&self) -> Option<MetadataKey> {
        let location = self.location.as_ref()?;
        let identity = self.shared.network.identity(location);
        Some(MetadataKey { url: location.key(), identity })
    }

    /// Files of its server that may be opened at a time.
    pub(crate) fn most_at_once(&self) -> usize {
        self.source.max_lanes().max(1)
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
    pub(crate) async fn first_use(self: &Arc<Self>) -> Result<Option<Arc<Opened>>> {
        self.used.store(true, Ordering::Relaxed);
        if self.jump_the_line() {
            self.shared.opener.begin(Arc::clone(self));
        }
        self.settled().await
    }

    /// The file is used in a way that nothing was fetched for.
    pub(crate) fn decline(&self) {
        self.used.store(true, Ordering::Relaxed);
        let mut state = self.state();
        if matches!(*state, State::Idle | State::InLine(_)) {
            *state = State::Plain;
        }
    }

    /// Waits until it is open, in its turn.
    ///
    /// # Errors
    /// What opening it failed with.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<()> {
        self.awaited.store(true, Ordering::Relaxed);
        self.shared.opener.enqueue(self);
        self.settled().await.map(drop)
    }

    async fn settled(&self) -> Result<Option<Arc<Opened>>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                match &*state {
                    State::Open(opened) => return Ok(Some(Arc::clone(opened))),
                    State::Plain => return Ok(None),
                    State::Idle => {
                        *state = State::Plain;
                        return Ok(None);
                    }
                    State::Failed(error) => {
                        let error = error.clone();
                        *state = State::Plain;
                        return Err(error);
                    }
                    State::InLine(_) | State::Running(_) | State::Away(_) => {}
                }
            }
            changed.await;
        }
    }

    /// Takes a place in line; tells whether there was a reason to.
    pub(crate) fn stand_in_line(&self) -> bool {
        let mut state = self.state();
        let tries = match *state {
            State::Idle => Tries::default(),
            State::Away(tries) => tries,
            _ => return false,
        };
        *state = State::InLine(tries);
        true
    }

    /// Leaves the line to be opened; tells whether it still stood there.
    pub(crate) fn take_turn(&self) -> bool {
        let mut state = self.state();
        let State::InLine(tries) = *state else { return false };
        *state = State::Running(tries);
        true
    }

    /// Leaves the line to be opened at once. Where there is no room for what that would fetch, it is not opened at all.
    fn jump_the_line(&self) -> bool {
        let has_room = self.shared.opener.has_room();
        let mut state = self.state();
        let State::InLine(tries) = *state else { return false };
        *state = if has_room { State::Running(tries) } else { State::Plain };
        has_room
    }

    /// One try to open it.
    pub(crate) async fn run(self: &Arc<Self>, opener: &Arc<Opener>) -> Turn {
        let result = opened::open(self, opener).await;
        let mut state = self.state();
        let State::Running(tries) = *state else { return Turn::Done };
        let again = match &result {
            Ok(_) => None,
            Err(error) => self.again(error, tries),
        };
        let (next, turn) = match (result, again) {
            (_, Some((tries, after))) => (State::Away(tries), Turn::Later(after)),
            (Ok(opened), None) => (State::Open(Arc::new(opened)), Turn::Done),
            (Err(error), None) => (State::Failed(error), Turn::Done),
        };
        *state = next;
        drop(state);
        if turn == Turn::Done {
            self.changed.notify_waiters();
        }
        turn
    }

    /// Whether and when to try again after a failure.
    fn again(&self, error: &Error, mut tries: Tries) -> Option<(Tries, Duration)> {
        match error.retry() {
            Retry::Later { after } => {
                let since = *tries.put_off.get_or_insert_with(Instant::now);
                let waited = since.elapsed().saturating_add(after);
                (waited < self.shared.config.reader.patience).then_some((tries, after))
            }
            Retry::SameServer { after } => {
                let failures = tries.failures + 1;
                (failures < MOST_FAILURES).then_some((Tries { failures, ..tries }, after))
            }
            Retry::Never | Retry::OtherServer => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
