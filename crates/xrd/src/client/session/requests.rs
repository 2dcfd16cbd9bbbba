//! What can be asked of a session.

use super::{Exchange, Role, Session};
use crate::client::event::{Completion, File, RequestError, RequestId, SessionEvent};
use crate::client::session::open_files::OpenFile;
use crate::client::subrequest::{BufferedResponse, List, Pages, Read, Subrequest, Vector};
use crate::wire::{FileHandle, OpenRequest, Request, Target, paged};
use bytes::Bytes;
use std::ops::Range;

impl Session {
    /// Opens a file, which can be read from at once: reads are kept, or sent on a guess, until it is open.
    pub fn open(&mut self, open: OpenRequest) -> (File, RequestId) {
        let file = File(self.number());
        let ticket = self.ticket();
        self.files.insert(file, OpenFile::default());
        self.add_part(
            ticket,
            Role::Opens(file),
            Subrequest::Gather(BufferedResponse::new(Request::Open(open))),
        );
        (file, ticket)
    }

    /// Reads a range. It may reach beyond the end of the file: what there is comes, and the rest is missing.
    pub fn read(&mut self, file: File, range: Range<u64>) -> RequestId {
        let jobs = cut(range, Read::MAX_BYTES).map(|range| Subrequest::Read(Read::new(range)));
        self.read_jobs(file, jobs.collect())
    }

    /// Reads ranges, in any order and as many as one likes; they are dealt out to as many requests as they take. A range
    /// that reaches beyond the end of the file makes servers refuse the whole request that it is in.
    pub fn read_vector(&mut self, file: File, ranges: &[Range<u64>]) -> RequestId {
        let requests = self.vector_limits().split(ranges);
        let jobs = requests.into_iter().map(|ranges| Subrequest::Vector(Vector::new(ranges)));
        self.read_jobs(file, jobs.collect())
    }

    /// Reads a range with checksums of its pages, from a server that [has them](crate::client::Profile::has_pages). `again`
    /// for what arrived damaged before.
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

    /// Writes bytes into a file, with checksums of its pages; says which arrived damaged. `again` for one of those, a page
    /// at a time.
    pub fn write_pages(&mut self, file: File, offset: u64, data: &[u8], again: bool) -> RequestId {
        let handle = FileHandle::default();
        self.on_file(
            file,
            Request::WritePages { handle, offset, again, pages: paged(offset, data) },
        )
    }

    /// What an open file is.
    pub fn status(&mut self, file: File) -> RequestId {
        let target = Target::Handle(FileHandle::default());
        self.on_file(file, Request::Stat { target, file_system: false })
    }

    /// Has the server write out what was written to a file.
    pub fn sync(&mut self, file: File) -> RequestId {
        self.on_file(file, Request::Sync(FileHandle::default()))
    }

    /// Gives an open file another size.
    pub fn truncate(&mut self, file: File, size: u64) -> RequestId {
        let target = Target::Handle(FileHandle::default());
        self.on_file(file, Request::Truncate { target, size })
    }

    /// Closes a file, after what was asked before. Nothing more can be asked of it.
    pub fn close(&mut self, file: File) -> RequestId {
        let ticket = self.on_file(file, Request::Close(FileHandle::default()));
        if let Some(open) = self.files.get_mut(&file) {
            open.closing = true;
        }
        ticket
    }

    /// Asks anything that is not about an open file. A listing comes as [`SessionEvent::Entries`].
    ///
    /// What is about an open file fails with [`RequestError::NotOpen`]: there are methods for these.
    pub fn submit(&mut self, request: Request) -> RequestId {
        let ticket = self.ticket();
        let job = match request {
            Request::List { path, options } => Subrequest::List(List::new(path, options)),
            Request::Open(_)
            | Request::Close(_)
            | Request::Sync(_)
            | Request::Read { .. }
            | Request::ReadVector(_)
            | Request::ReadPages { .. }
            | Request::Write { .. }
            | Request::WritePages { .. }
            | Request::Stat { target: Target::Handle(_), .. }
            | Request::Truncate { target: Target::Handle(_), .. } => {
                let missing = Vec::new();
                self.events.push_back(SessionEvent::Failed {
                    ticket,
                    failure: RequestError::NotOpen,
                    missing,
                });
                return ticket;
            }
            other => Subrequest::Gather(BufferedResponse::new(other)),
        };
        self.add_part(ticket, Role::Free, job);
        ticket
    }

    fn ticket(&mut self) -> RequestId {
        RequestId(self.number())
    }

    fn on_file(&mut self, file: File, request: Request) -> RequestId {
        let ticket = self.ticket();
        if self.takes_requests(file) {
            let closes = matches!(request, Request::Close(_));
            let role = if closes { Role::Closes(file) } else { Role::On(file) };
            self.add_part(ticket, role, Subrequest::Gather(BufferedResponse::new(request)));
        } else {
            let missing = Vec::new();
            self.events.push_back(SessionEvent::Failed {
                ticket,
                failure: RequestError::NotOpen,
                missing,
            });
        }
        ticket
    }

    fn takes_requests(&self, file: File) -> bool {
        self.files.get(&file).is_some_and(|open| !open.closing)
    }

    fn read_jobs(&mut self, file: File, jobs: Vec<Subrequest>) -> RequestId {
        let ticket = self.ticket();
        if !self.takes_requests(file) {
            let missing = jobs.iter().flat_map(Subrequest::missing).collect();
            self.events.push_back(SessionEvent::Failed {
                ticket,
                failure: RequestError::NotOpen,
                missing,
            });
        } else if jobs.is_empty() {
            let reply = Completion::Read { missing: Vec::new(), damaged: Vec::new() };
            self.events.push_back(SessionEvent::Done { ticket, reply });
        } else {
            self.exchanges.insert(ticket, Exchange::default());
            for job in jobs {
                self.add_part(ticket, Role::On(file), job);
            }
        }
        ticket
    }
}

/// A range in pieces of at most so many bytes.
fn cut(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min(start.saturating_add(most));
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}
