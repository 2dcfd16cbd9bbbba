//! What one request on the wire is to bring, and how far it has come.
//!
//! A job makes its request (again, if it has to be sent again: then only for what is missing), takes the data of the
//! answer as it comes, and says at the end what it was.

mod buffered;
mod dirlist;
mod pages;
mod read;
mod vector;

pub(super) use buffered::BufferedResponse;
pub(super) use dirlist::List;
pub(super) use pages::Pages;
pub(super) use read::Read;
pub(super) use vector::Vector;

use crate::client::RequestError;
use crate::client::event::{Completion, RequestId, SessionEvent};
use crate::wire::{FileHandle, Request, StatusHead, WireError};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;

/// Where events go, and for which ticket.
pub(super) struct Sink<'a> {
    pub(super) ticket: RequestId,
    pub(super) events: &'a mut VecDeque<SessionEvent>,
}

impl Sink<'_> {
    fn data(&mut self, offset: u64, bytes: Bytes) {
        self.events.push_back(SessionEvent::Data { ticket: self.ticket, offset, bytes });
    }
}

/// Most frames without data in a row: more are no sign of life but a flood.
const MAX_EMPTY_FRAMES: u32 = 1024;

/// Whether the frames of an answer have anything in them.
#[derive(Debug, Default)]
struct Emptiness {
    in_a_row: u32,
    full: bool,
}

impl Emptiness {
    fn data(&mut self) {
        self.full = true;
    }

    fn end(&mut self) -> Result<(), WireError> {
        self.in_a_row = if std::mem::take(&mut self.full) { 0 } else { self.in_a_row + 1 };
        if self.in_a_row > MAX_EMPTY_FRAMES {
            let (seen, limit) = (self.in_a_row.into(), MAX_EMPTY_FRAMES.into());
            return Err(WireError::TooLarge { what: "number of frames without data", seen, limit });
        }
        Ok(())
    }
}

/// How a job came out.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A read: what is missing, and what arrived damaged.
    Read { missing: Vec<Range<u64>>, damaged: Vec<Range<u64>> },
    /// A file is open.
    Opened(crate::wire::OpenResponse),
    /// Everything else.
    Reply(Completion),
    /// The answer could not be understood.
    Failed(RequestError),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) enum Subrequest {
    Read(Read),
    Vector(Vector),
    Pages(Pages),
    List(List),
    Gather(BufferedResponse),
}

impl Subrequest {
    /// The request for what is missing. It starts anew: nothing has come of its answer.
    pub(super) fn request(&mut self, handle: FileHandle) -> Request {
        match self {
            Self::Read(read) => read.request(handle),
            Self::Vector(vector) => vector.request(handle),
            Self::Pages(pages) => pages.request(handle),
            Self::List(list) => list.request(),
            Self::Gather(gather) => gather.request(handle),
        }
    }

    /// What stands for a job that is done.
    pub(super) fn nothing() -> Self {
        Self::Vector(Vector::new(Vec::new()))
    }

    /// A frame of the answer begins.
    pub(super) fn begin(&mut self, status: Option<&StatusHead>) -> Result<(), WireError> {
        match (self, status) {
            (Self::Pages(pages), Some(status)) => pages.begin(status),
            (Self::Gather(gather), status) => gather.begin(status),
            (Self::Read(_) | Self::Vector(_) | Self::List(_), None) => Ok(()),
            (_, None) => {
                Err(WireError::number("the status of an answer", 0, "4007, with checksums"))
            }
            (_, Some(_)) => {
                Err(WireError::number("the status of an answer", 4007, "one without checksums"))
            }
        }
    }

    /// Bytes of the frame.
    pub(super) fn data(&mut self, bytes: Bytes, sink: &mut Sink<'_>) -> Result<(), WireError> {
        match self {
            Self::Read(read) => read.data(bytes, sink),
            Self::Vector(vector) => vector.data(bytes, sink),
            Self::Pages(pages) => pages.data(bytes, sink),
            Self::List(list) => {
                list.data(&bytes, sink);
                Ok(())
            }
            Self::Gather(gather) => {
                gather.data(&bytes);
                Ok(())
            }
        }
    }

    /// The frame is complete.
    pub(super) fn end(&mut self) -> Result<(), WireError> {
        match self {
            Self::Pages(pages) => pages.end(),
            Self::Read(read) => read.end(),
            Self::Vector(vector) => vector.end(),
            Self::List(_) | Self::Gather(_) => Ok(()),
        }
    }

    /// The answer is complete.
    pub(super) fn finish(self, sink: &mut Sink<'_>) -> Result<Outcome, WireError> {
        Ok(match self {
            Self::Read(read) => Outcome::Read { missing: read.missing(), damaged: Vec::new() },
            Self::Vector(vector) => {
                Outcome::Read { missing: vector.finish()?, damaged: Vec::new() }
            }
            Self::Pages(pages) => pages.finish(),
            Self::List(list) => list.finish(sink),
            Self::Gather(gather) => gather.finish(),
        })
    }

    /// Of a read: what has not been delivered.
    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        match self {
            Self::Read(read) => read.missing(),
            Self::Vector(vector) => vector.missing(),
            Self::Pages(pages) => pages.missing(),
            Self::List(_) | Self::Gather(_) => Vec::new(),
        }
    }
}
