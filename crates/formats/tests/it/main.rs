//! Tests of files from a minimal writer, and of corrupt ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests say where they fail by panicking, and what they skip"
)]

mod any_bytes;
mod columns;
mod hostile;
mod opening;
mod real_files;
mod seeds;
mod shapes;

use hither_formats::{DecodeResult, FormatError};

/// The result of a reader that has all bytes.
fn done<T>(step: Result<DecodeResult<T>, FormatError>) -> T {
    match step.unwrap() {
        DecodeResult::Data(value) => value,
        DecodeResult::NeedsData(need) => panic!("all bytes are there, and it still needs {need:?}"),
    }
}
