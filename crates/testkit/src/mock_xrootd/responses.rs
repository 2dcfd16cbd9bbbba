//! Responses, with faults.

use super::fault::Fault;
use super::tree::{Tree, bare, subject};
use crate::mock_http::webdav::OF_ANOTHER_CLIENT;
use bytes::{Bytes, BytesMut};
use hither_xrd::server::{Connection, Response};
use hither_xrd::wire::{
    ErrorCode, FileHandle, LoginResponse, OpenRequest, OpenResponse, PAGE_BYTES, PROTOCOL_VERSION,
    ProtocolResponse, RESPONSE_HEAD_BYTES, Redirect, Request, ResponseHead, SecurityMethod,
    Segment, SessionId, StatInfo, StreamId, server, stat_flags, status_code,
};
use std::net::SocketAddr;

/// Maximum number of pages in a frame.
const FRAME_PAGES: u64 = 16;
/// A stream id that no client uses.
const NO_STREAM: u16 = 0xfff0;

/// The files of one connection.
pub(super) struct Files {
    bytes: Bytes,
    /// Number of replacements of the file.
    replaced: i64,
    /// The address of this server.
    here: SocketAddr,
    /// The state of each handle, from the lowest on: true if it is in use.
    taken: Vec<bool>,
    /// The path of each handle.
    paths: Vec<String>,
    /// The number of the lowest handle.
    first: u8,
}

impl Files {
    /// Creates the files of a connection, none of them open. `here` is the address of the server.
    pub(super) fn new(here: SocketAddr) -> Self {
        Self {
            bytes: Bytes::new(),
            replaced: 0,
            here,
            taken: Vec::new(),
            paths: Vec::new(),
            first: 0,
        }
    }

    /// Sets the content of all files to `bytes`, after this number of replacements.
    pub(super) fn see(&mut self, bytes: Bytes, replaced: i64) {
        (self.bytes, self.replaced) = (bytes, replaced);
    }

    /// The bytes of the response to a request.
    pub(super) fn answer(
        &mut self,
        connection: &mut Connection,
        stream: StreamId,
        request: Request,
        faults: &[Fault],
        tree: Option<&mut Tree>,
    ) -> Bytes {
        let before = if faults.contains(&Fault::Notice) { notice() } else { Vec::new() };
        self.give(connection, stream, request, faults, tree);
        let mut answer = BytesMut::from(&connection.outgoing().take_all()[..]);
        for fault in faults {
            corrupt(&mut answer, fault);
        }
        Bytes::from([&before[..], &answer[..]].concat())
    }

    fn give(
        &mut self,
        connection: &mut Connection,
        stream: StreamId,
        request: Request,
        faults: &[Fault],
        tree: Option<&mut Tree>,
    ) {
        let carried = tree.and_then(|tree| self.ask(tree, &request, faults));
        if faults.iter().any(|it| matches!(it, Fault::Unanswered | Fault::Dropped)) {
            return;
        }
        if let Some(instead) = faults.iter().find_map(|fault| self.instead(fault)) {
            connection.answer(stream, &instead);
            return;
        }
        if let Some(carried) = carried {
            return self.send(connection, stream, &[carried], faults);
        }
        let answers = match request {
            Request::Protocol(_) => {
                let plain = server::IS_SERVER | server::PAGES;
                let flags = faults.iter().find_map(|fault| match fault {
                    Fault::Flags(flags) => Some(*flags),
                    _ => None,
                });
                let flags = flags.unwrap_or(plain);
                let answer = ProtocolResponse { version: PROTOCOL_VERSION, flags, signing: None };
                return connection.answer_protocol(stream, &answer);
            }
            Request::Login(_) => {
                let method = |name: &&str| SecurityMethod {
                    name: (*name).to_owned(),
                    parameters: String::new(),
                };
                let proofs = faults.iter().filter_map(|fault| match fault {
                    Fault::Proof(name) => Some(name),
                    _ => None,
                });
                let methods = proofs.map(method).collect();
                let answer = LoginResponse { session: SessionId([7; 16]), methods };
                return connection.answer_login(stream, &answer);
            }
            Request::Auth { .. } => return connection.answer_auth(stream),
            Request::Query { .. } => {
                let text = faults.iter().find_map(|fault| match fault {
                    Fault::Text(text) => Some(*text),
                    _ => None,
                });
                vec![Response::text(text.unwrap_or("2097136\n1024\n"))]
            }
            Request::Open(OpenRequest { path, .. }) => vec![self.open(bare(&path), faults)],
            Request::Close(handle) => {
                if let Some(taken) = self.slot(handle) {
                    *taken = false;
                }
                vec![Response::nothing()]
            }
            Request::Read { handle, .. } | Request::ReadPages { handle, .. }
                if !self.is_open(handle) =>
            {
                vec![Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file")]
            }
            Request::Read { offset, length, .. } => {
                self.in_frames(self.slice(offset, length.into()), faults)
            }
            Request::ReadPages { offset, length, again, .. } => {
                self.pages(offset, length.into(), again, faults)
            }
            Request::ReadVector(segments) => self.vector(segments, faults),
            Request::Stat(_) => vec![Response::status(&self.status(faults))],
            _ => vec![Response::nothing()],
        };
        self.send(connection, stream, &answers, faults);
    }

    /// The response that a fault sends instead of the one to the request.
    fn instead(&self, fault: &Fault) -> Option<Response> {
        Some(match fault {
            Fault::Refused(code) => Response::error(*code, "as the test wants it"),
            Fault::Elsewhere(redirect) => Response::Redirect(redirect.clone()),
            Fault::ToItself => {
                Response::Redirect(Redirect::to(self.here.ip().to_string(), self.here.port()))
            }
            Fault::Wait(seconds) => Response::wait(*seconds, "as the test wants it"),
            Fault::LaterNever(seconds) => Response::Later(*seconds),
            Fault::Undone => Response::nothing(),
            _ => return None,
        })
    }

    /// Carries out a request in the tree. Returns the response, unless it is that of any file. A
    /// request whose response is missing or replaced is carried out with [`Fault::Done`] only.
    fn ask(&mut self, tree: &mut Tree, request: &Request, faults: &[Fault]) -> Option<Response> {
        let mut replaced = faults.iter().filter(|fault| {
            matches!(fault, Fault::Unanswered | Fault::Dropped) || self.instead(fault).is_some()
        });
        let is_carried_out = replaced.next().is_none() || faults.contains(&Fault::Done);
        let response = if is_carried_out { tree.carry_out(request) } else { None };
        let path = subject(request).unwrap_or_default();
        for fault in faults {
            match fault {
                Fault::MadeAgain => tree.make(path, Some(OF_ANOTHER_CLIENT)),
                Fault::Removed => tree.remove(path),
                _ => {}
            }
        }
        if let Some((bytes, replaced)) = tree.opened(request) {
            self.see(bytes, replaced);
        }
        let Request::Write { handle, offset, data } = request else { return response };
        let less = faults.iter().map(|it| if let Fault::Short(less) = it { *less } else { 0 });
        let end = data.len().saturating_sub(less.sum());
        if let Some(path) = self.index(*handle).and_then(|at| self.paths.get(at)) {
            tree.write(path, *offset, data.get(..end).unwrap_or_default());
        }
        Some(Response::nothing())
    }

    fn send(
        &self,
        connection: &mut Connection,
        stream: StreamId,
        answers: &[Response],
        faults: &[Fault],
    ) {
        let later = faults.iter().find_map(|fault| match fault {
            Fault::Later(seconds) => Some(*seconds),
            _ => None,
        });
        if let Some(seconds) = later {
            connection.answer(stream, &Response::Later(seconds));
        }
        for answer in answers {
            match later {
                Some(_) => connection.answer_late(stream, answer),
                None => connection.answer(stream, answer),
            }
        }
    }

    fn index(&self, FileHandle(handle): FileHandle) -> Option<usize> {
        let [0, 0, 0, number] = handle else { return None };
        number.checked_sub(self.first).map(usize::from)
    }

    /// The mutable state of a handle.
    fn slot(&mut self, handle: FileHandle) -> Option<&mut bool> {
        let index = self.index(handle)?;
        self.taken.get_mut(index)
    }

    fn is_open(&mut self, handle: FileHandle) -> bool {
        self.slot(handle).is_some_and(|taken| *taken)
    }

    fn open(&mut self, path: &str, faults: &[Fault]) -> Response {
        for fault in faults {
            if let Fault::Handles(first) = fault {
                self.first = *first;
            }
        }
        let free = self.taken.iter().position(|taken| !taken).unwrap_or(self.taken.len());
        self.taken.resize(self.taken.len().max(free + 1), true);
        if let Some(slot) = self.taken.get_mut(free) {
            *slot = true;
        }
        self.paths.resize(self.taken.len(), String::new());
        if let Some(slot) = self.paths.get_mut(free) {
            path.clone_into(slot);
        }
        let number = u8::try_from(free).unwrap_or(u8::MAX).saturating_add(self.first);
        let status = (!faults.contains(&Fault::NoStatus)).then(|| self.status(faults));
        Response::opened(&OpenResponse { handle: FileHandle([0, 0, 0, number]), status })
    }

    fn status(&self, faults: &[Fault]) -> StatInfo {
        let size = faults.iter().find_map(|fault| match fault {
            Fault::Size(size) => Some(*size),
            _ => None,
        });
        let size = size.unwrap_or(self.bytes.len() as u64);
        let offline = if faults.contains(&Fault::Offline) { stat_flags::OFFLINE } else { 0 };
        let modified = 1_700_000_000 + self.replaced;
        StatInfo { size, flags: 16 | offline, modified, ..StatInfo::default() }
    }

    fn slice(&self, offset: u64, length: u64) -> Bytes {
        let size = self.bytes.len();
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(size);
        self.bytes.slice(place(offset)..place(offset.saturating_add(length)))
    }

    /// Splits data into frames.
    fn in_frames(&self, data: Bytes, faults: &[Fault]) -> Vec<Response> {
        let mut data = BytesMut::from(&data[..]);
        let mut most = usize::MAX;
        let mut never_last = false;
        let mut answers = Vec::new();
        for fault in faults {
            match fault {
                Fault::Short(less) => data.truncate(data.len().saturating_sub(*less)),
                Fault::Long(more) => data.resize(data.len() + more, 0),
                Fault::Frames(bytes) => most = *bytes,
                Fault::NeverLast => never_last = true,
                Fault::Empty(frames) => {
                    answers.extend(std::iter::repeat_n(Response::Partial(Bytes::new()), *frames));
                }
                _ => {}
            }
        }
        let mut data = data.freeze();
        while data.len() > most {
            answers.push(Response::Partial(data.split_to(most)));
        }
        answers.push(if never_last { Response::Partial(data) } else { Response::Ok(data) });
        answers
    }

    fn vector(&mut self, segments: Vec<Segment>, faults: &[Fault]) -> Vec<Response> {
        let size = self.bytes.len() as u64;
        for segment in &segments {
            if !self.is_open(segment.handle) {
                return vec![Response::error(ErrorCode::FILE_NOT_OPEN, "not an open file")];
            }
            if segment.offset.saturating_add(segment.length.into()) > size {
                return vec![Response::error(
                    ErrorCode::FS_ERROR,
                    "readv past the end of the file",
                )];
            }
        }
        let found = |segment: Segment| (segment, self.slice(segment.offset, segment.length.into()));
        let mut parts: Vec<_> = segments.into_iter().map(found).collect();
        for fault in faults {
            match fault {
                Fault::Reversed => parts.reverse(),
                Fault::LeftOut => drop(parts.pop()),
                Fault::Repeated => parts.extend(parts.first().cloned()),
                Fault::Shifted(bytes) => {
                    parts.iter_mut().for_each(|(segment, _)| segment.offset += bytes);
                }
                Fault::OtherFile => {
                    parts.iter_mut().for_each(|(segment, _)| segment.handle = FileHandle([9; 4]));
                }
                _ => {}
            }
        }
        self.in_frames(Response::segments(&parts), faults)
    }

    fn pages(&self, offset: u64, length: u64, again: bool, faults: &[Fault]) -> Vec<Response> {
        let mut length = length;
        let mut answers = Vec::new();
        let mut shift = 0;
        let mut damaged = None;
        let mut never_last = false;
        for fault in faults {
            match fault {
                Fault::Short(less) => length = length.saturating_sub(*less as u64),
                Fault::Long(more) => length += *more as u64,
                Fault::Shifted(bytes) => shift = *bytes,
                Fault::Damaged { every, again: too } if *too || !again => damaged = Some(*every),
                Fault::NeverLast => never_last = true,
                _ => {}
            }
        }
        let mut at = offset;
        let mut rest = self.slice(offset, length);
        loop {
            let most = usize::try_from(FRAME_PAGES * PAGE_BYTES - at % PAGE_BYTES).unwrap_or(1);
            let piece = rest.split_to(most.min(rest.len()));
            let last = rest.is_empty() && !never_last;
            let mut answer = Response::pages(at.saturating_add(shift), &piece, last);
            if let (Response::Status(_, pages), Some(every)) = (&mut answer, damaged) {
                *pages = damage(at, pages, every);
            }
            answers.push(answer);
            at += piece.len() as u64;
            if rest.is_empty() {
                return answers;
            }
        }
    }
}

/// Pages from the offset `at`, with a wrong bit in every `every`-th page of the file.
fn damage(at: u64, pages: &Bytes, every: u64) -> Bytes {
    let mut bytes = BytesMut::from(&pages[..]);
    let mut page = at / PAGE_BYTES;
    let mut place = 4;
    let mut length = PAGE_BYTES - at % PAGE_BYTES;
    while let Some(byte) = bytes.get_mut(place) {
        if page.is_multiple_of(every.max(1)) {
            *byte ^= 0x10;
        }
        place += usize::try_from(length).unwrap_or(usize::MAX) + 4;
        (page, length) = (page + 1, PAGE_BYTES);
    }
    bytes.freeze()
}

/// A message to the user that is not a response to a request.
fn notice() -> Vec<u8> {
    let text = b"\0\0\x13\x8a\0\0\0\0the server goes down";
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let head = ResponseHead { stream: StreamId(0), status: status_code::ATTN, length };
    [&head.encode()[..], text].concat()
}

/// Changes the bytes of a response.
fn corrupt(answer: &mut BytesMut, fault: &Fault) {
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = answer.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    match fault {
        Fault::WrongStream => put(0, &NO_STREAM.to_be_bytes()),
        Fault::Status(status) => put(2, &status.to_be_bytes()),
        Fault::Length(length) => put(RESPONSE_HEAD_BYTES - 4, &length.to_be_bytes()),
        Fault::FlippedBit(bit) => {
            if let Some(byte) = answer.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Fault::Twice => answer.extend_from_slice(&answer.clone()),
        _ => {}
    }
}
