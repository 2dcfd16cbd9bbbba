//! The emulator in real network namespaces, where they are allowed.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says when it is skipped"
)]

mod emulator;
