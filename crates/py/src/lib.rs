//! The Python module `hither._core`: conversions between Python and the library, no logic.
//!
//! A call that waits is a `Job`: made at once, then waited for with `wait`, which releases the GIL,
//! or with `await`. Users see the package in `python/hither`, with a function for each of the two.
//!
//! # Where to start reading
//!
//! - how Python waits: `src/job.rs`, `src/fork.rs`, then `python/hither/_file.py`.

mod buffer;
mod client;
mod column;
mod command;
mod copy;
mod entry;
mod error;
mod file;
mod fork;
mod job;
mod options;
mod shutdown;
mod staging;
mod tree;

/// The module.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::column::{Column, Strings};
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::copy::CopyProgress;
    #[pymodule_export]
    use crate::entry::Entry;
    #[pymodule_export]
    use crate::error::redact_url;
    #[pymodule_export]
    use crate::error::suggestion;
    #[pymodule_export]
    use crate::file::{File, FileStat, Hint};
    #[pymodule_export]
    use crate::job::Job;
    #[pymodule_export]
    use crate::shutdown::shutdown;
    #[pymodule_export]
    use crate::staging::Staging;
    #[pymodule_export]
    use crate::tree::{ArraysIterator, ScanProgress, Tree};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
