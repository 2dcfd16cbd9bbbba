//! Trees, and the columns that are read from them.

use crate::client::Client;
use crate::column::Column;
use crate::error::invalid;
use crate::fork::{ClientHandle, ReopenedAfterFork};
use crate::job::Job;
use futures_util::lock::Mutex as AsyncMutex;
use hither::{ArraysRequest, ListKind, PerProcess, RecordType, RemoteTree, TreeUrl};
use hither_core::sync::lock;
use pyo3::prelude::*;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

/// The file and the tree of `URL:TREE`, as the command reads it.
#[pyfunction]
pub(crate) fn split_tree_url(text: &str) -> (String, Option<String>) {
    let TreeUrl { url, tree } = TreeUrl::parse(text);
    (url, tree)
}

/// A tree of a file, opened in each process that uses it.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Tree {
    client: Py<Client>,
    #[pyo3(get)]
    url: String,
    #[pyo3(get)]
    path: Option<String>,
    opened: ReopenedAfterFork<RemoteTree>,
}

/// Name, type, reason why it cannot be read, baskets, compressed bytes, uncompressed bytes, record.
type Branch = (String, String, Option<String>, usize, u64, u64, Option<Py<PyAny>>);

impl Tree {
    pub(crate) fn new(client: Py<Client>, url: String, path: Option<String>) -> Self {
        Self { client, url, path, opened: ReopenedAfterFork::default() }
    }

    /// The tree, opened in this process if it is not yet.
    fn opened(&self, py: Python<'_>) -> PyResult<(Arc<ClientHandle>, RemoteTree)> {
        let open = |client: &hither::Client| client.open_tree(&self.url, self.path.as_deref());
        self.opened.get_or(py, || self.client.get().handle(), open)
    }
}

#[pymethods]
impl Tree {
    /// Starts to open the tree.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.opened(py).map(drop)
    }

    /// Path, title, number of entries, branches.
    fn listing(&self, py: Python<'_>) -> PyResult<Job> {
        let (client, tree) = self.opened(py)?;
        let list = async move { tree.listing_async().await };
        Ok(Job::new(&client, list, |tree, py| {
            let branches: Vec<Branch> = tree
                .branches
                .into_iter()
                .map(|it| {
                    let sizes = (it.compressed_bytes, it.uncompressed_bytes);
                    let record = it.record.map(|record| record_type(&record, py)).transpose()?;
                    let baskets = it.baskets;
                    Ok((it.name, it.type_name, it.unsupported, baskets, sizes.0, sizes.1, record))
                })
                .collect::<PyResult<_>>()?;
            let listing = (tree.path, tree.title, tree.entries, branches);
            Ok(listing.into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Version of the file that the tree was opened in.
    fn validator(&self, py: Python<'_>) -> PyResult<Job> {
        let (client, tree) = self.opened(py)?;
        let find = async move { tree.validator_async().await };
        Ok(Job::new(&client, find, |found, py| Ok(found.into_pyobject(py)?.unbind())))
    }

    /// Columns, the record of each name, and the report of the read, and of the opening if wanted.
    #[pyo3(signature = (columns, cut, entries, progress, *, with_opening = false))]
    fn arrays(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        cut: Option<String>,
        entries: (u64, u64),
        progress: &ScanProgress,
        with_opening: bool,
    ) -> PyResult<Job> {
        let (client, tree) = self.opened(py)?;
        let mut request = request(columns, cut, entries);
        request.with_opening = with_opening;
        let progress = Arc::clone(&progress.0);
        let read = async move { tree.arrays(&request, &progress).await };
        Ok(Job::new(&client, read, |arrays, py| {
            let report = pythonize::pythonize(py, &arrays.report)?;
            let records = record_types(&arrays.records, py)?;
            let result = (Column::list(arrays.columns, py)?, records, report);
            Ok(result.into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// The number of entries whose `columns` take `size` bytes of memory.
    fn num_entries_for(&self, py: Python<'_>, columns: Vec<String>, size: u64) -> PyResult<Job> {
        let (client, tree) = self.opened(py)?;
        let request = ArraysRequest::new(columns);
        let count = async move { tree.num_entries_for(&request, size).await };
        Ok(Job::new(&client, count, |count, py| Ok(count.into_pyobject(py)?.into_any().unbind())))
    }

    /// First entries of partitions of about `entries` entries, and the number of entries.
    fn partitions(&self, py: Python<'_>, entries: NonZeroU64) -> PyResult<Job> {
        let (client, tree) = self.opened(py)?;
        let list = async move { tree.partitions(entries).await };
        Ok(Job::new(&client, list, |starts, py| Ok(starts.into_pyobject(py)?.unbind())))
    }

    /// Columns in steps of `step` entries.
    fn iterate(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        cut: Option<String>,
        entries: (u64, u64),
        step: NonZeroU64,
        progress: &ScanProgress,
    ) -> PyResult<ArraysIterator> {
        let (client, tree) = self.opened(py)?;
        let _entered = client.client().runtime().enter();
        let progress = Arc::clone(&progress.0);
        let steps = tree.iterate(request(columns, cut, entries), step, progress);
        let steps = Arc::new(AsyncMutex::new(steps));
        Ok(ArraysIterator { steps: Mutex::new(PerProcess::new((Arc::clone(&client), steps))) })
    }

    /// Closes the tree; it is opened again if it is used.
    fn close(&self) {
        self.opened.close();
    }
}

/// Progress of a read.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct ScanProgress(Arc<hither::ScanProgress>);

#[pymethods]
impl ScanProgress {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Bytes received so far, and the total as far as it is known.
    fn bytes(&self) -> (u64, u64) {
        self.0.bytes()
    }
}

/// An iterator and its client.
type Reading = (Arc<ClientHandle>, Arc<AsyncMutex<hither::ArraysIterator>>);

/// Columns in steps.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct ArraysIterator {
    steps: Mutex<PerProcess<Reading>>,
}

#[pymethods]
impl ArraysIterator {
    /// First entry, end, columns and records of the next step; None after the last step.
    fn next(&self) -> PyResult<Job> {
        let reading = lock(&self.steps).get().cloned();
        let (client, steps) = reading
            .ok_or_else(|| invalid("the iteration is closed, or was started in another process"))?;
        let next = async move { steps.lock().await.next().await.transpose() };
        Ok(Job::new(&client, next, |step, py| match step {
            None => Ok(py.None()),
            Some(step) => {
                let columns = Column::list(step.columns, py)?;
                let records = record_types(&step.records, py)?;
                let step = (step.entries.start, step.entries.end, columns, records);
                Ok(step.into_pyobject(py)?.into_any().unbind())
            }
        }))
    }

    /// Cancels what is being read.
    fn close(&self) {
        drop(lock(&self.steps).take());
    }
}

fn request(columns: Vec<String>, cut: Option<String>, (start, stop): (u64, u64)) -> ArraysRequest {
    let mut request = ArraysRequest::new(columns);
    request.cut = cut;
    request.entries = start..stop.max(start);
    request
}

fn record_types(
    records: &[Option<RecordType>],
    py: Python<'_>,
) -> PyResult<Vec<Option<Py<PyAny>>>> {
    let record = |it: &Option<RecordType>| it.as_ref().map(|it| record_type(it, py)).transpose();
    records.iter().map(record).collect()
}

/// Converts a record type to tuples, each of which begins with its kind.
fn record_type(record: &RecordType, py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(match record {
        RecordType::Column(path) => ("column", path).into_pyobject(py)?.into_any(),
        RecordType::Record { class, fields } => {
            let fields = fields
                .iter()
                .map(|(name, field)| Ok((name, record_type(field, py)?)))
                .collect::<PyResult<Vec<_>>>()?;
            ("record", class, fields).into_pyobject(py)?.into_any()
        }
        RecordType::List(kind, item) => {
            let mark = match kind {
                ListKind::Plain => None,
                ListKind::Set => Some("set"),
                ListKind::Bitset => Some("bitset"),
            };
            ("list", mark, record_type(item, py)?).into_pyobject(py)?.into_any()
        }
        RecordType::Fixed(size, item) => {
            ("fixed", size, record_type(item, py)?).into_pyobject(py)?.into_any()
        }
        RecordType::Map(types) => {
            let [key, value] = types.as_ref();
            let types = (record_type(key, py)?, record_type(value, py)?);
            ("map", types.0, types.1).into_pyobject(py)?.into_any()
        }
    }
    .unbind())
}
