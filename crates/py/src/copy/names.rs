//! Rules about names that a copy by a cluster shares with every other copy.

use crate::client::Client;
use crate::fork::ClientHandle;
use crate::job::Job;
use hither::ErrorKind;
use hither_transfer::{coarse, is_plain};
use pyo3::prelude::*;
use std::sync::Arc;

/// A text that is equal for all names that collide at some destination.
#[pyfunction]
pub(crate) fn coarse_name(name: &str) -> String {
    coarse(name)
}

/// True for a name that every destination lists as it was written, but for its case.
#[pyfunction]
pub(crate) fn is_plain_name(name: &str) -> bool {
    is_plain(name)
}

/// The characters in which two names differ, and true if their last ones do.
#[pyfunction]
pub(crate) fn name_difference(name: &str, other: &str) -> (String, String, bool) {
    hither_transfer::name_difference(name, other)
}

/// True if an existing directory takes two names for one.
#[pyfunction]
pub(crate) fn is_one_name(
    client: &Client,
    directory: String,
    name: String,
    other: String,
) -> PyResult<Job> {
    let ask = |it: Arc<ClientHandle>| async move {
        let directory = it.client().storage_path(&directory)?.into_copy_path();
        hither_transfer::is_one_name(&directory, &name, &other).await
    };
    client.job(ask, |is_one, py| Ok(is_one.into_pyobject(py)?.to_owned().into_any().unbind()))
}

/// Those of some names that a directory of a server does not list in any spelling, each with the
/// reason, and true if the server has it nevertheless.
#[pyfunction]
pub(crate) fn unlisted_names(
    client: &Client,
    directory: String,
    names: Vec<String>,
) -> PyResult<Job> {
    let look = |it: Arc<ClientHandle>| async move {
        let directory = it.client().storage_path(&directory)?.into_copy_path();
        Ok(hither_transfer::unlisted_names(&directory, names).await)
    };
    client.job(look, |unlisted, py| {
        let shown = unlisted
            .into_iter()
            .map(|(name, error)| (name, error.to_string(), error.kind() == ErrorKind::Invalid));
        Ok(shown.collect::<Vec<_>>().into_pyobject(py)?.into_any().unbind())
    })
}
