//! One connection, from the handshake to its end.
//!
//! A request to the session becomes *parts*: requests on the wire; a long read or a vector read has
//! several. A part is held until it can be sent (the login is complete or sent ahead, its file is
//! open or its handle is predicted, a stream id is free). Then it is in flight until its last
//! response. It is sent again after a wait that the server requests, or after a wrong prediction. A
//! request is over when all its parts are.
//!
//! ```text
//! held ──sent──> in flight ──last response──> over
//!  ^ ^               │ │
//!  │ ╰─misprediction─╯ ╰──wait──> waiting ──resume()──╮
//!  ╰──────────────────────────────────────────────────╯
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
use crate::client::stream_ids::{StreamIds, SubrequestId};
use crate::client::subrequest::Subrequest;
use crate::wire::{FileHandle, StreamId, VectorLimits, WriteQueue};
use bytes::Bytes;
use handle_prediction::HandlePredictor;
use login::Login;
use open_files::OpenFile;
use responses::Current;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The relation of a part to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The part uses no open file.
    Free,
    /// The part opens this file.
    Opens(File),
    /// The part uses this file.
    On(File),
    /// The part closes this file.
    Closes(File),
    /// The part uses a file that is not open.
    OnHandle(FileHandle),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    /// Not sent yet, or to be sent again.
    Held,
    /// In flight: its response will arrive on this stream. If it was `guessed`, it was sent on a
    /// predicted handle.
    Sent { stream: StreamId, guessed: bool },
    /// The server requested a wait.
    Waiting,
}

/// One request on the wire.
#[derive(Debug)]
struct Part {
    request_id: RequestId,
    role: Role,
    job: Subrequest,
    state: PartState,
}

/// A request to the session.
#[derive(Debug, Default)]
struct Exchange {
    /// The parts that are not over. Empty only at the end.
    parts: Vec<SubrequestId>,
    /// Missing ranges, and damaged pages, of parts that are over.
    missing: Vec<Range<u64>>,
    damaged: Vec<Range<u64>>,
    /// The first failure of a part.
    failure: Option<RequestError>,
    /// The wait was reported to the driver.
    waiting: bool,
}

/// The client's end of one connection. See [`crate::client`] for its use.
#[derive(Debug)]
pub struct Session {
    setup: SessionConfig,
    login: Login,
    /// The next bytes from the server are TLS: nothing is accepted before [`Session::tls_started`].
    at_tls: bool,
    in_tls: bool,
    /// Requests may be sent.
    open_gate: bool,
    over: bool,
    out: WriteQueue,
    frames: Frames,
    streams: StreamIds,
    events: VecDeque<SessionEvent>,
    current: Option<Current>,
    parts: HashMap<SubrequestId, Part>,
    exchanges: HashMap<RequestId, Exchange>,
    files: HashMap<File, OpenFile>,
    /// Parts that could not be sent; also some that are over.
    held: VecDeque<SubrequestId>,
    /// The last number given to a request, a file or a part.
    last_number: u64,
    /// An open was sent.
    opened_before: bool,
    /// The handles in use.
    numbers: HandlePredictor,
    /// Parts are held because no stream id was free.
    starved: bool,
    /// See [`Session::progress`].
    progress: u64,
    /// Data bytes that may still arrive for cancelled requests.
    unwanted_bytes: u64,
}

impl Session {
    /// Creates the session of a new connection. The first bytes to send wait in
    /// [`outgoing`](Self::outgoing).
    #[must_use]
    pub fn new(setup: SessionConfig) -> Self {
        let mut session = Self {
            setup,
            login: Login::default(),
            at_tls: false,
            in_tls: false,
            open_gate: false,
            over: false,
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
            progress: 0,
            unwanted_bytes: 0,
        };
        session.begin();
        session
    }

    /// The bytes waiting to be written: unencrypted before [`SessionEvent::StartTls`], and through
    /// TLS after [`tls_started`](Self::tls_started). Check it after each call of the session.
    pub fn outgoing(&mut self) -> &mut WriteQueue {
        &mut self.out
    }

    /// Takes the next event off the front of `bytes`; returns `None` when they are used up.
    ///
    /// Call it until it returns `None`, then with the next bytes. After submitting requests call it
    /// once without bytes, because some events are known immediately.
    ///
    /// # Errors
    /// The session is over: requests without a final event will not get one. Data that was
    /// delivered remains valid.
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

    /// Continues within TLS: it is set up, and bytes go through it in both directions.
    pub fn tls_started(&mut self) {
        if self.at_tls {
            self.at_tls = false;
            self.in_tls = true;
            self.after_tls();
        }
    }

    /// Returns true if the TLS handshake starts right after the first [`outgoing`](Self::outgoing)
    /// bytes are written. Bytes that arrive before [`SessionEvent::StartTls`] are still unencrypted
    /// and go to [`receive`](Self::receive).
    #[must_use]
    pub fn greets_at_once(&self) -> bool {
        self.setup.tls == crate::client::TlsMode::RequiredAtOnce && !self.in_tls
    }

    /// Ends the session because the connection ended. Returns the reason, as far as it is known.
    pub fn ended(&mut self) -> SessionError {
        self.over = true;
        self.end_of_connection()
    }

    /// Repeats a request after the wait that the server requested ([`SessionEvent::Wait`]).
    pub fn resume(&mut self, request_id: RequestId) {
        if request_id == RequestId::SETUP {
            self.resume_login();
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(&request_id) else { return };
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

    /// Cancels a request. Its late responses are dropped; a file whose open succeeds later is
    /// closed.
    pub fn cancel(&mut self, request_id: RequestId) {
        let Some(exchange) = self.exchanges.remove(&request_id) else { return };
        for id in exchange.parts {
            self.drop_part(id);
        }
    }

    /// The ranges of a read in flight that were not delivered: to request from another server if
    /// this one fails.
    #[must_use]
    pub fn missing(&self, request_id: RequestId) -> Vec<Range<u64>> {
        let Some(exchange) = self.exchanges.get(&request_id) else { return Vec::new() };
        let parts = exchange.parts.iter().filter_map(|id| self.parts.get(id));
        let mut missing: Vec<_> = parts.flat_map(|part| part.job.missing()).collect();
        missing.extend(exchange.missing.iter().cloned());
        missing.extend(exchange.damaged.iter().cloned());
        missing
    }

    /// The profile learned of the server, to be remembered. It is complete after
    /// [`SessionEvent::Ready`], except for the limits of vector reads and the handles, which are
    /// learned later.
    #[must_use]
    pub fn profile(&self) -> &ServerProfile {
        &self.setup.profile
    }

    /// Returns true if the login is complete.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.login.is_done() && !self.over
    }

    /// Number of requests that are not over.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.exchanges.len()
    }

    /// Number of requests on the wire whose last response has not arrived, including cancelled ones
    /// and steps of the login.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.streams.in_use()
    }

    /// Number of cancelled requests whose last response has not arrived.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.streams.abandoned()
    }

    /// Measure of progress. It grows with every byte of a response that its request can use, with
    /// the bytes expected for cancelled requests, and with the end of every response. Frames
    /// without data, messages and announcements of a later response do not count, whatever their
    /// number.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// The limits of one vector read on the wire.
    #[must_use]
    pub fn vector_limits(&self) -> VectorLimits {
        self.setup.profile.vector_limits.unwrap_or_default().clamped()
    }

    /// Removes the receiver of the response to a part. The response may still arrive on this
    /// stream.
    fn abandon(&mut self, id: SubrequestId, stream: StreamId) {
        let expected = self.parts.get(&id).map_or(0, |part| part.job.expected_bytes());
        self.unwanted_bytes = self.unwanted_bytes.saturating_add(expected);
        self.streams.abandon(stream);
    }

    /// Allocates a number.
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}
