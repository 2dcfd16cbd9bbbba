//! The login, from the handshake to the first request.
//!
//! ```text
//! handshake + protocol ──> [TLS] ──> login ──> [authentication] ──> [TLS] ──> ready
//! ```
//!
//! With [`Pipelining::Login`] the login does not wait for the response before it. With
//! [`Pipelining::Full`] the predicted authentication and the driver's requests do not wait either.
//! A server that differs from its profile then closes the connection, because requests arrive
//! before a required authentication. It may do so before its response to the login was read.

use super::Session;
use crate::client::credential::advice;
use crate::client::event::{RequestId, SessionError, SessionEvent};
use crate::client::session_config::{Pipelining, ServerProfile, TlsMode};
use crate::client::stream_ids::SubrequestId;
use crate::client::subrequest::{BufferedResponse, Subrequest};
use crate::wire::{
    ErrorCode, ErrorResponse, HANDSHAKE, LoginRequest, LoginResponse, PROTOCOL_VERSION,
    ProtocolRequest, ProtocolResponse, Redirect, Request, SecurityMethod, WaitResponse, protocol,
    query_kind, server, status_code,
};
use bytes::Bytes;
use std::collections::HashMap;

/// A step of the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Protocol,
    Login,
    /// Authentication with the credential of this index.
    Auth(usize),
}

/// The step after TLS is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AfterTls {
    #[default]
    Login,
    Ready,
}

/// State of the login.
#[derive(Debug, Default)]
pub(super) struct Login {
    steps: HashMap<SubrequestId, Step>,
    /// The login was sent.
    sent: bool,
    /// Requests were sent before the login was complete.
    ahead: bool,
    /// The offered methods; `None` before the server's response.
    offered: Option<Vec<SecurityMethod>>,
    /// Credentials that were tried.
    tried: Vec<usize>,
    /// The error of the last one.
    refusal: Option<String>,
    after_tls: AfterTls,
    /// The step for which the server requested a wait.
    waiting: Option<Step>,
    done: bool,
}

impl Login {
    pub(super) fn is_step(&self, id: SubrequestId) -> bool {
        self.steps.contains_key(&id)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }
}

impl Session {
    /// Sends the first messages of a new connection.
    pub(super) fn begin(&mut self) {
        self.out.put(&HANDSHAKE);
        self.send_step(Step::Protocol);
        if self.setup.tls == TlsMode::Never && self.setup.pipelining >= Pipelining::Login {
            self.log_in();
        }
    }

    fn send_step(&mut self, step: Step) {
        let id = SubrequestId(self.number());
        let request = match step {
            Step::Protocol => {
                let tls = match self.setup.tls {
                    TlsMode::Never => 0,
                    TlsMode::IfWanted => protocol::ABLE_TLS,
                    TlsMode::Required | TlsMode::RequiredAtOnce => {
                        protocol::WANT_TLS | protocol::ABLE_TLS
                    }
                };
                let flags = protocol::SECURITY | tls;
                let expect = protocol::EXPECT_LOGIN;
                Request::Protocol(ProtocolRequest { version: PROTOCOL_VERSION, flags, expect })
            }
            Step::Login => {
                let user = if self.setup.user.is_empty() { "hither" } else { &self.setup.user };
                let words = self.setup.words.clone();
                Request::Login(LoginRequest {
                    words,
                    ..LoginRequest::new(user, self.setup.process)
                })
            }
            Step::Auth(index) => {
                let Some(credential) = self.setup.credentials.get(index) else { return };
                Request::Auth { method: credential.wire_name(), credentials: credential.payload() }
            }
        };
        // The encoding cannot fail: the driver sets the parameters of a login, which are no longer
        // than a redirect.
        if let Some(stream) = self.streams.allocate(id)
            && request.encode(stream, &mut self.out).is_ok()
        {
            self.login.steps.insert(id, step);
        }
    }

    /// Sends the login, and the messages that may go ahead with it.
    fn log_in(&mut self) {
        if std::mem::replace(&mut self.login.sent, true) {
            return;
        }
        self.send_step(Step::Login);
        let tls_to_come = self.setup.tls == TlsMode::IfWanted
            && !self.in_tls
            && self.setup.profile.flags & server::TLS_SESSION != 0;
        if self.setup.pipelining < Pipelining::Full || tls_to_come {
            return;
        }
        if !self.setup.profile.methods.is_empty() {
            let Some(index) = self.expected() else { return };
            self.login.tried.push(index);
            self.send_step(Step::Auth(index));
        }
        self.login.ahead = true;
        self.open_gate = true;
        self.send_held();
    }

    /// The credential for a server that offered methods before: the one for the method that it
    /// accepted, otherwise the first one.
    fn expected(&self) -> Option<usize> {
        let ServerProfile { methods, method, .. } = &self.setup.profile;
        let names = method.as_ref().map_or(methods.as_slice(), std::slice::from_ref);
        names.iter().find_map(|name| {
            self.setup.credentials.iter().position(|credential| {
                credential.method() == name.as_str()
                    && credential.obstacle(None, self.in_tls).is_none()
            })
        })
    }

    pub(super) fn after_tls(&mut self) {
        match self.login.after_tls {
            AfterTls::Login => self.log_in(),
            AfterTls::Ready => self.ready(),
        }
    }

    fn start_tls(&mut self, then: AfterTls) {
        self.login.after_tls = then;
        self.at_tls = true;
        self.events.push_back(SessionEvent::StartTls);
    }

    /// Handles the response to a step.
    pub(super) fn step_done(
        &mut self,
        id: SubrequestId,
        payload: &[u8],
    ) -> Result<(), SessionError> {
        match self.login.steps.remove(&id) {
            Some(Step::Protocol) => self.protocol_answered(&ProtocolResponse::decode(payload)?),
            Some(Step::Login) => self.login_answered(LoginResponse::decode(payload)?),
            Some(Step::Auth(index)) => {
                self.authenticated(index);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn protocol_answered(&mut self, answer: &ProtocolResponse) -> Result<(), SessionError> {
        self.setup.profile.version = answer.version;
        self.setup.profile.flags = answer.flags;
        // Option 2 requires signatures even of a client without a key.
        if answer
            .signing
            .as_ref()
            .is_some_and(|signing| signing.is_wanted() && signing.options & 2 != 0)
        {
            return Err(SessionError::SigningWanted);
        }
        let allows_tls = self.setup.tls != TlsMode::Never;
        if answer.flags & server::GOTO_TLS != 0 && allows_tls {
            self.start_tls(AfterTls::Login);
            return Ok(());
        }
        match self.setup.tls {
            TlsMode::Required | TlsMode::RequiredAtOnce => return Err(SessionError::NoTls),
            TlsMode::IfWanted if answer.flags & server::TLS_LOGIN != 0 => {
                self.start_tls(AfterTls::Login)
            }
            TlsMode::IfWanted | TlsMode::Never => self.log_in(),
        }
        Ok(())
    }

    fn login_answered(&mut self, answer: LoginResponse) -> Result<(), SessionError> {
        self.setup.profile.learn_methods(&answer.methods);
        let wants_proof = !answer.methods.is_empty();
        let sent = self.login.tried.last().and_then(|index| self.setup.credentials.get(*index));
        let fits = sent.is_some_and(|credential| {
            answer.methods.iter().any(|method| method.name == credential.method())
        });
        self.login.offered = Some(answer.methods);
        if !wants_proof {
            // The server rejects an authentication that was sent ahead, without further effect.
            self.login_done();
            return Ok(());
        }
        if fits {
            return Ok(());
        }
        if self.login.ahead {
            let wanted = self.setup.profile.methods.join(", ");
            return Err(SessionError::Mispredicted {
                seen: format!("its login requires authentication by {wanted}"),
            });
        }
        self.authenticate()
    }

    /// Sends the first credential, in the server's order, that was not tried.
    fn authenticate(&mut self) -> Result<(), SessionError> {
        let offered = self.login.offered.clone().unwrap_or_default();
        let mut obstacles: Vec<String> = self.login.refusal.clone().into_iter().collect();
        for method in &offered {
            let mut untried =
                self.setup.credentials.iter().enumerate().filter(|(index, credential)| {
                    credential.method() == method.name && !self.login.tried.contains(index)
                });
            let Some((index, credential)) = untried.next() else { continue };
            match credential.obstacle(Some(method), self.in_tls) {
                Some(obstacle) => obstacles.push(obstacle),
                None => {
                    self.login.tried.push(index);
                    self.send_step(Step::Auth(index));
                    return Ok(());
                }
            }
        }
        let wanted: Vec<_> = offered.iter().map(|method| method.name.as_str()).collect();
        if obstacles.is_empty() {
            obstacles.extend(wanted.iter().map(|name| advice(name).to_owned()));
        }
        Err(SessionError::Unauthenticated {
            wanted: wanted.join(", "),
            advice: obstacles.join("; "),
        })
    }

    fn authenticated(&mut self, index: usize) {
        if self.login.done {
            return;
        }
        let method =
            self.setup.credentials.get(index).map(|credential| credential.method().to_owned());
        self.setup.profile.method = method;
        self.login_done();
    }

    fn login_done(&mut self) {
        let session_tls = self.setup.profile.flags & server::TLS_SESSION != 0;
        if self.setup.tls == TlsMode::IfWanted && !self.in_tls && session_tls {
            self.start_tls(AfterTls::Ready);
        } else {
            self.ready();
        }
    }

    fn ready(&mut self) {
        self.login.done = true;
        self.setup.profile.proven = true;
        self.open_gate = true;
        self.events.push_back(SessionEvent::Ready);
        self.send_held();
        if self.setup.profile.vector_limits.is_none() && !self.setup.profile.is_manager() {
            let text = "readv_ior_max readv_iov_max".to_owned();
            let query = Request::Query { kind: query_kind::CONFIG, text };
            self.add_part(
                RequestId::INTERNAL,
                super::Role::Free,
                Subrequest::Gather(BufferedResponse::new(query)),
            );
        }
    }

    /// Handles any other status in response to a step.
    pub(super) fn step_control(
        &mut self,
        id: SubrequestId,
        status: u16,
        payload: &Bytes,
    ) -> Result<(), SessionError> {
        let Some(step) = self.login.steps.get(&id).copied() else { return Ok(()) };
        if status != status_code::WAITRESP {
            self.login.steps.remove(&id);
        }
        match status {
            status_code::ERROR => self.step_refused(step, ErrorResponse::decode(payload)?),
            status_code::WAIT | status_code::WAITRESP if self.login.done => Ok(()),
            status_code::WAIT => {
                if self.login.ahead {
                    return Err(SessionError::Mispredicted {
                        seen: "its login has to wait".to_owned(),
                    });
                }
                self.login.waiting = Some(step);
                let WaitResponse { seconds, message } = WaitResponse::decode(payload)?;
                self.events.push_back(SessionEvent::Wait {
                    request_id: RequestId::SETUP,
                    seconds,
                    message,
                });
                Ok(())
            }
            status_code::WAITRESP => {
                let WaitResponse { seconds, .. } = WaitResponse::decode(payload)?;
                self.events
                    .push_back(SessionEvent::Later { request_id: RequestId::SETUP, seconds });
                Ok(())
            }
            status_code::REDIRECT => {
                let redirect = Redirect::decode(payload)?;
                self.events.push_back(SessionEvent::Redirect {
                    request_id: RequestId::SETUP,
                    redirect,
                    missing: Vec::new(),
                });
                self.over = true;
                Ok(())
            }
            _ => {
                let message =
                    "it requires another step, which this method does not have".to_owned();
                let code = ErrorCode::AUTH_FAILED;
                self.step_refused(step, ErrorResponse { code, message })
            }
        }
    }

    fn step_refused(&mut self, step: Step, refusal: ErrorResponse) -> Result<(), SessionError> {
        let ErrorResponse { code, message } = refusal;
        if code == ErrorCode::TLS_REQUIRED && !self.in_tls {
            return Err(SessionError::TlsWanted { message });
        }
        match step {
            Step::Protocol => Err(SessionError::Refused { step: "protocol", code, message }),
            Step::Login => Err(SessionError::Refused { step: "login", code, message }),
            // The server did not require it.
            Step::Auth(_) if self.login.done => Ok(()),
            Step::Auth(index) => {
                let method =
                    self.setup.credentials.get(index).map_or("", |credential| credential.method());
                self.login.refusal = Some(format!("{method} was rejected: {message}"));
                if self.login.ahead {
                    let seen = format!("it rejected {method}: {message}");
                    return Err(SessionError::Mispredicted { seen });
                }
                self.authenticate()
            }
        }
    }

    pub(super) fn resume_login(&mut self) {
        if let Some(step) = self.login.waiting.take() {
            self.send_step(step);
        }
    }

    pub(super) fn end_of_connection(&self) -> SessionError {
        if self.login.ahead && !self.login.done {
            return SessionError::Mispredicted {
                seen: "it ended the connection during the login".to_owned(),
            };
        }
        let during = if self.login.done { "after the login" } else { "during the login" };
        SessionError::Ended { during }
    }
}
