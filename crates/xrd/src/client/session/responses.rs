//! Dispatch of responses to their requests.

use super::{PartState, Role, Session};
use crate::client::event::{Completion, RequestError, RequestId, SessionError, SessionEvent};
use crate::client::frame_reader::Piece;
use crate::client::stream_ids::SubrequestId;
use crate::client::subrequest::{Outcome, Sink};
use crate::wire::{
    ErrorCode, ErrorResponse, Redirect, StatusHead, StreamId, WaitResponse, WireError, status_code,
    vector_limits,
};
use bytes::{Bytes, BytesMut};

/// Maximum size of a response to a step of the login.
const MAX_STEP_BYTES: usize = 64 * 1024;

/// The receiver of a response's data.
#[derive(Debug)]
enum PayloadReceiver {
    Discard,
    Part(SubrequestId),
    Step(SubrequestId, BytesMut),
}

/// The response whose payload is arriving.
#[derive(Debug)]
pub(super) struct Current {
    stream: StreamId,
    last: bool,
    receiver: PayloadReceiver,
}

impl Session {
    pub(super) fn take_piece(&mut self, piece: Piece) -> Result<(), SessionError> {
        match piece {
            Piece::Greeting(answer) => {
                self.progress += 1;
                self.setup.profile.version = answer.version;
                Ok(())
            }
            Piece::Begin { stream, status, last } => {
                self.begin_answer(stream, status.as_ref(), last)
            }
            Piece::Data(bytes) => self.answer_data(bytes),
            Piece::End => self.end_answer(),
            Piece::Control { stream, status, payload } => self.control(stream, status, &payload),
            Piece::Message(text) => {
                self.events.push_back(SessionEvent::Message(text));
                Ok(())
            }
        }
    }

    fn owner(&self, stream: StreamId, status: u16) -> Result<Option<SubrequestId>, SessionError> {
        self.streams.owner(stream).ok_or(SessionError::Unasked { stream: stream.0, status })
    }

    fn begin_answer(
        &mut self,
        stream: StreamId,
        status: Option<&StatusHead>,
        last: bool,
    ) -> Result<(), SessionError> {
        let code = if status.is_some() { status_code::STATUS } else { status_code::OK };
        let receiver = match self.owner(stream, code)? {
            None => PayloadReceiver::Discard,
            Some(id) if self.login.is_step(id) => PayloadReceiver::Step(id, BytesMut::new()),
            Some(id) if self.retract_if_unconfirmed(id) => PayloadReceiver::Discard,
            Some(id) => {
                if let Some(part) = self.parts.get_mut(&id) {
                    part.job.begin(status)?;
                }
                PayloadReceiver::Part(id)
            }
        };
        self.current = Some(Current { stream, last, receiver });
        Ok(())
    }

    fn answer_data(&mut self, bytes: Bytes) -> Result<(), SessionError> {
        let length = bytes.len() as u64;
        let mut is_used = false;
        match self.current.as_mut().map(|current| &mut current.receiver) {
            Some(PayloadReceiver::Part(id)) => {
                if let Some(part) = self.parts.get_mut(id) {
                    let mut sink = Sink { request_id: part.request_id, events: &mut self.events };
                    is_used = part.job.has_use_for_data();
                    part.job.data(bytes, &mut sink)?;
                }
            }
            Some(PayloadReceiver::Step(_, gathered)) => {
                is_used = true;
                let seen = gathered.len() + bytes.len();
                if seen > MAX_STEP_BYTES {
                    let seen = seen as u64;
                    let limit = MAX_STEP_BYTES as u64;
                    return Err(WireError::TooLarge {
                        what: "response to a login in bytes",
                        seen,
                        limit,
                    }
                    .into());
                }
                gathered.extend_from_slice(&bytes);
            }
            Some(PayloadReceiver::Discard) | None => {}
        }
        if is_used {
            self.progress += length;
        } else {
            let unwanted = length.min(self.unwanted_bytes);
            self.unwanted_bytes -= unwanted;
            self.progress += unwanted;
        }
        Ok(())
    }

    fn end_answer(&mut self) -> Result<(), SessionError> {
        let Some(Current { stream, last, receiver }) = self.current.take() else { return Ok(()) };
        if let PayloadReceiver::Part(id) = receiver
            && let Some(part) = self.parts.get_mut(&id)
        {
            part.job.end()?;
        }
        if !last {
            return Ok(());
        }
        self.release(stream);
        match receiver {
            PayloadReceiver::Discard => Ok(()),
            PayloadReceiver::Step(id, payload) => self.step_done(id, &payload),
            PayloadReceiver::Part(id) => self.part_answered(id).map_err(SessionError::from),
        }
    }

    /// Frees a stream id, and sends parts that were held because none was free.
    fn release(&mut self, stream: StreamId) {
        self.progress += 1;
        self.streams.release(stream);
        if self.starved {
            self.send_held();
        }
    }

    /// Ends the response to a part.
    fn part_answered(&mut self, id: SubrequestId) -> Result<(), WireError> {
        let Some(part) = self.parts.get_mut(&id) else { return Ok(()) };
        let request_id = part.request_id;
        let role = part.role;
        let job =
            std::mem::replace(&mut part.job, crate::client::subrequest::Subrequest::nothing());
        let outcome = job.finish(&mut Sink { request_id, events: &mut self.events })?;
        let expected = self.numbers.answered(id);
        match outcome {
            Outcome::Read { missing, damaged } => {
                if let Some(exchange) = self.exchanges.get_mut(&request_id) {
                    exchange.missing.extend(missing);
                    exchange.damaged.extend(damaged);
                }
                self.part_over(id);
            }
            Outcome::Opened(answer) => {
                if let Role::Opens(file) = role {
                    self.opened(id, file, answer, expected);
                }
            }
            Outcome::Failed(failure) => self.part_failed(id, failure),
            Outcome::Reply(reply) => self.replied(id, reply),
        }
        Ok(())
    }

    fn replied(&mut self, id: SubrequestId, reply: Completion) {
        let Some(part) = self.parts.remove(&id) else { return };
        match part.role {
            Role::Closes(file) => {
                let handle = self.files.get(&file).and_then(|open| open.handle);
                handle.into_iter().for_each(|handle| self.numbers.closed(handle));
            }
            Role::OnHandle(handle) => self.numbers.closed(handle),
            Role::Free | Role::Opens(_) | Role::On(_) => {}
        }
        if part.request_id == RequestId::INTERNAL {
            if let Completion::Text(text) = &reply {
                self.setup.profile.vector_limits =
                    vector_limits(text).or(self.setup.profile.vector_limits);
            }
            return;
        }
        self.exchanges.remove(&part.request_id);
        if let Role::Closes(file) = part.role {
            self.not_open(file);
        }
        self.events
            .push_back(SessionEvent::Done { request_id: part.request_id, completion: reply });
    }

    /// Handles a response without data.
    fn control(
        &mut self,
        stream: StreamId,
        status: u16,
        payload: &Bytes,
    ) -> Result<(), SessionError> {
        let owner = match self.owner(stream, status) {
            // xrootd accepts the login of a client without TLS, and then sends it this second
            // response.
            Err(_) if status == status_code::ERROR && !self.in_tls => {
                let ErrorResponse { code, message } = ErrorResponse::decode(payload)?;
                return Err(match code {
                    ErrorCode::TLS_REQUIRED => SessionError::TlsWanted { message },
                    _ => SessionError::Unasked { stream: stream.0, status },
                });
            }
            owner => owner?,
        };
        if status != status_code::WAITRESP {
            self.release(stream);
        }
        let Some(id) = owner else { return Ok(()) };
        if self.login.is_step(id) {
            return self.step_control(id, status, payload);
        }
        if status != status_code::WAITRESP && self.retract_if_unconfirmed(id) {
            // The error means only that the file is not open yet.
            return Ok(());
        }
        let Some(part) = self.parts.get(&id) else { return Ok(()) };
        let request_id = part.request_id;
        let role = part.role;
        if let Role::Opens(file) = role {
            if status == status_code::WAITRESP {
                self.numbers.postponed(id);
            } else {
                self.numbers.answered(id);
            }
            if status != status_code::ERROR {
                self.retract(file);
            }
        }
        match status {
            status_code::ERROR => {
                let ErrorResponse { code, message } = ErrorResponse::decode(payload)?;
                self.part_failed(id, RequestError::Refused { code, message });
            }
            status_code::REDIRECT => self.redirected(id, Redirect::decode(payload)?),
            status_code::WAIT => {
                let WaitResponse { seconds, message } = WaitResponse::decode(payload)?;
                self.wait_requested(id, seconds, message);
            }
            status_code::WAITRESP => {
                let WaitResponse { seconds, .. } = WaitResponse::decode(payload)?;
                if request_id != RequestId::INTERNAL {
                    self.events.push_back(SessionEvent::Later { request_id, seconds });
                }
            }
            other => {
                let expected = "that of a response to a request";
                return Err(WireError::number("the status of a response", other, expected).into());
            }
        }
        Ok(())
    }

    fn wait_requested(&mut self, id: SubrequestId, seconds: u32, message: String) {
        let Some(part) = self.parts.get_mut(&id) else { return };
        part.state = PartState::Waiting;
        let request_id = part.request_id;
        match self.exchanges.get_mut(&request_id) {
            Some(exchange) if !exchange.waiting => {
                exchange.waiting = true;
                self.events.push_back(SessionEvent::Wait { request_id, seconds, message });
            }
            Some(_) => {}
            // A request of the session itself is dropped instead of repeated.
            None => {
                self.parts.remove(&id);
            }
        }
    }

    /// Redirects a request: it ends here, with all its parts.
    fn redirected(&mut self, id: SubrequestId, redirect: Redirect) {
        let Some(part) = self.parts.get(&id) else { return };
        let request_id = part.request_id;
        let role = part.role;
        let missing = self.missing(request_id);
        let Some(exchange) = self.exchanges.remove(&request_id) else {
            self.parts.remove(&id);
            return;
        };
        self.events.push_back(SessionEvent::Redirect { request_id, redirect, missing });
        for other in exchange.parts {
            // The stream of the redirected part itself has had its last response.
            if other != id
                && let Some(PartState::Sent { stream, .. }) =
                    self.parts.get(&other).map(|part| part.state)
            {
                self.abandon(other, stream);
            }
            self.parts.remove(&other);
        }
        if let Role::Opens(file) = role {
            self.not_open(file);
        }
    }
}
