//! The server's end of a connection, as a machine that is fed bytes and gives bytes.
//!
//! [`Connection`] answers the handshake, takes requests apart, and keeps the order that a login has; its owner answers
//! requests, in any order and in any form that the protocol has: whole or in parts, later than promised, with a
//! redirect, a wait or a refusal ([`Response`]). It knows no files.
//!
//! ```
//! use bytes::Bytes;
//! use hither_xrd::client::{Pipelining, Session, SessionConfig};
//! use hither_xrd::server::{Response, Connection, IncomingRequest};
//! use hither_xrd::wire::{LoginResponse, WriteQueue, ProtocolResponse, Request, SessionId};
//!
//! let mut setup = SessionConfig::new("ann");
//! setup.pace = Pipelining::Login;
//! let mut session = Session::new(setup);
//! let mut server = Connection::default();
//! let mut bytes = session.outgoing().take_all();
//! while let Some(incoming) = server.receive(&mut bytes)? {
//!     let IncomingRequest::Request { stream, request } = incoming else { unreachable!("all of it is well-formed") };
//!     match request {
//!         Request::Protocol(_) => {
//!             server.answer_protocol(stream, &ProtocolResponse { version: 0x520, flags: 1, signing: None });
//!         }
//!         Request::Login(_) => {
//!             let answer = LoginResponse { session: SessionId([1; 16]), methods: Vec::new() };
//!             server.answer_login(stream, &answer);
//!         }
//!         _ => server.answer(stream, &Response::nothing()),
//!     }
//! }
//! let mut bytes = server.outgoing().take_all();
//! assert!(session.receive(&mut bytes).unwrap().is_some());
//! assert!(session.is_ready());
//! # Ok::<(), hither_xrd::wire::WireError>(())
//! ```
//!
//! **Memory**: one request at a time is gathered, up to [`Connection::max_payload_bytes`], and no more than has arrived.

mod connection;
mod response;

pub use connection::{Connection, IncomingRequest};
pub use response::Response;
