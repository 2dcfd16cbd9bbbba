//! Entries of directories as objects.

use hither::{Error, ErrorKind, FileKind, StoragePath};
use pyo3::prelude::*;
use std::time::{Duration, UNIX_EPOCH};

/// Name, kind, size and version of a file or directory.
///
/// Examples
/// --------
/// >>> entry = hither.default_client().stat(hither.__file__)
/// >>> assert (entry.name, entry.kind) == ("__init__.py", "file")
#[pyclass(frozen, get_all, eq, hash, module = "hither._core", skip_from_py_object)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// URL or local path, without secrets.
    url: String,
    /// Last part of the path.
    name: String,
    /// ``"file"``, ``"directory"``, ``"link"`` or ``"other"``.
    kind: &'static str,
    /// Size in bytes; 0 for anything but a file, None if the server does not tell it.
    size: Option<u64>,
    /// Time of the last change, in seconds since 1970 UTC.
    modified: Option<f64>,
    /// Version of the file: an entity tag, or another such text.
    validator: Option<String>,
}

impl std::hash::Hash for Entry {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.url, self.kind, self.size, &self.validator).hash(state);
    }
}

impl Entry {
    /// Creates the entry of a path in the storage of `at`.
    pub(crate) fn new(at: &StoragePath, entry: &hither::DirEntry) -> Self {
        let kind = match entry.kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Link => "link",
            FileKind::Other | FileKind::Unnamed => "other",
        };
        let modified = entry.modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Self {
            url: at.display_url(&entry.path),
            name: entry.path.rsplit('/').next().unwrap_or_default().to_owned(),
            kind,
            size: entry.size,
            modified: modified.map(|since| since.as_secs_f64()),
            validator: entry.validator.clone(),
        }
    }

    /// The version that the entry describes: the one that a write may replace.
    pub(crate) fn version(&self) -> Result<hither::DirEntry, Error> {
        if self.kind != "file" {
            let what = format!("{} is not a file, whose version can be replaced", self.url);
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let since = self.modified.and_then(|since| Duration::try_from_secs_f64(since).ok());
        Ok(hither::DirEntry {
            path: self.name.clone(),
            kind: FileKind::File,
            size: self.size,
            modified: since.and_then(|since| UNIX_EPOCH.checked_add(since)),
            validator: self.validator.clone(),
        })
    }

    /// The entry as a Python object.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, self)?.into_any())
    }
}

#[pymethods]
impl Entry {
    fn __repr__(&self) -> String {
        let size = self.size.map_or_else(|| "None".to_owned(), |size| size.to_string());
        format!("Entry(url={:?}, kind={:?}, size={size})", self.url, self.kind)
    }
}
