//! `hither-proxy` over real sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod proxy;
