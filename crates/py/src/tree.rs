//! Trees, and what is read of them.

use crate::client::Client;
use crate::column::Column;
use crate::error::closed;
use crate::fork::{ClientHandle, PerProcess, ReopenedAfterFork};
use crate::job::Job;
use futures_util::lock::Mutex as AsyncMutex;
use hither::{ArraysRequest, RemoteTree, Report};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};

/// A tree of a file. It is opened in each process that uses it.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Tree {
    client: Py<Client>,
    #[pyo3(get)]
    url: String,
    #[pyo3(get)]
    path: Option<String>,
    opened: ReopenedAfterFork<RemoteTree>,
}

/// Name, type, why it cannot be read, number of baskets, bytes as stored, bytes unpacked.
type Branch = (String, String, Option<String>, usize, u64, u64);

impl Tree {
    pub(crate) fn new(client: Py<Client>, url: String, path: Option<String>) -> Self {
        Self { client, url, path, opened: ReopenedAfterFork::default() }
    }

    /// The tree as it is open in this process.
    fn opened(&self, py: Python<'_>) -> PyResult<(Arc<ClientHandle>, RemoteTree)> {
        let open = |client: &hither::Client| client.open_tree(&self.url, self.path.as_deref());
        self.opened.get_or(py, &self.client, open)
    }
}

#[pymethods]
impl Tree {
    /// Begins to open it.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.opened(py).map(drop)
    }

    /// Path, title, number of entries, branches.
    fn listing(&self, py: Python<'_>) -> PyResult<Job> {
        let (held, tree) = self.opened(py)?;
        let list = async move { tree.listing_async().await };
        Ok(Job::new(&held, list, |tree, py| {
            let branches: Vec<Branch> = tree
                .branches
                .into_iter()
                .map(|it| {
                    let sizes = (it.compressed_bytes, it.uncompressed_bytes);
                    (it.name, it.type_name, it.unsupported, it.baskets, sizes.0, sizes.1)
                })
                .collect();
            let told = (tree.path, tree.title, tree.entries, branches);
            Ok(told.into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Columns, and the report as JSON.
    fn arrays(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        cut: Option<String>,
        entries: (u64, u64),
        progress: &ScanProgress,
    ) -> PyResult<Job> {
        let (held, tree) = self.opened(py)?;
        let request = request(columns, cut, entries);
        let progress = Arc::clone(&progress.0);
        let read = async move { tree.arrays(&request, &progress).await };
        Ok(Job::new(&held, read, |arrays, py| {
            let told = (Column::list(arrays.columns, py)?, as_json(&arrays.report)?);
            Ok(told.into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// How many entries of `columns` take so many bytes.
    fn entries_in(&self, py: Python<'_>, columns: Vec<String>, size: u64) -> PyResult<Job> {
        let (held, tree) = self.opened(py)?;
        let request = ArraysRequest::new(columns);
        let count = async move { tree.num_entries_for(&request, size).await };
        Ok(Job::new(&held, count, |count, py| Ok(count.into_pyobject(py)?.into_any().unbind())))
    }

    /// Where partitions of about so many entries begin, and the number of entries.
    fn partitions(&self, py: Python<'_>, entries: NonZeroU64) -> PyResult<Job> {
        let (held, tree) = self.opened(py)?;
        let list = async move { tree.partitions(entries).await };
        Ok(Job::new(&held, list, |starts, py| Ok(starts.into_pyobject(py)?.unbind())))
    }

    /// Columns in steps of so many entries.
    fn steps(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        cut: Option<String>,
        entries: (u64, u64),
        step: NonZeroU64,
        progress: &ScanProgress,
    ) -> PyResult<ArraysIterator> {
        let (held, tree) = self.opened(py)?;
        let _entered = held.client().runtime().enter();
        let progress = Arc::clone(&progress.0);
        let steps = tree.iterate(request(columns, cut, entries), step, progress);
        let steps =
            Mutex::new(PerProcess::new((Arc::clone(&held), Arc::new(AsyncMutex::new(steps)))));
        Ok(ArraysIterator { steps })
    }

    /// Lets go of it.
    fn close(&self) {
        self.opened.close();
    }
}

/// How far a read has come.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct ScanProgress(Arc<hither::ScanProgress>);

#[pymethods]
impl ScanProgress {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Bytes that have arrived, and that will have in the end, as far as that is known.
    fn bytes(&self) -> (u64, u64) {
        self.0.bytes()
    }
}

/// Steps that are being read.
type Reading = (Arc<ClientHandle>, Arc<AsyncMutex<hither::ArraysIterator>>);

/// Columns that come in steps.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct ArraysIterator {
    steps: Mutex<PerProcess<Reading>>,
}

#[pymethods]
impl ArraysIterator {
    /// The next step as first entry, entry after the last, columns; None after the last step.
    fn next(&self) -> PyResult<Job> {
        let reading = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, steps) =
            reading.get().cloned().ok_or_else(|| closed("an iteration of another process"))?;
        let next = async move { steps.lock().await.next().await.transpose() };
        Ok(Job::new(&held, next, |step, py| match step {
            None => Ok(py.None()),
            Some(step) => {
                let columns = Column::list(step.columns, py)?;
                let told = (step.entries.start, step.entries.end, columns);
                Ok(told.into_pyobject(py)?.into_any().unbind())
            }
        }))
    }

    /// Gives up what is being read.
    fn close(&self) {
        drop(self.steps.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The paths of the trees of a file.
pub(crate) fn tree_paths(held: &Arc<ClientHandle>, url: String) -> Job {
    let client = Arc::clone(held);
    let list = async move { client.client().tree_paths(&url).await };
    Job::new(held, list, |paths: Vec<String>, py| Ok(paths.into_pyobject(py)?.unbind()))
}

fn request(columns: Vec<String>, cut: Option<String>, (start, stop): (u64, u64)) -> ArraysRequest {
    let mut request = ArraysRequest::new(columns);
    (request.cut, request.entries) = (cut, start..stop.max(start));
    request
}

/// A report for the package to read.
pub(crate) fn as_json(report: &Report) -> PyResult<String> {
    serde_json::to_string(report).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
