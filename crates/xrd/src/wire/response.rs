//! Answers of a few fields.

pub(crate) mod dirlist;
pub(crate) mod locate;
pub(crate) mod query;
pub(crate) mod redirect;
pub(crate) mod stat;
use crate::wire::{
    ANSWER_HEAD_BYTES, ErrorCode, FieldReader, FileHandle, ResponseHead, StatInfo, WireError, text,
};
use bytes::{BufMut, BytesMut};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// Why.
    pub code: ErrorCode,
    /// Why, in the server's words.
    pub message: String,
}

impl ErrorResponse {
    /// Takes the payload apart.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a refusal", payload);
        Ok(Self { code: ErrorCode(fields.u32()?), message: text(fields.rest()) })
    }

    /// The payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.code.0);
        out.put_slice(self.message.as_bytes());
        out.put_u8(0);
    }
}

/// To be asked again after a while, or to be waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitResponse {
    /// Seconds.
    pub seconds: u32,
    /// Why, in the server's words; not with "wait for it".
    pub message: String,
}

impl WaitResponse {
    /// Takes the payload apart. A negative time is none.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("a wait", payload);
        let seconds = u32::try_from(fields.i32()?).unwrap_or(0);
        Ok(Self { seconds, message: text(fields.rest()) })
    }

    /// The payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.seconds.min(i32::MAX.unsigned_abs()));
        out.put_slice(self.message.as_bytes());
    }
}

/// What a server says unasked, or later than it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attention {
    /// A message for the user (`kXR_asyncms`).
    Message,
    /// The answer to a request that was to be waited for (`kXR_asynresp`): its head; its payload follows.
    Answer(ResponseHead),
    /// Something that no server does any more.
    Other(u32),
}

impl Attention {
    /// Bytes of an answer that comes this way, before its payload.
    pub const ANSWER_PREFIX_BYTES: usize = 8 + ANSWER_HEAD_BYTES;
    /// The number of an answer.
    const ANSWER: u32 = 5008;
    /// The number of a message.
    const MESSAGE: u32 = 5002;

    /// Takes the first 16 bytes of the payload apart.
    ///
    /// # Errors
    /// An answer with a negative length.
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

    /// The prefix of an answer with this head.
    #[must_use]
    pub fn answer_prefix(head: &ResponseHead) -> [u8; Self::ANSWER_PREFIX_BYTES] {
        let mut bytes = [0; Self::ANSWER_PREFIX_BYTES];
        bytes[..4].copy_from_slice(&Self::ANSWER.to_be_bytes());
        bytes[8..].copy_from_slice(&head.encode());
        bytes
    }
}

/// An open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenResponse {
    /// What names it from now on.
    pub handle: FileHandle,
    /// What it is, if that was asked for with [`open::STAT`](crate::wire::open::STAT).
    pub status: Option<StatInfo>,
}

impl OpenResponse {
    /// Takes the payload apart: a handle, and behind 8 bytes on compression (which nobody uses) the status. One that cannot
    /// be understood counts as none: the file is open all the same.
    ///
    /// # Errors
    /// Fewer than 4 bytes, or 5 to 11.
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

    /// The payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.handle.0);
        if let Some(status) = &self.status {
            out.put_bytes(0, 8);
            out.put_slice(status.to_text().as_bytes());
            out.put_u8(0);
        }
    }
}
