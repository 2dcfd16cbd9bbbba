//! What is known of names.

use hither::{FileKind, StoragePath};
use pyo3::prelude::*;
use std::time::UNIX_EPOCH;

/// One name and what is known about it.
#[pyclass(frozen, get_all, eq, hash, module = "hither._core", skip_from_py_object)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// URL or path, without secrets.
    url: String,
    /// Its last part.
    name: String,
    /// "file", "directory", "link" or "other".
    kind: &'static str,
    /// Bytes.
    size: u64,
    /// Seconds since 1970.
    modified: Option<f64>,
    /// What tells its version.
    validator: Option<String>,
}

impl std::hash::Hash for Entry {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.url, self.kind, self.size, &self.validator).hash(state);
    }
}

impl Entry {
    /// As an object.
    pub(crate) fn give(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, self)?.into_any())
    }
}

#[pymethods]
impl Entry {
    fn __repr__(&self) -> String {
        format!("Entry(url={:?}, kind={:?}, size={})", self.url, self.kind, self.size)
    }
}

/// An entry of the storage that `named` is in.
pub(crate) fn entry_of(named: &StoragePath, entry: &hither::DirEntry) -> Entry {
    let kind = match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    };
    let modified = entry.modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Entry {
        url: named.display_url(&entry.path),
        name: entry.path.rsplit('/').next().unwrap_or_default().to_owned(),
        kind,
        size: entry.size,
        modified: modified.map(|since| since.as_secs_f64()),
        validator: entry.validator.clone(),
    }
}
