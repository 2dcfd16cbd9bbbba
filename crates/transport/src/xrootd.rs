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

mod directions;
mod driver;
mod errand;
mod inquiry;
mod job;
mod name;
mod place;
mod preface;
mod refusal;
mod sessions;
mod source;
mod storage;

pub use inquiry::{ExtendedAttribute, PrepareAction, ReplicaServer, XrootdPath};
pub(crate) use preface::TlsUpgradeStream;
pub(crate) use sessions::SessionPool;
pub use source::XrootdSource;
pub(crate) use storage::XrootdDigest;
pub use storage::XrootdStorage;
