//! Parts that can be sent, and sending them.

use super::{Exchange, Part, PartState, Role, Session};
use crate::client::event::{Completion, RequestError, RequestId, SessionEvent};
use crate::client::stream_ids::SubrequestId;
use crate::client::subrequest::Subrequest;
use crate::wire::FileHandle;

/// The decision on a part.
enum SendDecision {
    /// Send it, with this handle.
    Now { handle: FileHandle, guessed: bool },
    /// Hold it.
    Later,
    /// Its file is not open, and will not be.
    Never,
}

impl Session {
    /// Adds a part to a request, and sends it if possible.
    pub(super) fn add_part(&mut self, request_id: RequestId, role: Role, job: Subrequest) {
        let id = SubrequestId(self.number());
        self.parts.insert(id, Part { request_id, role, job, state: PartState::Held });
        if request_id != RequestId::INTERNAL {
            self.exchanges.entry(request_id).or_default().parts.push(id);
        }
        self.send_or_hold(id);
    }

    /// Sends the held parts that can be sent, in the order of their requests: a read that is sent
    /// again goes before a close that was requested after it.
    pub(super) fn send_held(&mut self) {
        if !self.open_gate || self.at_tls {
            return;
        }
        self.starved = false;
        let mut held = std::mem::take(&mut self.held);
        held.make_contiguous().sort_unstable();
        for id in held {
            self.send_or_hold(id);
        }
    }

    /// Sends a part, unless it has to be held.
    fn send_or_hold(&mut self, id: SubrequestId) {
        let Some(part) = self.parts.get(&id).filter(|part| part.state == PartState::Held) else {
            return;
        };
        if !self.open_gate || self.at_tls || self.starved {
            self.held.push_back(id);
            return;
        }
        match self.send_decision(part) {
            SendDecision::Now { handle, guessed } => {
                if !self.send(id, handle, guessed) {
                    self.starved = true;
                    self.held.push_back(id);
                }
            }
            SendDecision::Later => self.held.push_back(id),
            SendDecision::Never => self.part_failed(id, RequestError::NotOpen),
        }
    }

    fn send_decision(&self, part: &Part) -> SendDecision {
        match part.role {
            Role::Free | Role::Opens(_) => {
                SendDecision::Now { handle: FileHandle::default(), guessed: false }
            }
            Role::OnHandle(handle) => SendDecision::Now { handle, guessed: false },
            Role::On(file) | Role::Closes(file) => {
                let Some(file) = self.files.get(&file) else { return SendDecision::Never };
                if let Some(handle) = file.handle {
                    return SendDecision::Now { handle, guessed: false };
                }
                // Requests that change a file are never sent on a predicted handle.
                let reads = matches!(
                    part.job,
                    Subrequest::Read(_) | Subrequest::Vector(_) | Subrequest::Pages(_)
                );
                match file.guess.filter(|_| reads) {
                    Some(handle) => SendDecision::Now { handle, guessed: true },
                    None => SendDecision::Later,
                }
            }
        }
    }

    /// Sends a part; returns false if no stream id is free.
    fn send(&mut self, id: SubrequestId, handle: FileHandle, guessed: bool) -> bool {
        let Some(stream) = self.streams.allocate(id) else { return false };
        let Some(part) = self.parts.get_mut(&id) else { return true };
        let request = part.job.request(handle);
        if let Err(error) = request.encode(stream, &mut self.out) {
            self.streams.release(stream);
            self.part_failed(id, error.into());
            return true;
        }
        part.state = PartState::Sent { stream, guessed };
        match part.role {
            Role::Opens(file) => {
                let is_first = !self.opened_before;
                let guess = self.expect(id);
                if let Some(file) = self.files.get_mut(&file) {
                    file.first |= is_first;
                    file.guess = guess;
                }
            }
            Role::Closes(_) | Role::OnHandle(_) => self.numbers.close(handle),
            Role::Free | Role::On(_) => {}
        }
        true
    }

    /// Takes back a part that was sent on a predicted handle: its response will be ignored, and it
    /// will be sent again.
    pub(super) fn take_back(&mut self, id: SubrequestId) {
        let Some(part) = self.parts.get_mut(&id) else { return };
        if let PartState::Sent { stream, .. } = part.state {
            part.state = PartState::Held;
            self.held.push_back(id);
            self.abandon(id, stream);
        }
    }

    /// Ends a part, and its request if it was the last part.
    pub(super) fn part_over(&mut self, id: SubrequestId) {
        let Some(part) = self.parts.remove(&id) else { return };
        let Some(exchange) = self.exchanges.get_mut(&part.request_id) else { return };
        exchange.parts.retain(|other| *other != id);
        if !exchange.parts.is_empty() {
            return;
        }
        let Some(exchange) = self.exchanges.remove(&part.request_id) else { return };
        let request_id = part.request_id;
        let event = match exchange.failure {
            Some(failure) => {
                let mut missing = exchange.missing;
                missing.extend(exchange.damaged);
                SessionEvent::Failed { request_id, failure, missing }
            }
            None => {
                let Exchange { missing, damaged, .. } = exchange;
                SessionEvent::Done { request_id, completion: Completion::Read { missing, damaged } }
            }
        };
        self.events.push_back(event);
    }

    /// Fails a part; the other parts of its request continue.
    pub(super) fn part_failed(&mut self, id: SubrequestId, failure: RequestError) {
        let Some(part) = self.parts.get(&id) else { return };
        let missing = part.job.missing();
        let request_id = part.request_id;
        let role = part.role;
        if let Some(exchange) = self.exchanges.get_mut(&request_id) {
            exchange.failure.get_or_insert(failure);
            exchange.missing.extend(missing);
        }
        self.part_over(id);
        if let Role::Opens(file) | Role::Closes(file) = role {
            self.not_open(file);
        }
    }

    /// Cancels a part.
    pub(super) fn drop_part(&mut self, id: SubrequestId) {
        let Some(part) = self.parts.get_mut(&id) else { return };
        let role = part.role;
        let state = part.state;
        if let (Role::Opens(file), PartState::Sent { .. }) = (role, state) {
            // The file is closed when the response to its open arrives.
            part.request_id = RequestId::INTERNAL;
            self.files.remove(&file);
        } else {
            if let PartState::Sent { stream, .. } = state {
                self.abandon(id, stream);
            }
            self.parts.remove(&id);
        }
        if let Role::Opens(file) = role {
            self.not_open(file);
        }
    }
}
