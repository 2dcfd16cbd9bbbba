//! The XRootD protocol (`root://`, `roots://`) for clients and servers, as sans-I/O state machines.
//!
//! - [`client`]: a session of a client, from the handshake to the last response.
//! - [`server`]: the server's end of a connection: requests as they arrive, and every form of
//!   response.
//! - [`wire`]: the messages, encoded and decoded, in both directions.
//!
//! A driver owns the socket, the clock and the runtime. It passes in the bytes that it reads,
//! writes the bytes of the outgoing queue, and acts on events. So both ends can talk in one thread:
//!
//! ```
//! use hither_xrd::client::{Session, SessionConfig, SessionEvent};
//! use hither_xrd::server::{Connection, IncomingRequest, Response};
//! use hither_xrd::wire::{LoginResponse, ProtocolResponse, Request, SessionId};
//!
//! let mut session = Session::new(SessionConfig::new("ann"));
//! let mut server = Connection::default();
//! let event = loop {
//!     let mut to_server = session.outgoing().take_all();
//!     while let Some(incoming) = server.receive(&mut to_server)? {
//!         let IncomingRequest::Request { stream, request } = incoming else { panic!() };
//!         match request {
//!             Request::Protocol(_) => {
//!                 let response = ProtocolResponse { version: 0x520, flags: 1, signing: None };
//!                 server.answer_protocol(stream, &response);
//!             }
//!             Request::Login(_) => {
//!                 let session = SessionId([1; 16]);
//!                 server.answer_login(stream, &LoginResponse { session, methods: Vec::new() });
//!             }
//!             _ => server.answer(stream, &Response::nothing()),
//!         }
//!     }
//!     let mut to_client = server.outgoing().take_all();
//!     if let Some(event) = session.receive(&mut to_client)? {
//!         break event;
//!     }
//! };
//! assert!(matches!(event, SessionEvent::Ready));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Start with [`client`]. [`wire`] describes the layout of messages.
//!
//! # Where to start reading
//!
//! - `root://` as a protocol: `src/client.rs`, `src/client/session.rs`, `src/wire.rs`.

pub mod client;
pub mod server;
pub mod wire;
