//! Files behind XRootD servers (`root://`, `roots://`).
//!
//! ```text
//!  XrootdSource   one file: its target after redirects, and the reaction to a server that fails
//!      │
//!  SessionPool    the sessions with one server, shared by its files: which request goes to which
//!      │
//!  Driver         a task per connection: bytes in and out, timeouts, responses to jobs
//!      │
//!  hither_xrd::client::Session     the protocol (sans-I/O)
//! ```

mod checksum;
mod command_channel;
mod driver;
mod entry_sender;
mod errors;
mod job;
mod path_ops;
mod redirect_cache;
mod request;
mod session_pool;
mod shared_file;
mod source;
mod staging;
mod storage;
mod target;

pub(crate) use checksum::XrootdDigest;
pub use path_ops::{ExtendedAttribute, PrepareAction, ReplicaServer, XrootdPath};
pub(crate) use session_pool::SessionPool;
pub use source::XrootdSource;
pub use storage::XrootdStorage;
