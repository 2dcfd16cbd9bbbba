//! The Python module `hither._core`: conversions between Python and the library, no logic.
//!
//! What waits is a `Job`: made by a call that returns at once, waited for by its `wait` (with the GIL released) or by
//! `await`. What people see is the package in `python/hither`, which gives every job its two spellings.

mod buffer;
mod client;
mod column;
mod command;
mod entry;
mod error;
mod file;
mod fork;
mod job;
mod options;
mod shutdown;
mod tree;

/// The module.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::column::{Column, Strings};
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::entry::Entry;
    #[pymodule_export]
    use crate::file::{File, FileStat, Hint};
    #[pymodule_export]
    use crate::job::Job;
    #[pymodule_export]
    use crate::shutdown::shutdown;
    #[pymodule_export]
    use crate::tree::{ArraysIterator, ScanProgress, Tree};
}
