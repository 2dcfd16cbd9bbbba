//! The driver of one session: bytes to and from its connection, jobs to requests, responses to
//! jobs.
//!
//! The protocol itself is in `hither-xrd`; this module is its I/O. One task per connection waits
//! for whatever comes first: a command, room to write, bytes to read, or a timeout. Parts of files
//! go to their sinks as they arrive.
//!
//! **Files.** A file is opened for its first job, whose reads are submitted together with the open:
//! on a new connection all of them are sent in one round trip, otherwise they follow the response
//! to the open. The version of the opened file is compared with the expected one before any bytes
//! are delivered.
//!
//! **Timeouts.** A server may explain why it is silent (`waitresp`), for ten minutes at most.
//! Otherwise, after [`TransportConfig::first_byte_timeout`], or in the middle of responses after
//! [`TransportConfig::no_progress_timeout`], the connection counts as broken, and all its jobs
//! fail. Only bytes that requests can use count as progress ([`Session::progress`]): a server can
//! send messages and frames without data without end. A job may have to wait while data for others
//! are sent, but not longer than the maximum time for an announced response: then only this job
//! fails.
//!
//! [`TransportConfig::first_byte_timeout`]: crate::TransportConfig::first_byte_timeout
//! [`TransportConfig::no_progress_timeout`]: crate::TransportConfig::no_progress_timeout

mod events;
mod jobs;
mod read_window;
mod reads;

use crate::config::{PageChecksums, TransportConfig};
use crate::connect::metered_stream::ConnectionMeter;
use crate::counters::TransferCounters;
use crate::xrootd::command_channel::CommandInbox;
use crate::xrootd::errors;
use crate::xrootd::job::{JobError, SessionCommand};
use crate::xrootd::session_pool::SessionLoad;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hither_core::error::{Delivery, Error, ErrorKind, Failure};
use hither_xrd::client::{RequestId, ServerProfile, Session, SessionError};
use hither_xrd::wire::Redirect;
use jobs::{OpenedFile, RunningJob};
use read_window::ReadWindow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::debug;

/// The maximum size of a read from a connection, and that of the first. Small reads show the
/// spacing of bytes, which gives the bandwidth; large ones are cheaper.
const READ_BYTES: usize = 256 * 1024;
const FIRST_READ_BYTES: usize = 4 * 1024;

/// The end of a session.
pub(super) enum SessionEnd {
    /// No handle to it is left.
    Unused,
    /// The server differs from the prediction. It has this profile, and these jobs have to be done
    /// on another connection. Nothing of them was delivered.
    Mispredicted(Box<ServerProfile>, Vec<SessionCommand>),
    /// The server requires TLS. It has this profile, and these jobs have to be done over TLS.
    /// Nothing of them was requested.
    WantsTls(Box<ServerProfile>, Vec<SessionCommand>),
    /// The server redirected the login, and with it all jobs.
    Redirected(Redirect),
    /// The session failed, and its jobs with it.
    Broken(Error),
}

/// The parts of a driver that its owner provides.
pub(super) struct DriverParts<'a> {
    pub(super) session: Session,
    /// The first commands.
    pub(super) first: Vec<SessionCommand>,
    pub(super) commands: &'a mut CommandInbox,
    pub(super) meter: Arc<ConnectionMeter>,
    pub(super) load: Arc<SessionLoad>,
    pub(super) config: TransportConfig,
    /// The URL of the server, for messages.
    pub(super) name: String,
    /// The server's round-trip time.
    pub(super) rtt: Duration,
    /// The round trip of the login.
    pub(super) round_trip: u64,
    /// Requests are sent together with the login.
    pub(super) ahead: bool,
}

impl DriverParts<'_> {
    /// The parts for a connection that is authenticated by TLS.
    pub(super) fn in_tls(mut self) -> Self {
        self.config.verify = PageChecksums::Never;
        self
    }
}

/// The driver of one session.
pub(super) struct Driver<'a, S> {
    parts: DriverParts<'a>,
    stream: S,
    window: ReadWindow,
    buffer: BytesMut,
    /// The current size of a read.
    read_bytes: usize,
    jobs: HashMap<u64, RunningJob>,
    /// The job of each request.
    requests: HashMap<RequestId, u64>,
    files: HashMap<u64, OpenedFile>,
    /// Opens in progress.
    opening: HashMap<RequestId, u64>,
    /// Requests that the server has postponed.
    later: Vec<(Instant, RequestId)>,
    /// The total wait of each postponed request.
    waited: HashMap<RequestId, Duration>,
    /// The latest time of each response that the server announced.
    deferred: HashMap<RequestId, Instant>,
    /// Requests that were postponed for too long. They fail once nothing more has arrived, because
    /// the response may have been damaged.
    exhausted: Vec<(RequestId, Error)>,
    /// The time of the last progress, or the time when there was first something to wait for.
    progressed: Instant,
    /// There has been progress since then.
    midway: bool,
    /// The time at which bytes were last sent.
    sent_bytes: Instant,
    /// The server has asked to wait until then.
    postponed_until: Option<Instant>,
    /// Requests are sent immediately, because the login is complete or is not awaited.
    is_open: bool,
    /// The round trips of the login and of the first requests.
    login_round_trip: u64,
    first_round_trip: u64,
    /// The profile that the session pool knows.
    known: ServerProfile,
    /// The server has proved to speak the protocol.
    met: bool,
    /// The redirect of the login.
    redirect: Option<Redirect>,
}

/// An event of the driver.
enum DriverEvent {
    Command(Option<SessionCommand>),
    Read(std::io::Result<usize>),
    WriteFailed(std::io::Error),
    Clock,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Driver<'a, S> {
    pub(super) fn new(parts: DriverParts<'a>, stream: S) -> Self {
        let DriverParts { rtt, round_trip, ahead, .. } = parts;
        Self {
            parts,
            stream,
            window: ReadWindow::new(rtt),
            buffer: BytesMut::new(),
            read_bytes: FIRST_READ_BYTES,
            jobs: HashMap::new(),
            requests: HashMap::new(),
            files: HashMap::new(),
            opening: HashMap::new(),
            later: Vec::new(),
            waited: HashMap::new(),
            deferred: HashMap::new(),
            exhausted: Vec::new(),
            progressed: Instant::now(),
            midway: false,
            sent_bytes: Instant::now(),
            postponed_until: None,
            is_open: ahead,
            login_round_trip: round_trip,
            first_round_trip: round_trip + u64::from(!ahead),
            known: ServerProfile::default(),
            met: false,
            redirect: None,
        }
    }

    fn counters(&self) -> &TransferCounters {
        self.parts.meter.counters()
    }

    /// Runs until no handle to the session is left, or it fails.
    pub(super) async fn run(mut self) -> SessionEnd {
        // Waiting commands go into the first round trip.
        std::mem::take(&mut self.parts.first).into_iter().for_each(|command| self.take(command));
        while let Ok(command) = self.parts.commands.try_recv() {
            self.take(command);
        }
        loop {
            if let Err(error) = self.take_events(Bytes::new()) {
                return self.over(error);
            }
            self.parts.load.set_abandoned(self.parts.session.abandoned());
            match self.turn().await {
                DriverEvent::Command(Some(command)) => self.take(command),
                DriverEvent::Command(None) => return SessionEnd::Unused,
                DriverEvent::Read(Ok(0)) => {
                    let error = self.parts.session.ended();
                    return self.over(error);
                }
                DriverEvent::Read(Ok(read)) => {
                    if read == self.read_bytes {
                        self.read_bytes = READ_BYTES.min(2 * read);
                    }
                    let now = Instant::now();
                    self.window.received(read, now);
                    let bytes = self.buffer.split().freeze();
                    let before = self.parts.session.progress();
                    if let Err(error) = self.take_events(bytes) {
                        return self.over(error);
                    }
                    if self.parts.session.progress() != before {
                        self.progressed = now;
                        self.midway = true;
                    }
                    self.learn();
                }
                DriverEvent::Read(Err(error)) | DriverEvent::WriteFailed(error) => {
                    return match self.parts.session.ended() {
                        SessionError::Mispredicted { .. } => self.mispredicted(),
                        _ => {
                            let error = broken(&self.parts.name, error);
                            self.broken(error)
                        }
                    };
                }
                DriverEvent::Clock => {
                    if let Some(error) = self.out_of_time() {
                        return self.broken(error);
                    }
                    self.ask_again();
                }
            }
        }
    }

    /// Reports the profile of the server to the session pool.
    fn learn(&mut self) {
        if self.known != *self.parts.session.profile() {
            self.known = self.parts.session.profile().clone();
            self.parts.load.learned(&self.known);
        }
    }

    /// Waits for the next event.
    async fn turn(&mut self) -> DriverEvent {
        let mut clock = pin!(sleep_until(self.next_clock()));
        std::future::poll_fn(|cx| self.poll_turn(cx, clock.as_mut())).await
    }

    fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        clock: std::pin::Pin<&mut Sleep>,
    ) -> Poll<DriverEvent> {
        if let Poll::Ready(command) = self.parts.commands.poll_recv(cx) {
            return Poll::Ready(DriverEvent::Command(command));
        }
        if let Poll::Ready(error) = self.poll_write(cx) {
            return Poll::Ready(DriverEvent::WriteFailed(error));
        }
        if self.buffer.capacity() < self.read_bytes {
            self.buffer.reserve(self.read_bytes);
        }
        // These futures hold no state between two polls.
        let mut room = (&mut self.buffer).limit(self.read_bytes);
        if let Poll::Ready(read) = pin!(self.stream.read_buf(&mut room)).poll(cx) {
            return Poll::Ready(DriverEvent::Read(read));
        }
        clock.poll(cx).map(|()| DriverEvent::Clock)
    }

    /// Writes pending bytes. Ready only with an error.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Error> {
        while self.parts.session.outgoing().has_remaining() {
            match pin!(self.stream.write_buf(self.parts.session.outgoing())).poll(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(std::io::ErrorKind::WriteZero.into()),
                // A server that takes bytes cannot be expected to respond to them yet.
                Poll::Ready(Ok(_)) => {
                    self.progressed = Instant::now();
                    self.sent_bytes = self.progressed;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => return Poll::Pending,
            }
        }
        match pin!(self.stream.flush()).poll(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            _ => Poll::Pending,
        }
    }

    /// The time of the next timeout.
    fn next_clock(&self) -> Instant {
        if !self.exhausted.is_empty() {
            return self.progressed;
        }
        let silence = match (self.jobs.is_empty(), self.midway) {
            (true, _) => Duration::from_secs(3600),
            (false, false) => self.parts.config.first_byte_timeout,
            (false, true) => self.parts.config.no_progress_timeout,
        };
        let dead = (self.progressed + silence).max(self.postponed_until.unwrap_or(self.progressed));
        let later = self.later.iter().map(|(when, _)| when);
        let others = later.chain(self.deferred.values()).copied();
        others.chain(self.jobs.values().map(|job| self.starved_at(job))).fold(dead, Instant::min)
    }

    /// The error of a connection that timed out.
    fn out_of_time(&mut self) -> Option<Error> {
        let now = Instant::now();
        self.exhaust_deferred(now);
        self.give_up_starved(now);
        let given_up = self.give_up_exhausted();
        if given_up.is_some() {
            return given_up;
        }
        if self.jobs.is_empty() || self.later.iter().any(|(when, _)| *when <= now) {
            return None;
        }
        let limit = if self.midway {
            self.parts.config.no_progress_timeout
        } else {
            self.parts.config.first_byte_timeout
        };
        let is_postponed = self.postponed_until.is_some_and(|until| now < until);
        if is_postponed || now < self.progressed + limit {
            return None;
        }
        let what = format!(
            "{}: the server sent nothing of what was requested for {} s",
            self.parts.name,
            limit.as_secs_f64()
        );
        let before = format!("{}: no response within {} s", self.parts.name, limit.as_secs_f64());
        let error = Error::new(ErrorKind::Timeout, if self.midway { what } else { before });
        Some(error.with_failure(Failure::Interrupted(Delivery::Sent)))
    }

    /// Repeats the postponed requests that are due.
    fn ask_again(&mut self) {
        let now = Instant::now();
        for (_, request_id) in self.later.extract_if(.., |(when, _)| *when <= now) {
            self.parts.session.resume(request_id);
        }
        self.progressed = now;
    }

    fn over(mut self, error: SessionError) -> SessionEnd {
        if let Some(redirect) = self.redirect.take() {
            self.end_all(|| JobError::Elsewhere(redirect.clone()));
            return SessionEnd::Redirected(redirect);
        }
        match error {
            SessionError::Mispredicted { .. } => self.mispredicted(),
            SessionError::TlsWanted { .. } => match self.mispredicted() {
                SessionEnd::Mispredicted(profile, commands) => {
                    SessionEnd::WantsTls(profile, commands)
                }
                end => end,
            },
            error => {
                // An invalid message of a server that speaks the protocol may have been damaged in
                // transit.
                let failure = match error {
                    SessionError::Wire(_) | SessionError::Unasked { .. } if self.met => {
                        Some(Failure::Garbled)
                    }
                    SessionError::Over => Some(Failure::Interrupted(Delivery::Sent)),
                    _ => None,
                };
                let error = errors::session_over(&self.parts.name, error);
                let error = match failure {
                    Some(failure) => error.with_failure(failure),
                    None => error,
                };
                self.broken(error)
            }
        }
    }

    /// Fails all jobs.
    fn broken(mut self, error: Error) -> SessionEnd {
        debug!(server = %self.parts.name, jobs = self.jobs.len(), %error, "session failed");
        self.end_all(|| JobError::Failed(error.clone()));
        SessionEnd::Broken(error)
    }

    /// Ends all jobs with an error. The session takes no more commands, so that no job comes back
    /// to it.
    fn end_all(&mut self, error: impl Fn() -> JobError) {
        self.parts.commands.close();
        for (_, job) in self.jobs.drain() {
            self.parts.load.done(job.bytes());
            job.fail(error());
        }
    }

    /// Returns the jobs for another connection.
    fn mispredicted(mut self) -> SessionEnd {
        let commands = self.jobs.drain().map(|(id, job)| job.again(id)).collect();
        SessionEnd::Mispredicted(Box::new(self.parts.session.profile().clone()), commands)
    }
}

/// The error for a lost connection.
fn broken(name: &str, error: std::io::Error) -> Error {
    if let Some(tls_error) = crate::connect::maybe_tls_stream::tls_error(&error) {
        return tls_error;
    }
    Error::new(ErrorKind::Unavailable, format!("{name}: the connection was lost: {error}"))
        .with_failure(Failure::Interrupted(Delivery::Sent))
        .with_source(error)
}

#[cfg(test)]
mod tests;
