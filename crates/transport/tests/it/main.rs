//! Sources and storages with misbehaving servers, and with real ones.
//!
//! For every fault, either the exact bytes arrive, with a bounded number of requests, or the
//! correct kind of error is returned; and no operation hangs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod apis;
mod changes;
mod connect;
mod fixture;
mod http;
mod local;
mod real_server;
#[cfg(feature = "s3")]
mod s3;
mod webdav;
mod xrootd;
