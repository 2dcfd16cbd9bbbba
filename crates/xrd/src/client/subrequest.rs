//! A request on the wire: the ranges that it reads, and its progress.
//!
//! A subrequest encodes its request (when it is sent again: for the missing ranges only), takes the
//! data of the response as it arrives, and returns its result at the end.

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

/// The receiver of events, and the request they belong to.
pub(super) struct Sink<'a> {
    pub(super) request_id: RequestId,
    pub(super) events: &'a mut VecDeque<SessionEvent>,
}

impl Sink<'_> {
    fn data(&mut self, offset: u64, bytes: Bytes) {
        self.events.push_back(SessionEvent::Data { request_id: self.request_id, offset, bytes });
    }
}

/// Maximum number of consecutive frames without data: a server that sends more is flooding.
const MAX_EMPTY_FRAMES: u32 = 1024;

/// Counter of consecutive frames without data.
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
            let seen = self.in_a_row.into();
            let limit = MAX_EMPTY_FRAMES.into();
            return Err(WireError::TooLarge { what: "number of frames without data", seen, limit });
        }
        Ok(())
    }
}

/// The result of a subrequest.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A read: missing ranges, and damaged pages.
    Read { missing: Vec<Range<u64>>, damaged: Vec<Range<u64>> },
    /// A file is open.
    Opened(crate::wire::OpenResponse),
    /// Everything else.
    Reply(Completion),
    /// The response could not be decoded.
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
    /// Encodes the request for missing ranges. It starts anew: no part of its response has come.
    pub(super) fn request(&mut self, handle: FileHandle) -> Request {
        match self {
            Self::Read(read) => read.request(handle),
            Self::Vector(vector) => vector.request(handle),
            Self::Pages(pages) => pages.request(handle),
            Self::List(list) => list.request(),
            Self::Gather(gather) => gather.request(handle),
        }
    }

    /// A placeholder for a finished subrequest.
    pub(super) fn nothing() -> Self {
        Self::Vector(Vector::new(Vec::new()))
    }

    /// Begins a frame of the response.
    pub(super) fn begin(&mut self, status: Option<&StatusHead>) -> Result<(), WireError> {
        match (self, status) {
            (Self::Pages(pages), Some(status)) => pages.begin(status),
            (Self::Pages(_), None) => {
                Err(WireError::number("the status of a response", 0, "4007, with checksums"))
            }
            (_, None) => Ok(()),
            (_, Some(_)) => {
                Err(WireError::number("the status of a response", 4007, "one without checksums"))
            }
        }
    }

    /// Takes bytes of the frame.
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

    /// Returns false if further data of this frame are dropped.
    pub(super) fn has_use_for_data(&self) -> bool {
        match self {
            Self::Pages(pages) => pages.has_use_for_data(),
            Self::List(list) => list.has_use_for_data(),
            Self::Gather(gather) => gather.has_use_for_data(),
            Self::Read(_) | Self::Vector(_) => true,
        }
    }

    /// Ends the frame.
    pub(super) fn end(&mut self) -> Result<(), WireError> {
        match self {
            Self::Pages(pages) => pages.end(),
            Self::Read(read) => read.end(),
            Self::Vector(vector) => vector.end(),
            Self::List(_) | Self::Gather(_) => Ok(()),
        }
    }

    /// Ends the response.
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

    /// The ranges of a read that were not delivered.
    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        match self {
            Self::Read(read) => read.missing(),
            Self::Vector(vector) => vector.missing(),
            Self::Pages(pages) => pages.missing(),
            Self::List(_) | Self::Gather(_) => Vec::new(),
        }
    }

    /// Maximum number of data bytes that may still arrive: for a read, the missing bytes.
    pub(super) fn expected_bytes(&self) -> u64 {
        match self {
            Self::List(_) | Self::Gather(_) => buffered::MAX_BYTES as u64,
            read => read.missing().iter().map(|range| range.end - range.start).sum(),
        }
    }
}
