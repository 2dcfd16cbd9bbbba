//! Sources against servers that misbehave: for every fault either the exact bytes arrive, with a bounded number of
//! requests, or an error of the right kind does, and nothing hangs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod breaks;
mod calls;
mod changes;
mod connecting;
mod credentials;
mod lies;
mod limits;
mod local;
mod local_storage;
mod managers;
mod matrix;
mod multiplexed;
mod multiplexer;
mod random;
mod redirects;
mod refusals;
mod rig;
#[cfg(feature = "s3")]
mod s3;
mod secure;
mod served;
mod stalls;
mod tails;
mod webdav;
mod xrootd;
mod xrootd_faults;
