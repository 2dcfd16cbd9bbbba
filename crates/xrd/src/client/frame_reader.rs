//! Splits the bytes of a connection into responses as they arrive. Data is passed on in the pieces
//! in which it arrives; only short messages are buffered, up to [`MAX_CONTROL_BYTES`].

use crate::wire::{
    Attention, HANDSHAKE_RESPONSE_BYTES, HandshakeResponse, RESPONSE_HEAD_BYTES, ResponseHead,
    StatusHead, StreamId, WireError, status_code, text,
};
use bytes::{Buf, Bytes, BytesMut};

/// Maximum size of an error, a redirect, a wait or a message.
const MAX_CONTROL_BYTES: u32 = 64 * 1024;

/// The next part of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The response to the handshake.
    Greeting(HandshakeResponse),
    /// The payload of a response begins. It follows as [`Piece::Data`], and [`Piece::End`].
    Begin {
        /// Its stream.
        stream: StreamId,
        /// The head before the data, if it came with a checksum.
        status: Option<StatusHead>,
        /// It is the last one of the stream.
        last: bool,
    },
    /// Bytes of the payload; never empty.
    Data(Bytes),
    /// The payload is complete.
    End,
    /// A response without data: error, redirect, wait, announcement of a later response, next step
    /// of authentication.
    Control {
        /// Its stream.
        stream: StreamId,
        /// Its kind.
        status: u16,
        /// Its payload.
        payload: Bytes,
    },
    /// A message.
    Message(String),
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Before the response to the handshake.
    Greeting,
    /// Before the head of a response.
    Head,
    /// In the head of a status frame.
    Status(ResponseHead),
    /// In the payload.
    Data { left: u32 },
    /// In a payload that is buffered.
    Control(ResponseHead),
    /// In the head of a late response; then this many bytes follow.
    Attention { left: u32 },
    /// In a message.
    Message { length: u32 },
    /// In data that no request needs.
    Skip { left: u32 },
}

/// Splits the bytes of one connection into responses.
#[derive(Debug)]
pub(super) struct Frames {
    state: State,
    /// The buffered bytes. Invariant: at most [`MAX_CONTROL_BYTES`].
    gathered: BytesMut,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { state: State::Greeting, gathered: BytesMut::new() }
    }

    /// Takes the next piece off the front of `bytes`; returns `None` when they are used up.
    pub(super) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Piece>, WireError> {
        loop {
            let piece = match self.state {
                State::Data { left: 0 } => {
                    self.state = State::Head;
                    Some(Piece::End)
                }
                State::Data { left } => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let taken = take(bytes, left);
                    self.state = State::Data { left: left.saturating_sub(length(&taken)) };
                    Some(Piece::Data(taken))
                }
                State::Skip { left } => {
                    let taken = length(&take(bytes, left));
                    if taken < left {
                        self.state = State::Skip { left: left - taken };
                        return Ok(None);
                    }
                    self.state = State::Head;
                    None
                }
                gathering => match self.gather(gathering, bytes)? {
                    Some(piece) => piece,
                    None => return Ok(None),
                },
            };
            if piece.is_some() {
                return Ok(piece);
            }
        }
    }

    /// Continues buffering a short message. Returns `None` when more bytes are needed, `Some(None)`
    /// when the message produces no piece.
    fn gather(
        &mut self,
        state: State,
        bytes: &mut Bytes,
    ) -> Result<Option<Option<Piece>>, WireError> {
        let wanted = match state {
            State::Greeting => HANDSHAKE_RESPONSE_BYTES,
            State::Status(_) => StatusHead::BYTES,
            State::Attention { .. } => Attention::ANSWER_PREFIX_BYTES,
            State::Control(head) => head.length as usize,
            State::Message { length } => length as usize,
            State::Head | State::Data { .. } | State::Skip { .. } => RESPONSE_HEAD_BYTES,
        };
        let missing = wanted.saturating_sub(self.gathered.len()).min(bytes.len());
        self.gathered.extend_from_slice(&bytes.split_to(missing));
        if self.gathered.len() < wanted {
            return Ok(None);
        }
        let whole = self.gathered.split().freeze();
        self.gathered_whole(state, &whole).map(Some)
    }

    fn gathered_whole(&mut self, state: State, whole: &Bytes) -> Result<Option<Piece>, WireError> {
        match state {
            State::Greeting => {
                let mut whole = whole.clone();
                let head = head(&whole.split_to(RESPONSE_HEAD_BYTES))?;
                if head != (ResponseHead { stream: StreamId(0), status: 0, length: 8 }) {
                    let expected = "that of an XRootD server";
                    return Err(WireError::text(
                        "the response to the handshake",
                        whole.as_ref(),
                        expected,
                    ));
                }
                self.state = State::Head;
                HandshakeResponse::decode(&whole).map(Piece::Greeting).map(Some)
            }
            State::Status(head) => {
                let status = StatusHead::decode(head.stream, whole)?;
                self.state = State::Data { left: status.data_bytes };
                let last = status.kind == crate::wire::StatusKind::Final;
                Ok(Some(Piece::Begin { stream: head.stream, status: Some(status), last }))
            }
            State::Control(head) => {
                self.state = State::Head;
                let ResponseHead { stream, status, .. } = head;
                Ok(Some(Piece::Control { stream, status, payload: whole.clone() }))
            }
            State::Attention { left } => self.attention(whole, left),
            State::Message { .. } => {
                self.state = State::Head;
                Ok(Some(Piece::Message(text(whole))))
            }
            State::Head | State::Data { .. } | State::Skip { .. } => {
                self.begin(head(whole)?, false)
            }
        }
    }

    /// Handles the head of a response.
    fn begin(&mut self, head: ResponseHead, late: bool) -> Result<Option<Piece>, WireError> {
        match head.status {
            status_code::OK | status_code::OKSOFAR => {
                self.state = State::Data { left: head.length };
                let last = head.status == status_code::OK;
                return Ok(Some(Piece::Begin { stream: head.stream, status: None, last }));
            }
            status_code::STATUS => {
                if head.length as usize != StatusHead::BYTES {
                    let seen = head.length;
                    return Err(WireError::number("the length of a status frame", seen, "24"));
                }
                self.state = State::Status(head);
            }
            status_code::ATTN if !late => {
                let prefix = u32::try_from(Attention::ANSWER_PREFIX_BYTES).unwrap_or(u32::MAX);
                self.state = match head.length.checked_sub(prefix) {
                    Some(left) => State::Attention { left },
                    None => State::Skip { left: head.length },
                };
            }
            status_code::AUTHMORE
            | status_code::ERROR
            | status_code::REDIRECT
            | status_code::WAIT
            | status_code::WAITRESP => {
                bounded("a response without data, in bytes", head.length)?;
                self.state = State::Control(head);
            }
            other => {
                return Err(WireError::number(
                    "the status of a response",
                    other,
                    "0 or 4000 to 4007",
                ));
            }
        }
        Ok(None)
    }

    /// Handles the first bytes of an unsolicited message.
    fn attention(&mut self, prefix: &Bytes, left: u32) -> Result<Option<Piece>, WireError> {
        let Some(prefix) = prefix.first_chunk() else { return Ok(None) };
        match Attention::decode(prefix)? {
            Attention::Answer(head) => {
                if head.length != left {
                    let seen = head.length;
                    return Err(WireError::number(
                        "the length of a late response",
                        seen,
                        "that of its frame",
                    ));
                }
                self.begin(head, true)
            }
            Attention::Message => {
                bounded("a message of the server in bytes", left)?;
                self.state = State::Message { length: left };
                Ok(None)
            }
            Attention::Other(_) => {
                self.state = State::Skip { left };
                Ok(None)
            }
        }
    }
}

fn bounded(what: &'static str, seen: u32) -> Result<(), WireError> {
    if seen > MAX_CONTROL_BYTES {
        return Err(WireError::TooLarge {
            what,
            seen: seen.into(),
            limit: MAX_CONTROL_BYTES.into(),
        });
    }
    Ok(())
}

fn head(bytes: &[u8]) -> Result<ResponseHead, WireError> {
    let short =
        || WireError::Short { what: "the head of a response", seen: bytes.len(), expected: 8 };
    ResponseHead::decode(bytes.first_chunk().ok_or_else(short)?)
}

fn length(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Takes at most `most` bytes off the front.
fn take(bytes: &mut Bytes, most: u32) -> Bytes {
    let count = bytes.remaining().min(most as usize);
    bytes.split_to(count)
}
