//! Tests of the library with programs in C, C++ and Python.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod header;
mod installed;
mod programs;
