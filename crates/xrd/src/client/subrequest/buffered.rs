//! Short responses: buffered up to a maximum, and decoded at the end.

use super::Outcome;
use crate::client::event::Completion;
use crate::wire::{
    FileHandle, OpenResponse, Request, StatInfo, WireError, parse_attributes, parse_locate,
};
use bytes::{Bytes, BytesMut};

/// Maximum size of a buffered response: some dozen attributes of 64 KiB, and their names.
pub(super) const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The decoder of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// None: the status is sufficient.
    Nothing,
    /// As the response to an open.
    Open,
    /// As the status of a file.
    Status,
    /// As replicas.
    Locations,
    /// As attributes.
    Attributes,
    /// As text.
    Text,
}

impl Form {
    /// The decoder of the response to a request.
    fn of(request: &Request) -> Self {
        match request {
            Request::Open(_) => Self::Open,
            Request::Stat(_) => Self::Status,
            Request::Locate { .. } => Self::Locations,
            Request::ListAttributes(_) => Self::Attributes,
            Request::Close(_)
            | Request::Write { .. }
            | Request::Sync(_)
            | Request::MakeDirectory { .. }
            | Request::Remove(_)
            | Request::RemoveDirectory(_)
            | Request::Rename { .. }
            | Request::ChangeMode { .. }
            | Request::Ping => Self::Nothing,
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
    /// Bytes of the response that have arrived, including those beyond [`MAX_BYTES`].
    seen: usize,
}

impl BufferedResponse {
    pub(in crate::client) fn new(request: Request) -> Self {
        let form = Form::of(&request);
        Self { request, form, gathered: BytesMut::new(), seen: 0 }
    }

    /// The request. A close, sync or write gets the handle of its open file.
    pub(super) fn request(&mut self, file: FileHandle) -> Request {
        self.gathered.clear();
        self.seen = 0;
        let mut request = self.request.clone();
        if let Request::Close(handle) | Request::Sync(handle) | Request::Write { handle, .. } =
            &mut request
        {
            *handle = file;
        }
        request
    }

    pub(super) fn has_use_for_data(&self) -> bool {
        self.seen <= MAX_BYTES
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
            Form::Locations => Completion::Locations(parse_locate(&bytes)?),
            Form::Text => Completion::Text(bytes),
            Form::Attributes => Completion::Attributes(parse_attributes(&bytes)?),
        }))
    }
}
