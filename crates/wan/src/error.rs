//! Errors of the emulator.

use hither_core::{Error, ErrorKind};

/// An error of this machine: a tool, a device or a file that the emulator needs.
pub(crate) fn local(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Local, message)
}
