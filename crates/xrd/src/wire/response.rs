//! Responses of a few fields.

pub(crate) mod dirlist;
pub(crate) mod locate;
pub(crate) mod query;
pub(crate) mod redirect;
pub(crate) mod stat;
use crate::wire::{
    ErrorCode, FieldReader, FileHandle, RESPONSE_HEAD_BYTES, ResponseHead, StatInfo, WireError,
    text,
};
use bytes::{BufMut, BytesMut};

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The error code.
    pub code: ErrorCode,
    /// The server's message.
    pub message: String,
}

impl ErrorResponse {
    /// Decodes the payload.
    ///
    /// # Errors
    /// There are fewer than 4 bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a refusal", payload);
        Ok(Self { code: ErrorCode(fields.u32()?), message: text(fields.rest()) })
    }

    /// Encodes the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.code.0);
        out.put_slice(self.message.as_bytes());
        out.put_u8(0);
    }
}

/// A wait: repeat the request later, or wait for the announced response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitResponse {
    /// The number of seconds.
    pub seconds: u32,
    /// The server's message; empty for an announced response.
    pub message: String,
}

impl WaitResponse {
    /// Decodes the payload. A negative time becomes 0.
    ///
    /// # Errors
    /// There are fewer than 4 bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a wait", payload);
        let seconds = u32::try_from(fields.i32()?).unwrap_or(0);
        Ok(Self { seconds, message: text(fields.rest()) })
    }

    /// Encodes the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.seconds.min(i32::MAX.unsigned_abs()));
        out.put_slice(self.message.as_bytes());
    }
}

/// An unsolicited message, or a late response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attention {
    /// A message for the user (`kXR_asyncms`).
    Message,
    /// A response that was announced for later (`kXR_asynresp`): its head; its payload follows.
    Answer(ResponseHead),
    /// An obsolete message.
    Other(u32),
}

impl Attention {
    /// Size of the head before the payload of a late response.
    pub const ANSWER_PREFIX_BYTES: usize = 8 + RESPONSE_HEAD_BYTES;
    /// The code of a late response.
    const ANSWER: u32 = 5008;
    /// The code of a message.
    const MESSAGE: u32 = 5002;

    /// Decodes the first 16 bytes of the payload.
    ///
    /// # Errors
    /// A response has a negative length.
    pub fn decode(prefix: &[u8; Self::ANSWER_PREFIX_BYTES]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a notice", prefix);
        match fields.u32()? {
            Self::ANSWER => {
                fields.take(4)?;
                Ok(Self::Answer(ResponseHead::decode(&fields.array()?)?))
            }
            Self::MESSAGE => Ok(Self::Message),
            other => Ok(Self::Other(other)),
        }
    }

    /// Encodes the prefix of a response with this head.
    #[must_use]
    pub fn answer_prefix(head: &ResponseHead) -> [u8; Self::ANSWER_PREFIX_BYTES] {
        let mut bytes = [0; Self::ANSWER_PREFIX_BYTES];
        bytes[..4].copy_from_slice(&Self::ANSWER.to_be_bytes());
        bytes[8..].copy_from_slice(&head.encode());
        bytes
    }
}

/// The response to an open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenResponse {
    /// The handle of the file.
    pub handle: FileHandle,
    /// Its status, if it was requested with [`open::STAT`](crate::wire::open::STAT).
    pub status: Option<StatInfo>,
}

impl OpenResponse {
    /// Decodes the payload: a handle and, after 8 bytes on compression (unused), the status. A
    /// malformed status is ignored, because the file is open regardless.
    ///
    /// # Errors
    /// There are fewer than 4 bytes, or 5 to 11.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the answer to an open", payload);
        let handle = FileHandle(fields.array()?);
        if fields.is_empty() {
            return Ok(Self { handle, status: None });
        }
        fields.take(8)?;
        let status = fields.rest();
        Ok(Self { handle, status: StatInfo::parse(status).ok() })
    }

    /// Encodes the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.handle.0);
        if let Some(status) = &self.status {
            out.put_bytes(0, 8);
            out.put_slice(status.to_text().as_bytes());
            out.put_u8(0);
        }
    }
}
