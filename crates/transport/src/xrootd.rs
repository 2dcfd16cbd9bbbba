//! Files behind XRootD servers (`root://`, `roots://`).
//!
//! ```text
//!  XrootdSource   one file: where it is by the last redirect, what to do about a server that fails
//!      │
//!  Sessions       the connections to one server, shared by its files: who gets which, when there is one more
//!      │
//!  Driver         a task for each connection: bytes in and out, clocks, which answer belongs to whom
//!      │
//!  hither_xrd::client::Session     the protocol                                                          (pure)
//! ```

mod driver;
mod errors;
mod job;
mod path_ops;
mod redirect_cache;
mod request;
mod session_pool;
mod shared_file;
mod source;
mod storage;
mod target;

pub use path_ops::{ExtendedAttribute, PrepareAction, ReplicaServer, XrootdPath};
pub(crate) use session_pool::SessionPool;
pub use source::XrootdSource;
pub(crate) use storage::XrootdDigest;
pub use storage::XrootdStorage;
