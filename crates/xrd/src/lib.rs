//! The XRootD protocol (`root://`, `roots://`): messages, and both ends of a connection as state machines. Sans-I/O.
//!
//! - [`wire`]: every message as bytes and as what it means, both ways;
//! - [`client`]: a session, from the handshake to the last answer: what is sent when, and what came of it.
//! - [`server`]: the other end: requests as they arrive, and every form of an answer.
//!
//! Neither has a socket, a clock or a runtime; who drives them does. Start with [`client`].

pub mod client;
pub mod server;
pub mod wire;
