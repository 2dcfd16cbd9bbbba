//! Requests to a session.

use super::{Exchange, Role, Session};
use crate::client::event::{Completion, File, RequestError, RequestId, SessionEvent};
use crate::client::session::open_files::OpenFile;
use crate::client::subrequest::{BufferedResponse, List, Pages, Read, Subrequest, Vector};
use crate::wire::{FileHandle, OpenRequest, Request};
use bytes::Bytes;
use std::ops::Range;

impl Session {
    /// Opens a file. Reads may be submitted immediately: they are held, or sent on a predicted
    /// handle, until it is open.
    pub fn open(&mut self, open: OpenRequest) -> (File, RequestId) {
        let file = File(self.number());
        let request_id = self.new_request_id();
        self.files.insert(file, OpenFile::default());
        self.add_part(
            request_id,
            Role::Opens(file),
            Subrequest::Gather(BufferedResponse::new(Request::Open(open))),
        );
        (file, request_id)
    }

    /// Reads a range. If it reaches beyond the end of the file, the bytes up to the end are
    /// delivered, and the rest is reported as missing.
    pub fn read(&mut self, file: File, range: Range<u64>) -> RequestId {
        let jobs = cut(range, Read::MAX_BYTES).map(|range| Subrequest::Read(Read::new(range)));
        self.read_jobs(file, jobs.collect())
    }

    /// Reads any number of ranges in any order; they are distributed over as many requests as
    /// needed. Servers reject the whole request that contains a range beyond the end of the file.
    pub fn read_vector(&mut self, file: File, ranges: &[Range<u64>]) -> RequestId {
        let requests = self.vector_limits().split(ranges);
        let jobs = requests.into_iter().map(|ranges| Subrequest::Vector(Vector::new(ranges)));
        self.read_jobs(file, jobs.collect())
    }

    /// Reads a range with page checksums, from a server that [supports
    /// them](crate::client::ServerProfile::has_pages). `again` marks a range that arrived damaged
    /// before.
    pub fn read_pages(&mut self, file: File, range: Range<u64>, again: bool) -> RequestId {
        let jobs =
            cut(range, Pages::MAX_BYTES).map(|range| Subrequest::Pages(Pages::new(range, again)));
        self.read_jobs(file, jobs.collect())
    }

    /// Writes bytes into a file.
    pub fn write(&mut self, file: File, offset: u64, data: Bytes) -> RequestId {
        let handle = FileHandle::default();
        self.on_file(file, Request::Write { handle, offset, data })
    }

    /// Flushes the written bytes of a file to disk, or starts or awaits a third-party copy (see
    /// [`Request::Sync`]).
    pub fn sync(&mut self, file: File) -> RequestId {
        self.on_file(file, Request::Sync(FileHandle::default()))
    }

    /// Closes a file, after its earlier requests. No request on it may follow.
    pub fn close(&mut self, file: File) -> RequestId {
        let request_id = self.on_file(file, Request::Close(FileHandle::default()));
        if let Some(open) = self.files.get_mut(&file) {
            open.closing = true;
        }
        request_id
    }

    /// Sends a request that uses no open file. A listing arrives as [`SessionEvent::Entries`].
    ///
    /// A request on an open file fails with [`RequestError::NotOpen`]: use the other methods.
    pub fn submit(&mut self, request: Request) -> RequestId {
        let request_id = self.new_request_id();
        let job = match request {
            Request::List { path, options } => Subrequest::List(List::new(path, options)),
            Request::Open(_)
            | Request::Close(_)
            | Request::Read { .. }
            | Request::ReadVector(_)
            | Request::ReadPages { .. }
            | Request::Write { .. }
            | Request::Sync(_) => {
                let missing = Vec::new();
                self.events.push_back(SessionEvent::Failed {
                    request_id,
                    failure: RequestError::NotOpen,
                    missing,
                });
                return request_id;
            }
            other => Subrequest::Gather(BufferedResponse::new(other)),
        };
        self.add_part(request_id, Role::Free, job);
        request_id
    }

    fn new_request_id(&mut self) -> RequestId {
        RequestId(self.number())
    }

    fn on_file(&mut self, file: File, request: Request) -> RequestId {
        let request_id = self.new_request_id();
        if self.takes_requests(file) {
            let closes = matches!(request, Request::Close(_));
            let role = if closes { Role::Closes(file) } else { Role::On(file) };
            self.add_part(request_id, role, Subrequest::Gather(BufferedResponse::new(request)));
        } else {
            let missing = Vec::new();
            self.events.push_back(SessionEvent::Failed {
                request_id,
                failure: RequestError::NotOpen,
                missing,
            });
        }
        request_id
    }

    fn takes_requests(&self, file: File) -> bool {
        self.files.get(&file).is_some_and(|open| !open.closing)
    }

    fn read_jobs(&mut self, file: File, jobs: Vec<Subrequest>) -> RequestId {
        let request_id = self.new_request_id();
        if !self.takes_requests(file) {
            let missing = jobs.iter().flat_map(Subrequest::missing).collect();
            self.events.push_back(SessionEvent::Failed {
                request_id,
                failure: RequestError::NotOpen,
                missing,
            });
        } else if jobs.is_empty() {
            let reply = Completion::Read { missing: Vec::new(), damaged: Vec::new() };
            self.events.push_back(SessionEvent::Done { request_id, completion: reply });
        } else {
            self.exchanges.insert(request_id, Exchange::default());
            for job in jobs {
                self.add_part(request_id, Role::On(file), job);
            }
        }
        request_id
    }
}

/// Splits a range into pieces of at most this many bytes.
fn cut(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min(start.saturating_add(most));
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}
