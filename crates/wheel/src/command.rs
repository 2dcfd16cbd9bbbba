//! The `hither` command.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command with these arguments, the first being its name; returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| hither_cli::run(arguments))
}
