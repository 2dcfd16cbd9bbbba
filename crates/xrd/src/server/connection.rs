//! Incoming requests and outgoing responses of one connection.

use crate::server::Response;
use crate::wire::{
    Attention, ErrorCode, HANDSHAKE, HandshakeResponse, LoginResponse, PROTOCOL_VERSION,
    ProtocolResponse, REQUEST_HEAD_BYTES, RESPONSE_HEAD_BYTES, Request, RequestHead, ResponseHead,
    StreamId, WireError, WriteQueue, request_code, server,
};
use bytes::{Bytes, BytesMut};

/// An event of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncomingRequest {
    /// A request, to be answered immediately or later.
    Request {
        /// The stream id for its responses.
        stream: StreamId,
        /// The request.
        request: Request,
    },
    /// A malformed request. It has been answered with an error already.
    Malformed {
        /// Its stream id.
        stream: StreamId,
        /// Its request code.
        code: u16,
        /// The defect.
        error: WireError,
    },
    /// A request before the login is complete. It has been answered with an error already; real
    /// servers close the connection then.
    TooEarly {
        /// Its stream id.
        stream: StreamId,
        /// Its request code.
        code: u16,
    },
}

#[derive(Debug, Clone, Copy)]
enum State {
    Handshake,
    Head,
    Payload(RequestHead),
}

/// State of the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginState {
    Nothing,
    /// The login succeeded, and authentication is required.
    LoggedIn,
    Admitted,
}

/// The server's end of one connection. See the [module](crate::server).
#[derive(Debug)]
pub struct Connection {
    state: State,
    /// Bytes of an incomplete message. Invariant: only bytes that have arrived, and at most
    /// `max_payload_bytes`.
    gathered: BytesMut,
    admission: LoginState,
    at_tls: bool,
    out: WriteQueue,
    /// The response to the handshake.
    pub greeting: HandshakeResponse,
    /// Maximum payload of a request, usually the data of a write. A longer one ends the connection.
    pub max_payload_bytes: u32,
}

impl Default for Connection {
    /// Creates the connection of a data server, which accepts writes of up to 32 MiB.
    fn default() -> Self {
        Self {
            state: State::Handshake,
            gathered: BytesMut::new(),
            admission: LoginState::Nothing,
            at_tls: false,
            out: WriteQueue::default(),
            greeting: HandshakeResponse { version: PROTOCOL_VERSION, data_server: true },
            max_payload_bytes: 32 * 1024 * 1024,
        }
    }
}

impl Connection {
    /// The bytes waiting to be written.
    pub fn outgoing(&mut self) -> &mut WriteQueue {
        &mut self.out
    }

    /// Takes the next request off the front of `bytes`. Returns `None` when they are used up, or
    /// when TLS has to be set up first ([`awaits_tls`](Self::awaits_tls)): then the remaining bytes
    /// are the first ones of TLS.
    ///
    /// # Errors
    /// The bytes do not follow the protocol, or a request is too large: close the connection.
    pub fn receive(&mut self, bytes: &mut Bytes) -> Result<Option<IncomingRequest>, WireError> {
        while !self.at_tls {
            let wanted = match self.state {
                State::Handshake => HANDSHAKE.len(),
                State::Head => REQUEST_HEAD_BYTES,
                State::Payload(head) => head.length as usize,
            };
            let Some(whole) = self.gather(bytes, wanted) else { return Ok(None) };
            match self.state {
                State::Handshake => {
                    if whole[..] != HANDSHAKE {
                        return Err(WireError::text("a handshake", &whole, "that of XRootD"));
                    }
                    self.out.put(&self.greeting.encode());
                    self.state = State::Head;
                }
                State::Head => {
                    let head = whole.first_chunk().map(RequestHead::decode).transpose()?;
                    let Some(head) = head else { return Ok(None) };
                    if head.length > self.max_payload_bytes {
                        return Err(WireError::TooLarge {
                            what: "the payload of a request in bytes",
                            seen: head.length.into(),
                            limit: self.max_payload_bytes.into(),
                        });
                    }
                    self.state = State::Payload(head);
                }
                State::Payload(head) => {
                    self.state = State::Head;
                    return Ok(Some(self.request(&head, &whole)));
                }
            }
        }
        Ok(None)
    }

    /// Takes this many bytes from earlier pieces and this one, without a copy if they arrived in
    /// one piece.
    fn gather(&mut self, bytes: &mut Bytes, wanted: usize) -> Option<Bytes> {
        if self.gathered.is_empty() && bytes.len() >= wanted {
            return Some(bytes.split_to(wanted));
        }
        let missing = wanted.saturating_sub(self.gathered.len()).min(bytes.len());
        self.gathered.extend_from_slice(&bytes.split_to(missing));
        (self.gathered.len() == wanted).then(|| self.gathered.split().freeze())
    }

    fn request(&mut self, head: &RequestHead, payload: &Bytes) -> IncomingRequest {
        let RequestHead { stream, code, .. } = *head;
        let admitted = match self.admission {
            LoginState::Admitted => true,
            LoginState::LoggedIn => code == request_code::AUTH,
            LoginState::Nothing => {
                matches!(code, request_code::PROTOCOL | request_code::LOGIN | request_code::BIND)
            }
        };
        if !admitted {
            self.answer(
                stream,
                &Response::error(ErrorCode::INVALID_REQUEST, "not before the login"),
            );
            return IncomingRequest::TooEarly { stream, code };
        }
        match Request::decode(head, payload) {
            Ok(request) => IncomingRequest::Request { stream, request },
            Err(error) => {
                self.answer(stream, &Response::error(ErrorCode::ARG_INVALID, error.to_string()));
                IncomingRequest::Malformed { stream, code, error }
            }
        }
    }

    /// Answers a protocol request. If the response tells the client to change to TLS, nothing more
    /// is accepted before that.
    pub fn answer_protocol(&mut self, stream: StreamId, answer: &ProtocolResponse) {
        let mut out = BytesMut::new();
        answer.encode(&mut out);
        self.answer(stream, &Response::Ok(out.freeze()));
        self.at_tls = answer.flags & server::GOTO_TLS != 0;
    }

    /// Answers a login. If the response offers methods, authentication with one of them has to
    /// succeed first.
    pub fn answer_login(&mut self, stream: StreamId, answer: &LoginResponse) {
        let mut out = BytesMut::new();
        answer.encode(&mut out);
        self.answer(stream, &Response::Ok(out.freeze()));
        let free = answer.methods.is_empty();
        self.admission = if free { LoginState::Admitted } else { LoginState::LoggedIn };
    }

    /// Accepts the authentication.
    pub fn answer_auth(&mut self, stream: StreamId) {
        self.admission = LoginState::Admitted;
        self.answer(stream, &Response::nothing());
    }

    /// Returns true if TLS has to be set up before anything else is accepted.
    #[must_use]
    pub fn awaits_tls(&self) -> bool {
        self.at_tls
    }

    /// Continues within TLS: it is set up, and bytes go through it in both directions.
    pub fn tls_started(&mut self) {
        self.at_tls = false;
    }

    /// Sends a response, or the next part of one.
    pub fn answer(&mut self, stream: StreamId, answer: &Response) {
        if let Response::Status(status, data) = answer {
            self.out.put(&status.encode(stream));
            self.out.put_bytes(data.clone());
            return;
        }
        let (status, payload) = answer.parts();
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.out.put(&ResponseHead { stream, status, length }.encode());
        self.out.put_bytes(payload);
    }

    /// Sends the response to a request that was answered with [`Response::Later`]. The late form
    /// cannot carry a response with checksums, which is sent in the usual form.
    pub fn answer_late(&mut self, stream: StreamId, answer: &Response) {
        if matches!(answer, Response::Status(..)) {
            self.answer(stream, answer);
            return;
        }
        let (status, payload) = answer.parts();
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let inner = ResponseHead { stream, status, length };
        let outer_length =
            u32::try_from(RESPONSE_HEAD_BYTES * 2).unwrap_or(16).saturating_add(length);
        let outer = ResponseHead {
            stream: StreamId(0),
            status: crate::wire::status_code::ATTN,
            length: outer_length,
        };
        self.out.put(&outer.encode());
        self.out.put(&Attention::answer_prefix(&inner));
        self.out.put_bytes(payload);
    }
}
