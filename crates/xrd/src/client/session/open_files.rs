//! Files that are open, and the guess of a handle before they are.
//!
//! A server gives out the lowest handle that is free on a connection (`numbers.rs`). So reads name a file by the handle that
//! it will get, and go out with its open. The guess is not relied on:
//!
//! - The open gives another handle: the reads are sent again, with that one.
//! - The open has to wait, or its answer comes later: the server refuses the reads, as the file is not open. They are
//!   kept and sent when it is.
//! - The open fails or is redirected: so do the reads.
//! - An answer to a read comes before that to the open: it is not believed, and the read is sent again.
//! - Another file gets the handle: so the reads may have reached that one. They are sent again.
//!
//! A handle is only guessed if it names nothing when the open is sent, so that a read on it cannot reach a file that is
//! being closed. Only reads are sent on a guess. Nothing is guessed of a server that has no files itself, and nothing
//! beyond the first file of one that names them in its own way.

use super::{PartState, Role, Session, SubrequestId};
use crate::client::event::{Completion, File, RequestError, SessionEvent};
use crate::client::subrequest::{BufferedResponse, Subrequest};
use crate::client::{HandleNumbering, Pipelining, RequestId};
use crate::wire::{FileHandle, OpenResponse, Request};

/// A file that is open or being opened.
#[derive(Debug, Default)]
pub(super) struct OpenFile {
    /// What names it; `None` before the open is answered.
    pub(super) handle: Option<FileHandle>,
    /// What will name it, probably; `None` if that cannot be known.
    pub(super) guess: Option<FileHandle>,
    /// It was the first one on this connection.
    pub(super) first: bool,
    /// A close was asked for: nothing more can be.
    pub(super) closing: bool,
}

impl Session {
    /// The parts on a file, and what closes it, in the order in which they were asked.
    fn parts_on(&self, file: File) -> Vec<SubrequestId> {
        let roles = [Role::On(file), Role::Closes(file)];
        let on_it = self.parts.iter().filter(|(_, part)| roles.contains(&part.role));
        let mut ids: Vec<_> = on_it.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// An open is sent: what its file will be called, if that is a guess worth making.
    pub(super) fn expect(&mut self, id: SubrequestId) -> Option<FileHandle> {
        let is_first = !std::mem::replace(&mut self.opened_before, true);
        let profile = &self.setup.profile;
        let numbering = profile.numbering.unwrap_or(HandleNumbering::LittleEndian);
        let next = self.numbers.open(id, numbering);
        if profile.is_manager() {
            return None;
        }
        if is_first {
            return (self.setup.pace == Pipelining::Flight).then(|| profile.expected_handle());
        }
        let counts = profile.first_handle == Some(FileHandle::default().0);
        let may = self.setup.pace >= Pipelining::Login && counts;
        next.map(|(_, handle)| handle).filter(|_| may)
    }

    /// An open was answered, whose file was `expected` to have this number.
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
            // It was cancelled meanwhile.
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
            self.exchanges.remove(&part.ticket);
            self.events.push_back(SessionEvent::Done {
                ticket: part.ticket,
                reply: Completion::Opened { file, status },
            });
        }
        self.send_held();
    }

    /// The guess of a file's handle is void: what was sent on it is sent again when the file is open.
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

    /// A file won't be open, or is no more: everything on it fails.
    pub(super) fn not_open(&mut self, file: File) {
        self.files.remove(&file);
        for id in self.parts_on(file) {
            if let Some(PartState::Sent { stream, .. }) = self.parts.get(&id).map(|part| part.state)
            {
                self.streams.abandon(stream);
            }
            self.part_failed(id, RequestError::NotOpen);
        }
    }

    /// If a part was sent on a guess that nothing has confirmed, the guess is void: its answer came too early.
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
