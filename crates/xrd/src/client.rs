//! The client's end of a connection, as a sans-I/O state machine.
//!
//! The session has no socket and no clock. A driver connects, writes the bytes of
//! [`Session::outgoing`], passes the bytes that it reads to [`Session::receive`], and acts on the
//! events. Requests can be made at any time, even before the first byte was read; the session sends
//! each as soon as possible.
//!
//! ```
//! # use bytes::{Buf, Bytes};
//! use hither_xrd::client::{Completion, Session, SessionConfig, SessionError, SessionEvent};
//! use hither_xrd::wire::OpenRequest;
//! # trait Connection { fn write(&mut self, bytes: &[u8]) -> usize; fn read(&mut self) -> Bytes; }
//!
//! fn first_bytes(
//!     connection: &mut impl Connection,
//!     config: SessionConfig,
//! ) -> Result<Vec<u8>, SessionError> {
//!     let mut session = Session::new(config);
//!     let (file, _open) = session.open(OpenRequest::for_reading("/data/f.root"));
//!     let head = session.read(file, 0..512);
//!     let mut found = Vec::new();
//!     loop {
//!         while session.outgoing().has_remaining() {
//!             let written = connection.write(session.outgoing().chunk());
//!             session.outgoing().advance(written);
//!         }
//!         let mut input = connection.read();
//!         if input.is_empty() {
//!             return Err(session.ended());
//!         }
//!         while let Some(event) = session.receive(&mut input)? {
//!             match event {
//!                 SessionEvent::Data { request_id, bytes, .. } if request_id == head => {
//!                     found.extend_from_slice(&bytes);
//!                 }
//!                 SessionEvent::Done { request_id, completion: Completion::Read { .. } }
//!                     if request_id == head =>
//!                 {
//!                     return Ok(found);
//!                 }
//!                 // A redirect continues in a new session, a wait with `resume`.
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! **Round trips.** With [`Pipelining::Full`] everything that is requested before the first write
//! is sent directly after the TCP handshake: handshake, protocol, login, authentication, open, and
//! reads on the predicted handle of the file. So the first byte of data arrives after two round
//! trips, or three with TLS. This requires a [`ServerProfile`] learned in an earlier session;
//! without one, [`Pipelining::Login`] costs one more round trip. `session/open_files.rs` describes
//! how the session detects and corrects a wrong handle; the driver does not notice it.
//! `session/login.rs` describes how it detects a wrong authentication, which is
//! [`SessionError::Mispredicted`]: connect again, with [`Pipelining::Steps`] and the profile that
//! was learned.
//!
//! **Data** is delivered as it arrives, as slices of the input, in the server's order, and each
//! byte once. The ranges of a vector read are distributed over requests within the server's limits,
//! all of them sent at once; ranges that did not arrive are reported at the end.
//! [`Session::read_pages`] delivers only pages whose checksums match.
//!
//! **Memory** is bounded by the requests in flight and by the size of the input pieces: short
//! responses are buffered up to 2 MiB each, control messages up to 64 KiB.
//!
//! **Errors** are of two kinds: [`SessionEvent::Failed`] ends one request and the session
//! continues; a [`SessionError`] ends the session with everything in flight. [`Session::missing`]
//! returns the ranges of a read that still have to be fetched.

mod credential;
mod event;
mod frame_reader;
mod session;
mod session_config;
mod stream_ids;
mod subrequest;

pub use credential::Credential;
pub use event::{Completion, File, RequestError, RequestId, SessionError, SessionEvent};
pub use session::Session;
pub use session_config::{HandleNumbering, Pipelining, ServerProfile, SessionConfig, TlsMode};
