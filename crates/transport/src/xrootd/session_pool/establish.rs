//! Establishing a session: the connection, TLS where it is required, the login, and the requests
//! sent with it.
//!
//! **One round trip.** Handshake, login, authentication, opening a file and reading it are sent
//! together, if the login that the server accepts is known. It is remembered
//! ([`Endpoint::xrootd`](hither_core::Endpoint::xrootd)). An unknown server is assumed to need no
//! authentication, as most public ones do, unless there is a token. If that is wrong, the server
//! names the methods that it accepts and closes the connection, and the session is established once
//! more with one of these, again in one round trip. If that is wrong, too, it goes step by step. So
//! a wrong guess costs two round trips, once per server, and a right one saves one per process.
//! Only the first connection of a job guesses: the others log in first.

use super::{SessionLoad, SessionPool};
use crate::authorization;
use crate::config::TransportConfig;
use crate::connect::dialer::DialedStream;
use crate::connect::metered_stream::{ConnectionMeter, MeteredStream};
use crate::connect::tls::TlsStream;
use crate::connect::tls_upgrade::TlsUpgradeStream;
use crate::context::NetworkContext;
use crate::counters::progress::PoolProgress;
use crate::location::Location;
use crate::xrootd::command_channel::CommandInbox;
use crate::xrootd::driver::{Driver, DriverParts, SessionEnd};
use crate::xrootd::errors;
use crate::xrootd::job::{JobError, SessionCommand};
use bytes::{Buf, Bytes};
use hither_core::endpoint::{self, XrootdEndpoint};
use hither_core::error::{Error, ErrorKind, Result};
use hither_xrd::client::{
    Credential, HandleNumbering, Pipelining, ServerProfile, Session, SessionConfig, SessionEvent,
    TlsMode,
};
use hither_xrd::wire::VectorLimits;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tracing::debug;

/// A guess, the method that the server names, and step by step.
const MAX_LOGINS: usize = 3;

/// A session that is being established.
pub(super) struct SessionConnector {
    sessions: Weak<SessionPool>,
    location: Location,
    shared: Arc<NetworkContext>,
    load: Arc<SessionLoad>,
    inbox: CommandInbox,
    profile: ServerProfile,
    words: String,
    /// Requests are sent ahead only with a login that has worked before.
    careful: bool,
    /// Signals that the login is known, if another session is about to find out.
    met: Option<watch::Receiver<bool>>,
}

/// A session on a new connection.
struct Connected {
    session: Session,
    wire: Wire,
    meter: Arc<ConnectionMeter>,
    rtt: Duration,
    /// The round trip of the login.
    round_trip: u64,
    /// Requests are sent together with the login.
    ahead: bool,
}

/// The stream of a session.
enum Wire {
    Plain(MeteredStream),
    Tls(Box<TlsStream<TlsUpgradeStream<MeteredStream>>>),
}

impl SessionConnector {
    /// A new session. The first one of a server guesses the login.
    pub(super) fn new(
        sessions: &Arc<SessionPool>,
        state: &super::SessionPoolState,
        load: Arc<SessionLoad>,
        inbox: CommandInbox,
    ) -> Self {
        Self {
            sessions: Arc::downgrade(sessions),
            location: sessions.location.clone(),
            shared: Arc::clone(&sessions.shared),
            load,
            inbox,
            profile: state.profile.clone(),
            words: sessions.words.clone(),
            careful: state.careful,
            met: (!state.all.is_empty() && !state.profile.proven).then(|| sessions.met.subscribe()),
        }
    }

    fn config(&self) -> &TransportConfig {
        &self.shared.config
    }

    /// Runs until the session ends. Returns the error if it could not be established.
    pub(super) async fn run(mut self) -> Option<Error> {
        let mut first = Vec::new();
        for attempt in 0..MAX_LOGINS {
            let end = match self.established(std::mem::take(&mut first)).await {
                Ok(end) => end,
                Err((error, left)) => {
                    let error = error.without_connection();
                    self.fail(left, &error);
                    return Some(error);
                }
            };
            match end {
                SessionEnd::Unused => return None,
                SessionEnd::Broken(error) => {
                    self.fail(Vec::new(), &error);
                    return None;
                }
                SessionEnd::Redirected(redirect) => {
                    // Jobs that come later are tried again, and redirected in another session.
                    self.end(Vec::new(), || JobError::Elsewhere(redirect.clone()));
                    return None;
                }
                SessionEnd::WantsTls(profile, commands) => {
                    self.pass_on(*profile, commands);
                    return None;
                }
                SessionEnd::Mispredicted(profile, commands)
                    if profile.wants_tls() && !self.location.is_tls() =>
                {
                    self.pass_on(*profile, commands);
                    return None;
                }
                SessionEnd::Mispredicted(profile, commands) => {
                    debug!(server = %self.location.origin(), attempt, methods = ?profile.methods, "login was mispredicted, connecting again");
                    first = commands;
                    // One wrong guess is allowed, and one by the methods that the server named.
                    let is_known = !profile.methods.is_empty();
                    let is_new = profile.methods != self.profile.methods;
                    self.careful = attempt > 0 || !is_known || !is_new;
                    self.profile = *profile;
                    self.profile.proven = false;
                    if let Some(sessions) = self.sessions.upgrade() {
                        sessions.state().careful = true;
                    }
                }
            }
        }
        let what = format!(
            "{}: the server does not accept the login that it announced",
            self.location.origin()
        );
        let error = Error::new(ErrorKind::Protocol, what);
        self.fail(first, &error);
        Some(error)
    }

    /// Passes the jobs to a session over TLS, which the server requires.
    fn pass_on(&mut self, profile: ServerProfile, commands: Vec<SessionCommand>) {
        debug!(server = %self.location.origin(), "server requires TLS");
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.met_in_clear(profile);
        }
        self.end(commands, || JobError::WantsTls);
    }

    /// Fails all jobs.
    fn fail(&mut self, commands: Vec<SessionCommand>, error: &Error) {
        self.load.failed(error);
        self.end(commands, || JobError::Failed(error.clone()));
    }

    fn end(&mut self, mut commands: Vec<SessionCommand>, error: impl Fn() -> JobError) {
        self.inbox.close();
        while let Ok(command) = self.inbox.try_recv() {
            commands.push(command);
        }
        for command in commands {
            match command {
                SessionCommand::Fetch(_, fetch) => {
                    self.load.done(fetch.request.requested_bytes());
                    drop(fetch.reply.send(Err(error())));
                }
                SessionCommand::Operation(_, job) => {
                    self.load.done(job.what.bytes());
                    drop(job.reply.send(Err(error())));
                }
                SessionCommand::Open(_) | SessionCommand::Cancel(_) | SessionCommand::Close(_) => {}
            }
        }
    }

    /// Connects, and drives the session to its end. `first` are the first commands, which are
    /// returned with an error.
    async fn established(
        &mut self,
        first: Vec<SessionCommand>,
    ) -> Result<SessionEnd, (Error, Vec<SessionCommand>)> {
        let Connected { session, wire, meter, rtt, round_trip, ahead } =
            match self.connected().await {
                Ok(connected) => connected,
                Err(error) => return Err((error, first)),
            };
        let parts = DriverParts {
            session,
            first,
            commands: &mut self.inbox,
            meter,
            load: Arc::clone(&self.load),
            config: self.shared.config.clone(),
            name: self.location.origin(),
            rtt,
            round_trip,
            ahead,
        };
        Ok(match wire {
            Wire::Plain(stream) => Driver::new(parts, stream).run().await,
            Wire::Tls(stream) => Driver::new(parts.in_tls(), *stream).run().await,
        })
    }

    async fn connected(&mut self) -> Result<Connected> {
        let shared = Arc::clone(&self.shared);
        let counters = &shared.counters;
        let meter = Arc::new(ConnectionMeter::new(Arc::clone(counters), PoolProgress::default()));
        let line = shared.dialer.dial(&self.location, &shared.config, counters, &meter).await?;
        let rtt = line.rtt;
        counters.connected(rtt);
        debug!(server = %self.location.origin(), ?rtt, "session connecting");
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.measured(rtt);
        }
        let mut round_trip = line.round_trip();
        if self.learned_of_first().await {
            round_trip = counters.next_round_trip();
        }
        let setup = self.setup().await?;
        let ahead = setup.pipelining == Pipelining::Full;
        let mut session = Session::new(setup);
        let wire = if session.greets_at_once() {
            let (stream, round_trips) = self.secured(&mut session, line).await?;
            round_trip += round_trips;
            Wire::Tls(Box::new(stream))
        } else {
            Wire::Plain(line.stream)
        };
        Ok(Connected { session, wire, meter, rtt, round_trip, ahead })
    }

    /// Waits until the login is known, if another session is about to find out, but not longer than
    /// the connect timeout. Returns whether it waited.
    async fn learned_of_first(&mut self) -> bool {
        let Some(mut met) = self.met.take() else { return false };
        // An error means that the pool was dropped.
        let known = met.wait_for(|known| *known);
        let _over = tokio::time::timeout(self.config().connect_timeout, known).await.is_ok();
        if let Some(sessions) = self.sessions.upgrade() {
            let state = sessions.state();
            self.profile = state.profile.clone();
            self.careful = state.careful || !state.profile.proven;
        }
        true
    }

    /// Starts TLS, whose first message is sent right behind the request for it. Returns the stream
    /// and the number of round trips.
    async fn secured(
        &self,
        session: &mut Session,
        line: DialedStream,
    ) -> Result<(TlsStream<TlsUpgradeStream<MeteredStream>>, u64)> {
        let first = session.outgoing();
        let words = first.copy_to_bytes(first.remaining());
        let NetworkContext { dialer, config, counters, .. } = &*self.shared;
        let (stream, answer) =
            dialer.secure_after(words, line, &self.location, config, counters).await;
        let name = self.location.origin();
        let mut answer = match (answer, &stream) {
            (Some(answer), _) => answer,
            (None, Ok(_)) => Bytes::new(),
            (None, Err(_)) => return stream,
        };
        // The unencrypted response explains more than the TLS error.
        match session.receive(&mut answer) {
            Ok(Some(SessionEvent::StartTls)) => {}
            Ok(_) => {
                let what =
                    format!("{name}: the server's response to the request for TLS is invalid");
                return Err(stream.err().unwrap_or_else(|| Error::new(ErrorKind::Protocol, what)));
            }
            Err(error) => return Err(errors::session_over(&name, error)),
        }
        let stream = stream?;
        session.tls_started();
        Ok(stream)
    }

    /// The configuration of the session.
    async fn setup(&self) -> Result<SessionConfig> {
        let config = self.config();
        let login = self.location.login().unwrap_or(&config.login);
        let token = authorization::token(&self.location, config).await?;
        let mut setup = SessionConfig::new(login);
        setup.process = std::process::id();
        setup.profile = self.profile.clone();
        setup.words.clone_from(&self.words);
        setup.tls = if self.location.is_tls() { TlsMode::RequiredAtOnce } else { TlsMode::Never };
        setup.pipelining = match (&token, self.careful, setup.tls) {
            // Without TLS the token goes with the path, so it is sent only to a server that
            // accepted a login without TLS.
            (Some(_), _, TlsMode::Never) => Pipelining::Login,
            (None, false, _) => Pipelining::Full,
            _ => setup.profile.pipelining(),
        };
        setup.credentials.extend(token.map(|token| Credential::Token(token.expose().to_owned())));
        let user = if login.is_empty() { "hither" } else { login };
        setup
            .credentials
            .push(Credential::Unix { user: user.to_owned(), group: "users".to_owned() });
        setup.credentials.push(Credential::Host);
        Ok(setup)
    }
}

/// The profile that was remembered for a server.
pub(super) fn profile(remembered: &XrootdEndpoint) -> ServerProfile {
    let mut profile = ServerProfile::default();
    profile.proven = true;
    profile.version = remembered.version;
    profile.flags = remembered.flags;
    profile.methods.clone_from(&remembered.methods);
    profile.method.clone_from(&remembered.method);
    profile.first_handle = remembered.first_handle;
    profile.vector_limits = remembered.vector.map(|(elements, element_bytes)| {
        VectorLimits { elements, element_bytes, ..VectorLimits::default() }.clamped()
    });
    profile.numbering = remembered.numbering.map(|numbering| match numbering {
        endpoint::HandleNumbering::LittleEndian => HandleNumbering::LittleEndian,
        endpoint::HandleNumbering::BigEndian => HandleNumbering::BigEndian,
        _ => HandleNumbering::Other,
    });
    profile
}

/// The profile to remember for a server.
pub(super) fn remembered(profile: &ServerProfile) -> XrootdEndpoint {
    let mut remembered = XrootdEndpoint::default();
    remembered.version = profile.version;
    remembered.flags = profile.flags;
    remembered.methods.clone_from(&profile.methods);
    remembered.method.clone_from(&profile.method);
    remembered.first_handle = profile.first_handle;
    remembered.vector = profile.vector_limits.map(|limits| (limits.elements, limits.element_bytes));
    remembered.numbering = profile.numbering.map(|numbering| match numbering {
        HandleNumbering::LittleEndian => endpoint::HandleNumbering::LittleEndian,
        HandleNumbering::BigEndian => endpoint::HandleNumbering::BigEndian,
        HandleNumbering::Other => endpoint::HandleNumbering::Other,
    });
    remembered
}
