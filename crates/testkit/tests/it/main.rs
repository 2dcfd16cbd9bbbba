//! The emulators against real sockets and, where allowed, real network namespaces.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says when it is skipped"
)]

mod proxy;
#[cfg(target_os = "linux")]
mod wan;
