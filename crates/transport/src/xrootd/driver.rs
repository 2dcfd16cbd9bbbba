//! One session, driven: bytes to and from its connection, jobs to requests, answers to jobs.
//!
//! The protocol itself is in `hither-xrd`; here is what it needs around it. A task for each connection waits for whatever
//! comes first: a command, room to write, bytes to read, or one of the clocks. Parts of files go to their sinks as they
//! arrive.
//!
//! **Files.** A file is opened when the first job on it comes, and its reads are submitted together with the open: on a
//! fresh connection all of them go out in one flight, else they follow the open's answer. What the server says of the file
//! when it is opened is held against what the job expects before any of its bytes are handed on.
//!
//! **Clocks.** Jobs are under way on a connection that is silent: that is for the server to explain, which it can
//! (`waitresp`). After [`TransportConfig::first_byte_timeout`], or in the middle of answers after
//! [`TransportConfig::no_progress_timeout`], the connection counts as dead, and every job on it fails.
//!
//! [`TransportConfig::first_byte_timeout`]: crate::TransportConfig::first_byte_timeout
//! [`TransportConfig::no_progress_timeout`]: crate::TransportConfig::no_progress_timeout

mod events;
mod jobs;
mod reads;

use crate::config::{PageChecksums, TransportConfig};
use crate::connect::metered_stream::ConnectionMeter;
use crate::counters::TransferCounters;
use crate::xrootd::errors;
use crate::xrootd::job::{JobError, SessionCommand};
use crate::xrootd::session_pool::SessionLoad;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hither_core::error::{Error, ErrorKind, Retry};
use hither_xrd::client::{RequestId, ServerProfile, Session, SessionError};
use jobs::{OpenedFile, RunningJob};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::debug;

/// What is read from a connection at a time, at the most and at first. Whoever reads in pieces sees how they are spaced,
/// which is what tells how fast the path is; whoever has much to read would rather do it at once.
const READ_BYTES: usize = 256 * 1024;
const FIRST_READ_BYTES: usize = 4 * 1024;

/// What has failed by chance may be asked for at once.
const AT_ONCE: Retry = Retry::SameServer { after: Duration::ZERO };

/// A connection's end.
pub(super) enum SessionEnd {
    /// Nobody needs it any more.
    Unused,
    /// The server was not as it was taken for, but like this: these jobs have to be done on another connection. Nothing of
    /// them was delivered.
    Mispredicted(Box<ServerProfile>, Vec<SessionCommand>),
    /// The server is like this, and wants TLS: these jobs have to be done over that. Nothing of them was asked.
    WantsTls(Box<ServerProfile>, Vec<SessionCommand>),
    /// It broke, or was of no use. The jobs have been told.
    Broken(Error),
}

/// What a driver is made of.
pub(super) struct DriverParts<'a> {
    pub(super) session: Session,
    /// What to do first.
    pub(super) first: Vec<SessionCommand>,
    pub(super) commands: &'a mut UnboundedReceiver<SessionCommand>,
    pub(super) tap: Arc<ConnectionMeter>,
    pub(super) load: Arc<SessionLoad>,
    pub(super) config: TransportConfig,
    /// The server, for messages.
    pub(super) name: String,
    /// The server's round-trip time.
    pub(super) rtt: Duration,
    /// The flight of the login.
    pub(super) flight: u64,
    /// Requests go out with the login.
    pub(super) ahead: bool,
}

impl DriverParts<'_> {
    /// For a connection that authenticates what it carries.
    pub(super) fn in_tls(mut self) -> Self {
        self.config.verify = PageChecksums::Never;
        self
    }
}

/// Drives one session.
pub(super) struct Driver<'a, S> {
    session: Session,
    stream: S,
    first: Vec<SessionCommand>,
    commands: &'a mut UnboundedReceiver<SessionCommand>,
    tap: Arc<ConnectionMeter>,
    load: Arc<SessionLoad>,
    config: TransportConfig,
    name: String,
    rtt: Duration,
    buffer: BytesMut,
    /// What is read at a time.
    read_bytes: usize,
    jobs: HashMap<u64, RunningJob>,
    /// Which job a request_id of the session belongs to.
    requests: HashMap<RequestId, u64>,
    files: HashMap<u64, OpenedFile>,
    /// Opens under way.
    opening: HashMap<RequestId, u64>,
    /// What the server said to ask again later.
    later: Vec<(Instant, RequestId)>,
    /// How long it said so in all, of each.
    waited: HashMap<RequestId, Duration>,
    /// What it said so of for too long. That is acted on when nothing more has arrived: it may be nonsense.
    exhausted: Vec<(RequestId, Error)>,
    /// The last sign of life, or when there was last something to wait for.
    heard: Instant,
    /// An answer has begun since then.
    midway: bool,
    /// The server has asked for this much patience.
    patience_until: Option<Instant>,
    /// Requests are sent as they come, because the login is done or is not waited for.
    is_open: bool,
    /// The flight of the login, and of the first requests.
    login_flight: u64,
    first_flight: u64,
    /// What everybody knows of the server by now.
    known: ServerProfile,
    /// The server has shown that it speaks the protocol.
    met: bool,
}

/// What a driver has seen happen.
enum Turn {
    Command(Option<SessionCommand>),
    Read(std::io::Result<usize>),
    WriteFailed(std::io::Error),
    Clock,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Driver<'a, S> {
    pub(super) fn new(parts: DriverParts<'a>, stream: S) -> Self {
        let DriverParts { session, first, commands, tap, load, config, name, rtt, flight, ahead } =
            parts;
        Self {
            session,
            stream,
            first,
            commands,
            tap,
            load,
            config,
            name,
            rtt,
            buffer: BytesMut::new(),
            read_bytes: FIRST_READ_BYTES,
            jobs: HashMap::new(),
            requests: HashMap::new(),
            files: HashMap::new(),
            opening: HashMap::new(),
            later: Vec::new(),
            waited: HashMap::new(),
            exhausted: Vec::new(),
            heard: Instant::now(),
            midway: false,
            patience_until: None,
            is_open: ahead,
            login_flight: flight,
            first_flight: flight + u64::from(!ahead),
            known: ServerProfile::default(),
            met: false,
        }
    }

    fn account(&self) -> &TransferCounters {
        self.tap.account()
    }

    /// Runs until nobody needs the connection any more, or it is of no more use.
    pub(super) async fn run(mut self) -> SessionEnd {
        // What is there already goes into the first flight.
        std::mem::take(&mut self.first).into_iter().for_each(|command| self.take(command));
        while let Ok(command) = self.commands.try_recv() {
            self.take(command);
        }
        loop {
            if let Err(error) = self.take_events(Bytes::new()) {
                return self.over(error);
            }
            match self.turn().await {
                Turn::Command(Some(command)) => self.take(command),
                Turn::Command(None) => return SessionEnd::Unused,
                Turn::Read(Ok(0)) => {
                    let error = self.session.ended();
                    return self.over(error);
                }
                Turn::Read(Ok(read)) => {
                    if read == self.read_bytes {
                        self.read_bytes = READ_BYTES.min(2 * read);
                    }
                    self.heard = Instant::now();
                    self.midway = true;
                    let bytes = self.buffer.split().freeze();
                    if let Err(error) = self.take_events(bytes) {
                        return self.over(error);
                    }
                    self.learn();
                }
                Turn::Read(Err(error)) | Turn::WriteFailed(error) => {
                    return match self.session.ended() {
                        SessionError::Mispredicted { .. } => self.mispredicted(),
                        _ => {
                            let error = broken(&self.name, error);
                            self.broken(error)
                        }
                    };
                }
                Turn::Clock => {
                    if let Some(error) = self.out_of_time() {
                        return self.broken(error);
                    }
                    self.ask_again();
                }
            }
        }
    }

    /// Tells the other sessions what this one has found out about the server.
    fn learn(&mut self) {
        if self.known != *self.session.profile() {
            self.known = self.session.profile().clone();
            self.load.learned(&self.known);
        }
    }

    /// Waits for what comes first.
    async fn turn(&mut self) -> Turn {
        let mut clock = pin!(sleep_until(self.next_clock()));
        std::future::poll_fn(|cx| self.poll_turn(cx, clock.as_mut())).await
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>, clock: std::pin::Pin<&mut Sleep>) -> Poll<Turn> {
        if let Poll::Ready(command) = self.commands.poll_recv(cx) {
            return Poll::Ready(Turn::Command(command));
        }
        if let Poll::Ready(error) = self.poll_write(cx) {
            return Poll::Ready(Turn::WriteFailed(error));
        }
        if self.buffer.capacity() < self.read_bytes {
            self.buffer.reserve(self.read_bytes);
        }
        // Neither of these futures holds anything between two calls.
        let mut room = (&mut self.buffer).limit(self.read_bytes);
        if let Poll::Ready(read) = pin!(self.stream.read_buf(&mut room)).poll(cx) {
            return Poll::Ready(Turn::Read(read));
        }
        clock.poll(cx).map(|()| Turn::Clock)
    }

    /// Writes what there is to write. Ready only with an error.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Error> {
        while self.session.outgoing().has_remaining() {
            match pin!(self.stream.write_buf(self.session.outgoing())).poll(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(std::io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => return Poll::Pending,
            }
        }
        match pin!(self.stream.flush()).poll(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            _ => Poll::Pending,
        }
    }

    /// When a clock will want to be looked at.
    fn next_clock(&self) -> Instant {
        if !self.exhausted.is_empty() {
            return self.heard;
        }
        let silence = match (self.jobs.is_empty(), self.midway) {
            (true, _) => Duration::from_secs(3600),
            (false, false) => self.config.first_byte_timeout,
            (false, true) => self.config.no_progress_timeout,
        };
        let dead = (self.heard + silence).max(self.patience_until.unwrap_or(self.heard));
        self.later.iter().map(|(when, _)| *when).fold(dead, Instant::min)
    }

    /// Why the connection counts as dead, if it does.
    fn out_of_time(&mut self) -> Option<Error> {
        let given_up = self.give_up_exhausted();
        let now = Instant::now();
        if given_up.is_some() {
            return given_up;
        }
        if self.jobs.is_empty() || self.later.iter().any(|(when, _)| *when <= now) {
            return None;
        }
        let limit = if self.midway {
            self.config.no_progress_timeout
        } else {
            self.config.first_byte_timeout
        };
        let patient = self.patience_until.is_some_and(|until| now < until);
        if patient || now < self.heard + limit {
            return None;
        }
        let what = format!(
            "{}: the server sent nothing for {} s in the middle of a response",
            self.name,
            limit.as_secs_f64()
        );
        let before = format!("{}: no response within {} s", self.name, limit.as_secs_f64());
        let error = Error::new(ErrorKind::Timeout, if self.midway { what } else { before });
        Some(error.with_retry(AT_ONCE))
    }

    /// Asks again what is due by now.
    fn ask_again(&mut self) {
        let now = Instant::now();
        for (_, request_id) in self.later.extract_if(.., |(when, _)| *when <= now) {
            self.session.resume(request_id);
        }
        self.heard = now;
    }

    fn over(self, error: SessionError) -> SessionEnd {
        match error {
            SessionError::Mispredicted { .. } => self.mispredicted(),
            SessionError::TlsWanted { .. } => match self.mispredicted() {
                SessionEnd::Mispredicted(profile, commands) => {
                    SessionEnd::WantsTls(profile, commands)
                }
                end => end,
            },
            error => {
                // What a server that speaks the protocol says without sense may be damaged on its way.
                let by_chance = match error {
                    SessionError::Wire(_) | SessionError::Unasked { .. } => self.met,
                    SessionError::Over => true,
                    _ => false,
                };
                let error = errors::session_over(&self.name, error);
                let error = if by_chance { error.with_retry(AT_ONCE) } else { error };
                self.broken(error)
            }
        }
    }

    /// Everybody who waits is told.
    fn broken(mut self, error: Error) -> SessionEnd {
        debug!(server = %self.name, jobs = self.jobs.len(), %error, "session failed");
        // Before anybody hears of it, and asks again.
        self.commands.close();
        for (_, job) in self.jobs.drain() {
            self.load.done(job.bytes());
            job.fail(JobError::Failed(error.clone()));
        }
        SessionEnd::Broken(error)
    }

    /// The jobs go to another connection.
    fn mispredicted(mut self) -> SessionEnd {
        let commands = self.jobs.drain().map(|(id, job)| job.again(id)).collect();
        SessionEnd::Mispredicted(Box::new(self.session.profile().clone()), commands)
    }
}

/// The error for a connection that broke.
fn broken(name: &str, error: std::io::Error) -> Error {
    if let Some(told) = crate::connect::maybe_tls_stream::told(&error) {
        return told;
    }
    Error::new(ErrorKind::Unavailable, format!("{name}: the connection was lost: {error}"))
        .with_retry(AT_ONCE)
        .with_source(error)
}

#[cfg(test)]
mod tests;
