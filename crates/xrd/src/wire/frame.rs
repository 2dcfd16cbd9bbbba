//! The handshake, and what stands before every request and every answer.

use crate::wire::{FieldReader, StreamId, WireError};

/// What a client sends first: three zeros, 4 and 2012.
pub const HANDSHAKE: [u8; 20] = {
    let mut bytes = [0; 20];
    bytes[15] = 4;
    bytes[18] = 0x07;
    bytes[19] = 0xdc;
    bytes
};
/// Bytes before the payload of a request.
pub const REQUEST_HEAD_BYTES: usize = 24;
/// Bytes before the payload of an answer.
pub const ANSWER_HEAD_BYTES: usize = 8;
/// Bytes of the answer to the handshake: the head of an answer of stream 0, and two numbers.
pub const HANDSHAKE_ANSWER_BYTES: usize = ANSWER_HEAD_BYTES + 8;

/// What a server says to the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeResponse {
    /// The version that the server speaks, such as 0x511 for 5.1.1.
    pub version: u32,
    /// It has files, rather than knowing who has.
    pub data_server: bool,
}

impl HandshakeResponse {
    /// Takes apart what follows the head.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the answer to the handshake", payload);
        Ok(Self { version: fields.u32()?, data_server: fields.u32()? == 1 })
    }

    /// The whole answer, with its head.
    #[must_use]
    pub fn encode(self) -> [u8; HANDSHAKE_ANSWER_BYTES] {
        let mut bytes = [0; HANDSHAKE_ANSWER_BYTES];
        bytes[7] = 8;
        bytes[8..12].copy_from_slice(&self.version.to_be_bytes());
        bytes[15] = self.data_server.into();
        bytes
    }
}

/// What stands before the payload of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// What the answers will carry.
    pub stream: StreamId,
    /// A [`request_code`](crate::wire::request_code).
    pub code: u16,
    /// What the code gives a meaning to.
    pub body: [u8; 16],
    /// Bytes of payload.
    pub length: u32,
}

impl RequestHead {
    /// Takes a head apart.
    ///
    /// # Errors
    /// A negative length.
    pub fn decode(bytes: &[u8; REQUEST_HEAD_BYTES]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the head of a request", bytes);
        Ok(Self {
            stream: StreamId(fields.u16()?),
            code: fields.u16()?,
            body: fields.array()?,
            length: fields.length("the length of a request")?,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_HEAD_BYTES] {
        let mut bytes = [0; REQUEST_HEAD_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.code.to_be_bytes());
        bytes[4..20].copy_from_slice(&self.body);
        bytes[20..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// What stands before the payload of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// That of the request.
    pub stream: StreamId,
    /// A [`status_code`](crate::wire::status_code).
    pub status: u16,
    /// Bytes of payload.
    pub length: u32,
}

impl ResponseHead {
    /// Takes a head apart.
    ///
    /// # Errors
    /// A negative length.
    pub fn decode(bytes: &[u8; ANSWER_HEAD_BYTES]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the head of an answer", bytes);
        Ok(Self {
            stream: StreamId(fields.u16()?),
            status: fields.u16()?,
            length: fields.length("the length of an answer")?,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ANSWER_HEAD_BYTES] {
        let mut bytes = [0; ANSWER_HEAD_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.status.to_be_bytes());
        bytes[4..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}
