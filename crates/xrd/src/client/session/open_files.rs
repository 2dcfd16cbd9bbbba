//! Open files, and the use of predicted handles.
//!
//! A server assigns the lowest handle that is free on a connection (`handle_prediction.rs`). So
//! reads use the predicted handle of their file, and are sent together with its open. A wrong
//! prediction is corrected:
//!
//! - The open gets another handle: the reads are sent again, with that one.
//! - The open has to wait, or its response is announced for later: the server rejects the reads,
//!   because the file is not open. They are held until it is.
//! - The open fails or is redirected: the reads fail, too.
//! - The response to a read arrives before the response to the open: it is discarded, and the read
//!   is sent again.
//! - Another file gets the handle: the reads may have reached that file. They are sent again.
//!
//! A handle is predicted only if it is not in use when the open is sent, so that a read on it
//! cannot reach a file that is being closed. Only reads are sent on a prediction. Nothing is
//! predicted for managers, and only the handle of the first file for servers with another
//! numbering.

use super::{PartState, Role, Session};
use crate::client::event::{Completion, File, RequestError, SessionEvent};
use crate::client::stream_ids::SubrequestId;
use crate::client::subrequest::{BufferedResponse, Subrequest};
use crate::client::{HandleNumbering, Pipelining, RequestId};
use crate::wire::{FileHandle, OpenResponse, Request};

/// A file that is open or being opened.
#[derive(Debug, Default)]
pub(super) struct OpenFile {
    /// Its handle; `None` before the response to the open.
    pub(super) handle: Option<FileHandle>,
    /// Its predicted handle; `None` if it cannot be known.
    pub(super) guess: Option<FileHandle>,
    /// Its open was the first one on this connection.
    pub(super) first: bool,
    /// A close was requested: no request may follow.
    pub(super) closing: bool,
}

impl Session {
    /// The parts on a file and its close, in the order of requests.
    fn parts_on(&self, file: File) -> Vec<SubrequestId> {
        let roles = [Role::On(file), Role::Closes(file)];
        let on_it = self.parts.iter().filter(|(_, part)| roles.contains(&part.role));
        let mut ids: Vec<_> = on_it.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Predicts the handle for an open that is sent, if reads may use it.
    pub(super) fn expect(&mut self, id: SubrequestId) -> Option<FileHandle> {
        let is_first = !std::mem::replace(&mut self.opened_before, true);
        let profile = &self.setup.profile;
        let numbering = profile.numbering.unwrap_or(HandleNumbering::LittleEndian);
        let next = self.numbers.open(id, numbering);
        if profile.is_manager() {
            return None;
        }
        if is_first {
            return (self.setup.pipelining == Pipelining::Full).then(|| profile.expected_handle());
        }
        let counts = profile.first_handle == Some(FileHandle::default().0);
        let may = self.setup.pipelining >= Pipelining::Login && counts;
        next.map(|(_, handle)| handle).filter(|_| may)
    }

    /// Handles the response to an open whose file was `expected` to get this number.
    pub(super) fn opened(
        &mut self,
        id: SubrequestId,
        file: File,
        answer: OpenResponse,
        expected: Option<u32>,
    ) {
        let OpenResponse { handle, status } = answer;
        let profile = &mut self.setup.profile;
        profile.numbering =
            self.numbers.given(expected, handle, profile.numbering).or(profile.numbering);
        let taken_for = |(other, open): (&File, &OpenFile)| {
            (*other != file && open.handle.is_none() && open.guess == Some(handle))
                .then_some(*other)
        };
        let mistaken: Vec<File> = self.files.iter().filter_map(taken_for).collect();
        mistaken.into_iter().for_each(|other| self.retract(other));
        let Some(open) = self.files.get_mut(&file) else {
            // The open was cancelled meanwhile.
            self.parts.remove(&id);
            let close = Subrequest::Gather(BufferedResponse::new(Request::Close(handle)));
            self.add_part(RequestId::INTERNAL, Role::OnHandle(handle), close);
            return;
        };
        let wrong = open.guess.is_some_and(|guess| guess != handle);
        open.handle = Some(handle);
        if open.first {
            self.setup.profile.first_handle = Some(handle.0);
        }
        if wrong {
            self.retract(file);
        }
        if let Some(part) = self.parts.remove(&id) {
            self.exchanges.remove(&part.request_id);
            self.events.push_back(SessionEvent::Done {
                request_id: part.request_id,
                completion: Completion::Opened { file, status },
            });
        }
        self.send_held();
    }

    /// Invalidates the predicted handle of a file: parts that used it are sent again when the file
    /// is open.
    pub(super) fn retract(&mut self, file: File) {
        if let Some(open) = self.files.get_mut(&file) {
            open.guess = None;
        }
        for id in self.parts_on(file) {
            let state = self.parts.get(&id).map(|part| part.state);
            if matches!(state, Some(PartState::Sent { guessed: true, .. })) {
                self.take_back(id);
            }
        }
    }

    /// Fails all parts on a file that will not be opened, or is closed.
    pub(super) fn not_open(&mut self, file: File) {
        self.files.remove(&file);
        for id in self.parts_on(file) {
            if let Some(PartState::Sent { stream, .. }) = self.parts.get(&id).map(|part| part.state)
            {
                self.abandon(id, stream);
            }
            self.part_failed(id, RequestError::NotOpen);
        }
    }

    /// Invalidates the prediction if a part used it and its response arrived before the open
    /// confirmed it. Returns true then.
    pub(super) fn retract_if_unconfirmed(&mut self, id: SubrequestId) -> bool {
        let Some(part) = self.parts.get(&id) else { return false };
        let Role::On(file) = part.role else { return false };
        let guessed = matches!(part.state, PartState::Sent { guessed: true, .. });
        let unconfirmed =
            guessed && self.files.get(&file).is_some_and(|file| file.handle.is_none());
        if unconfirmed {
            self.retract(file);
        }
        unconfirmed
    }
}
