//! One connection, from the handshake to its end.
//!
//! What is asked becomes *parts*: a request on the wire each, of which a long read or a vector takes several. A part is
//! held until it can be sent (the login is done or sent ahead, its file is open or its handle is guessed, a stream id is
//! free), then waits for its answer, and may have to be sent again: when the server said to wait, or when the guess was
//! wrong. A *ticket* is over when all its parts are.
//!
//! ```text
//! held ──sent──> under way ──last answer──> over
//!  ^ ^               │ │
//!  │ ╰──guess wrong──╯ ╰──"wait"──> waiting ──resume()──╮
//!  ╰────────────────────────────────────────────────────╯
//! ```

mod handle_prediction;
mod login;
mod open_files;
mod requests;
mod responses;
mod send_queue;

use crate::client::event::{File, RequestError, RequestId, SessionError, SessionEvent};
use crate::client::frame_reader::Frames;
use crate::client::session_config::{ServerProfile, SessionConfig};
use crate::client::stream_ids::StreamIds;
use crate::client::subrequest::Subrequest;
use crate::wire::{FileHandle, SessionId, StreamId, VectorLimits, WriteQueue};
use bytes::Bytes;
use handle_prediction::HandlePredictor;
use login::Login;
use open_files::OpenFile;
use responses::Current;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Names a part, or a step of the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SubrequestId(pub(super) u64);

/// Which file a part is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// None that is open.
    Free,
    /// It opens this one.
    Opens(File),
    /// It is on this one.
    On(File),
    /// It closes this one.
    Closes(File),
    /// On a file that nobody has.
    OnHandle(FileHandle),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    /// It will be sent.
    Held,
    /// Its answer is to come on this stream. If it was `guessed`, the file was not known to be open.
    Sent { stream: StreamId, guessed: bool },
    /// The server said to wait.
    Waiting,
}

/// One request on the wire.
#[derive(Debug)]
struct Part {
    ticket: RequestId,
    role: Role,
    job: Subrequest,
    state: PartState,
}

/// What was asked under one ticket.
#[derive(Debug, Default)]
struct Exchange {
    /// What is not over. Empty at the end only.
    parts: Vec<SubrequestId>,
    /// Of parts that are over: what is missing, and what was damaged.
    missing: Vec<Range<u64>>,
    damaged: Vec<Range<u64>>,
    /// The first failure of a part.
    failure: Option<RequestError>,
    /// The driver was told to wait.
    waiting: bool,
}

/// The client's end of one connection. See [`crate::client`] for how it is driven.
#[derive(Debug)]
pub struct Session {
    setup: SessionConfig,
    login: Login,
    /// Bytes from the server are those of TLS: nothing is taken before [`Session::tls_started`].
    at_tls: bool,
    in_tls: bool,
    /// Requests may be sent.
    open_gate: bool,
    over: bool,
    session_id: Option<SessionId>,
    out: WriteQueue,
    frames: Frames,
    streams: StreamIds,
    events: VecDeque<SessionEvent>,
    current: Option<Current>,
    parts: HashMap<SubrequestId, Part>,
    exchanges: HashMap<RequestId, Exchange>,
    files: HashMap<File, OpenFile>,
    /// Parts that could not be sent; also some that are no more.
    held: VecDeque<SubrequestId>,
    /// The last number that was given to a ticket, a file or a part.
    last_number: u64,
    /// An open was sent.
    opened_before: bool,
    /// Which handles are given out.
    numbers: HandlePredictor,
    /// Something is held because no stream id was free.
    starved: bool,
}

impl Session {
    /// The session of a connection that was just made. What is to be sent first waits in [`outgoing`](Self::outgoing).
    #[must_use]
    pub fn new(setup: SessionConfig) -> Self {
        let mut session = Self {
            setup,
            login: Login::default(),
            at_tls: false,
            in_tls: false,
            open_gate: false,
            over: false,
            session_id: None,
            out: WriteQueue::default(),
            frames: Frames::new(),
            streams: StreamIds::default(),
            events: VecDeque::new(),
            current: None,
            parts: HashMap::new(),
            exchanges: HashMap::new(),
            files: HashMap::new(),
            held: VecDeque::new(),
            last_number: RequestId::INTERNAL.0,
            opened_before: false,
            numbers: HandlePredictor::default(),
            starved: false,
        };
        session.begin();
        session
    }

    /// What waits to be written, in clear before [`SessionEvent::StartTls`] and through TLS after
    /// [`tls_started`](Self::tls_started). Look here after everything that was done with the session.
    pub fn outgoing(&mut self) -> &mut WriteQueue {
        &mut self.out
    }

    /// Takes the next event off the front of `bytes`; `None` when they are used up.
    ///
    /// Call it until it gives `None`, then with the next bytes; and once with none after submitting, as some things are
    /// known at once.
    ///
    /// # Errors
    /// The session is over: what was asked and has not ended will not. What was delivered is right.
    pub fn receive(&mut self, bytes: &mut Bytes) -> Result<Option<SessionEvent>, SessionError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.over {
                return Err(SessionError::Over);
            }
            if self.at_tls {
                return Ok(None);
            }
            let next = self.frames.next(bytes).map_err(SessionError::from);
            match next.and_then(|piece| piece.map(|piece| self.take_piece(piece)).transpose()) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.over = true;
                    return Err(error);
                }
            }
        }
    }

    /// TLS is set up: from now on, bytes in both directions go through it.
    pub fn tls_started(&mut self) {
        if self.at_tls {
            self.at_tls = false;
            self.in_tls = true;
            self.after_tls();
        }
    }

    /// The greeting of TLS goes out right behind the first [`outgoing`](Self::outgoing) bytes. What comes before
    /// [`SessionEvent::StartTls`] is in clear all the same and goes to [`receive`](Self::receive).
    #[must_use]
    pub fn greets_at_once(&self) -> bool {
        self.setup.tls == crate::client::TlsMode::RequiredAtOnce && !self.in_tls
    }

    /// The connection ended, by the server or by an error. Says why, as far as it can be known.
    pub fn ended(&mut self) -> SessionError {
        self.over = true;
        self.end_of_connection()
    }

    /// Asks again what a server said to wait with ([`SessionEvent::Wait`]).
    pub fn resume(&mut self, ticket: RequestId) {
        if ticket == RequestId::SETUP {
            self.resume_login();
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(&ticket) else { return };
        exchange.waiting = false;
        let parts = exchange.parts.clone();
        for id in parts {
            if let Some(part) =
                self.parts.get_mut(&id).filter(|part| part.state == PartState::Waiting)
            {
                part.state = PartState::Held;
                self.held.push_back(id);
            }
        }
        self.send_held();
    }

    /// Nothing more is wanted of this. Its late answers are taken and dropped; a file that comes to be open is closed.
    pub fn cancel(&mut self, ticket: RequestId) {
        let Some(exchange) = self.exchanges.remove(&ticket) else { return };
        for id in exchange.parts {
            self.drop_part(id);
        }
    }

    /// What has not been delivered of a read that is under way: what to ask another server when this one is gone.
    #[must_use]
    pub fn missing(&self, ticket: RequestId) -> Vec<Range<u64>> {
        let Some(exchange) = self.exchanges.get(&ticket) else { return Vec::new() };
        let parts = exchange.parts.iter().filter_map(|id| self.parts.get(id));
        let mut missing: Vec<_> = parts.flat_map(|part| part.job.missing()).collect();
        missing.extend(exchange.missing.iter().cloned());
        missing.extend(exchange.damaged.iter().cloned());
        missing
    }

    /// What was learned of the host, to be remembered: complete after [`SessionEvent::Ready`], but for the limits of vectors and
    /// the first handle, which come later.
    #[must_use]
    pub fn profile(&self) -> &ServerProfile {
        &self.setup.profile
    }

    /// The login is done.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.login.is_done() && !self.over
    }

    /// Tickets that are not over.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.exchanges.len()
    }

    /// Requests whose last answer has not come, cancelled ones and steps of the login too.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.streams.in_use()
    }

    /// What names this session to its server: to bind further connections to it, or to end it from another one.
    #[must_use]
    pub fn id(&self) -> Option<SessionId> {
        self.session_id
    }

    /// What one vector read on the wire may hold.
    #[must_use]
    pub fn vector_limits(&self) -> VectorLimits {
        self.setup.profile.vector_limits.unwrap_or_default().clamped()
    }

    /// A number that was not given before.
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}
