//! The items of the module.

use crate::buffer::Buffer;
use crate::client::Client;
use crate::column::{Column, Strings};
use crate::copy::CopyProgress;
use crate::copy::names::{
    coarse_name, is_one_name, is_plain_name, name_difference, unlisted_names,
};
use crate::entry::Entry;
use crate::error::{redact_url, suggestion, validators_differ};
use crate::file::{File, FileStat, Hint};
use crate::job::Job;
use crate::options::client_option_table;
use crate::shutdown::shutdown;
use crate::staging::Staging;
use crate::tree::{ArraysIterator, ScanProgress, Tree, split_tree_url};
use pyo3::prelude::*;

/// Adds the classes, functions and the version to `module`.
///
/// # Errors
///
/// An exception of the interpreter.
pub fn add_items(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArraysIterator>()?;
    module.add_class::<Buffer>()?;
    module.add_class::<Client>()?;
    module.add_class::<Column>()?;
    module.add_class::<CopyProgress>()?;
    module.add_class::<Entry>()?;
    module.add_class::<File>()?;
    module.add_class::<FileStat>()?;
    module.add_class::<Hint>()?;
    module.add_class::<Job>()?;
    module.add_class::<ScanProgress>()?;
    module.add_class::<Staging>()?;
    module.add_class::<Strings>()?;
    module.add_class::<Tree>()?;
    module.add_function(wrap_pyfunction!(client_option_table, module)?)?;
    module.add_function(wrap_pyfunction!(coarse_name, module)?)?;
    module.add_function(wrap_pyfunction!(is_one_name, module)?)?;
    module.add_function(wrap_pyfunction!(is_plain_name, module)?)?;
    module.add_function(wrap_pyfunction!(name_difference, module)?)?;
    module.add_function(wrap_pyfunction!(redact_url, module)?)?;
    module.add_function(wrap_pyfunction!(shutdown, module)?)?;
    module.add_function(wrap_pyfunction!(split_tree_url, module)?)?;
    module.add_function(wrap_pyfunction!(suggestion, module)?)?;
    module.add_function(wrap_pyfunction!(unlisted_names, module)?)?;
    module.add_function(wrap_pyfunction!(validators_differ, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
