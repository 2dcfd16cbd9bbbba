//! The client's end of a connection, as a machine that is fed bytes and gives bytes.
//!
//! It has no socket and no clock: a driver connects, writes what [`Session::outgoing`] holds, hands what it reads to
//! [`Session::receive`], and acts on the events. Requests are made at any time, also before the first byte was read;
//! the session sends each as soon as that is right.
//!
//! ```
//! # use bytes::{Buf, Bytes};
//! # use hither_xrd::client::{SessionEvent, Failure, Completion, Session, SessionError, SessionConfig};
//! # use hither_xrd::wire::OpenRequest;
//! # trait Connection { fn write(&mut self, bytes: &[u8]) -> usize; fn read(&mut self) -> Bytes; }
//! fn first_bytes(connection: &mut impl Connection, mut setup: SessionConfig) -> Result<Vec<u8>, SessionError> {
//!     setup.pace = setup.profile.pace();
//!     let mut session = Session::new(setup);
//!     let (file, open) = session.open(OpenRequest::for_reading("/data/f.root"));
//!     let head = session.read(file, 0..512);
//!     let mut found = Vec::new();
//!     loop {
//!         while session.outgoing().has_remaining() {
//!             let written = connection.write(session.outgoing().chunk());
//!             session.outgoing().advance(written);
//!         }
//!         let mut bytes = connection.read();
//!         if bytes.is_empty() {
//!             return Err(session.ended());
//!         }
//!         while let Some(event) = session.receive(&mut bytes)? {
//!             match event {
//!                 SessionEvent::Data { ticket, offset: _, bytes } if ticket == head => found.extend_from_slice(&bytes),
//!                 SessionEvent::Done { ticket, reply: Completion::Read { .. } } if ticket == head => return Ok(found),
//!                 // SessionEvent::Redirect: elsewhere, with a new session. SessionEvent::Wait: later, with resume().
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! **Round trips.** With [`Pipelining::Flight`] all that is submitted before the first write goes out in one flight behind the
//! TCP handshake: handshake, protocol, login, authentication, open, and reads on the handle that the file will
//! get. So the first byte of data comes after two round trips, or three with TLS. It takes a [`ServerProfile`] that was learned
//! in an earlier session; without one, [`Pipelining::Login`] costs one more. How wrong guesses are found out and mended
//! is told in `session/files.rs` and `session/login.rs`; the driver sees nothing of the former, and of the latter
//! [`SessionError::Mispredicted`]: it connects again, with [`Pipelining::Steps`] and the profile that was learned.
//!
//! **Data** is delivered as it arrives, as slices of what was read, in whatever order the server sends it, and each byte
//! once. A vector's ranges are dealt out to requests within the server's limits, all of them sent at once; what did not
//! come is named at the end. With [`Session::read_pages`] only pages whose checksums are right are delivered.
//!
//! **Memory** is bounded by what was submitted and by the pieces that are handed in: answers that are short by nature are
//! gathered up to 2 MiB each, control messages up to 64 KiB.
//!
//! **Failures** are of two kinds: [`SessionEvent::Failed`] ends one ticket and the session goes on; a [`SessionError`] ends the
//! session, and with it everything under way. [`Session::missing`] tells what of a read has still to be fetched.

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
