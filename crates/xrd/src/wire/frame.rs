//! The handshake, and the heads of requests and responses.

use crate::wire::{FieldReader, StreamId, WireError};

/// The client's handshake: three zeros, 4 and 2012.
pub const HANDSHAKE: [u8; 20] = {
    let mut bytes = [0; 20];
    bytes[15] = 4;
    bytes[18] = 0x07;
    bytes[19] = 0xdc;
    bytes
};
/// Size of the head of a request.
pub const REQUEST_HEAD_BYTES: usize = 24;
/// Size of the head of a response.
pub const RESPONSE_HEAD_BYTES: usize = 8;
/// Size of the response to the handshake: the head of a response of stream 0, and two numbers.
pub const HANDSHAKE_RESPONSE_BYTES: usize = RESPONSE_HEAD_BYTES + 8;

/// The server's response to the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeResponse {
    /// The version that the server speaks, such as 0x511 for 5.1.1.
    pub version: u32,
    /// The server has files itself; otherwise it is a manager.
    pub data_server: bool,
}

impl HandshakeResponse {
    /// Decodes the part after the head.
    ///
    /// # Errors
    /// There are fewer than 8 bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the response to the handshake", payload);
        Ok(Self { version: fields.u32()?, data_server: fields.u32()? == 1 })
    }

    /// Encodes the whole response, including its head.
    #[must_use]
    pub fn encode(self) -> [u8; HANDSHAKE_RESPONSE_BYTES] {
        let mut bytes = [0; HANDSHAKE_RESPONSE_BYTES];
        bytes[7] = 8;
        bytes[8..12].copy_from_slice(&self.version.to_be_bytes());
        bytes[15] = self.data_server.into();
        bytes
    }
}

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// The stream id for its responses.
    pub stream: StreamId,
    /// A [`request_code`](crate::wire::request_code).
    pub code: u16,
    /// Fields whose meaning depends on the code.
    pub body: [u8; 16],
    /// Length of the payload.
    pub length: u32,
}

impl RequestHead {
    /// Decodes a head.
    ///
    /// # Errors
    /// The length is negative.
    pub fn decode(bytes: &[u8; REQUEST_HEAD_BYTES]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the head of a request", bytes);
        Ok(Self {
            stream: StreamId(fields.u16()?),
            code: fields.u16()?,
            body: fields.array()?,
            length: fields.length("the length of a request")?,
        })
    }

    /// Encodes the head.
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

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// The stream id of the request.
    pub stream: StreamId,
    /// A [`status_code`](crate::wire::status_code).
    pub status: u16,
    /// Length of the payload.
    pub length: u32,
}

impl ResponseHead {
    /// Decodes a head.
    ///
    /// # Errors
    /// The length is negative.
    pub fn decode(bytes: &[u8; RESPONSE_HEAD_BYTES]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the head of a response", bytes);
        Ok(Self {
            stream: StreamId(fields.u16()?),
            status: fields.u16()?,
            length: fields.length("the length of an answer")?,
        })
    }

    /// Encodes the head.
    #[must_use]
    pub fn encode(&self) -> [u8; RESPONSE_HEAD_BYTES] {
        let mut bytes = [0; RESPONSE_HEAD_BYTES];
        bytes[..2].copy_from_slice(&self.stream.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.status.to_be_bytes());
        bytes[4..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}
