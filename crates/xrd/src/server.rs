//! The server's end of a connection, as a sans-I/O state machine.
//!
//! [`Connection`] answers the handshake, decodes requests, and enforces the order of a login. Its
//! owner answers requests, in any order and in any form of the protocol: whole or in parts, later
//! than announced, with a redirect, a wait or an error ([`Response`]). It has no access to files.
//!
//! ```
//! use hither_xrd::server::{Connection, IncomingRequest};
//! use hither_xrd::wire::{ErrorCode, HANDSHAKE};
//! # use hither_xrd::server::Response;
//!
//! fn serve(connection: &mut Connection, mut input: bytes::Bytes) -> bytes::Bytes {
//!     while let Ok(Some(incoming)) = connection.receive(&mut input) {
//!         if let IncomingRequest::Request { stream, request } = incoming {
//!             let message = format!("{} is not implemented", request.name());
//!             connection.answer(stream, &Response::error(ErrorCode::UNSUPPORTED, message));
//!         }
//!     }
//!     connection.outgoing().take_all()
//! }
//!
//! let mut connection = Connection::default();
//! assert_eq!(serve(&mut connection, HANDSHAKE.to_vec().into()).len(), 16);
//! ```
//!
//! **Memory**: one request at a time is buffered, up to [`Connection::max_payload_bytes`], and only
//! the bytes that have arrived.

mod connection;
mod response;

pub use connection::{Connection, IncomingRequest};
pub use response::Response;
