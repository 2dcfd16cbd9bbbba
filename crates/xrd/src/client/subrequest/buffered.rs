//! Short responses: buffered up to a maximum, and decoded at the end.

use super::Outcome;
use crate::client::event::Completion;
use crate::wire::{
    AttributeAction, AttributeResponse, FileHandle, OpenResponse, Request, StatInfo, StatusHead,
    Target, WireError, corrections, parse_locate, request_code,
};
use bytes::{Bytes, BytesMut};

/// Maximum size of a buffered response: 16 attributes of 64 KiB, and their names.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The decoding of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// None: success is enough.
    Nothing,
    /// As the response to an open.
    Open,
    /// As the status of a file.
    Status,
    /// As flags, one byte each.
    Kinds,
    /// As replicas.
    Locations,
    /// As attributes.
    Attributes,
    /// As a list of damaged pages, with a checksum.
    Corrections,
    /// As text.
    Text,
}

impl Form {
    /// The decoding of the response to a request.
    fn of(request: &Request) -> Self {
        match request {
            Request::Open(_) => Self::Open,
            Request::Stat { file_system: false, .. } => Self::Status,
            Request::StatMany(_) => Self::Kinds,
            Request::Locate { .. } => Self::Locations,
            Request::Attributes(_) => Self::Attributes,
            Request::WritePages { .. } => Self::Corrections,
            Request::Close(_)
            | Request::Sync(_)
            | Request::Truncate { .. }
            | Request::Write { .. }
            | Request::MakeDirectory { .. }
            | Request::Remove(_)
            | Request::RemoveDirectory(_)
            | Request::Rename { .. }
            | Request::ChangeMode { .. }
            | Request::Ping
            | Request::EndSession(_) => Self::Nothing,
            _ => Self::Text,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(in crate::client) struct BufferedResponse {
    request: Request,
    form: Form,
    gathered: BytesMut,
    /// The response exceeded its maximum.
    seen: usize,
}

impl BufferedResponse {
    pub(in crate::client) fn new(request: Request) -> Self {
        let form = Form::of(&request);
        Self { request, form, gathered: BytesMut::new(), seen: 0 }
    }

    /// The request; one on an open file gets its handle.
    pub(super) fn request(&mut self, file: FileHandle) -> Request {
        self.gathered.clear();
        self.seen = 0;
        let mut request = self.request.clone();
        match &mut request {
            Request::Close(handle)
            | Request::Sync(handle)
            | Request::Write { handle, .. }
            | Request::WritePages { handle, .. }
            | Request::Stat { target: Target::Handle(handle), .. }
            | Request::Truncate { target: Target::Handle(handle), .. } => *handle = file,
            Request::Attributes(attributes) => {
                if let Target::Handle(handle) = &mut attributes.target {
                    *handle = file;
                }
            }
            _ => {}
        }
        request
    }

    pub(super) fn begin(&self, status: Option<&StatusHead>) -> Result<(), WireError> {
        match status {
            Some(status)
                if self.form != Form::Corrections || status.code != request_code::PGWRITE =>
            {
                Err(WireError::number(
                    "the request that a status frame answers",
                    status.code,
                    "the one asked",
                ))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn data(&mut self, bytes: &Bytes) {
        self.seen = self.seen.saturating_add(bytes.len());
        if self.seen <= MAX_BYTES {
            self.gathered.extend_from_slice(bytes);
        }
    }

    pub(super) fn finish(self) -> Outcome {
        if self.seen > MAX_BYTES {
            let error = WireError::TooLarge {
                what: "answer in bytes",
                seen: self.seen as u64,
                limit: MAX_BYTES as u64,
            };
            return Outcome::Failed(error.into());
        }
        self.understand().unwrap_or_else(|error| Outcome::Failed(error.into()))
    }

    fn understand(self) -> Result<Outcome, WireError> {
        let bytes = self.gathered.freeze();
        Ok(Outcome::Reply(match self.form {
            Form::Open => return OpenResponse::decode(&bytes).map(Outcome::Opened),
            Form::Nothing => Completion::Nothing,
            Form::Status => Completion::Status(StatInfo::parse(&bytes)?),
            Form::Kinds => Completion::Kinds(bytes.to_vec()),
            Form::Locations => Completion::Locations(parse_locate(&bytes)?),
            Form::Corrections => Completion::Written { damaged: corrections(&bytes)? },
            Form::Text => Completion::Text(bytes),
            Form::Attributes => match &self.request {
                Request::Attributes(asked) => {
                    Completion::Attributes(AttributeResponse::decode(&asked.action, &bytes)?)
                }
                _ => Completion::Attributes(AttributeResponse::decode(
                    &AttributeAction::List { values: false },
                    &bytes,
                )?),
            },
        }))
    }
}
