//! Files as bytes.

use crate::buffer::Buffer;
use crate::client::Client;
use crate::fork::{ClientHandle, PerProcess, ReopenedAfterFork};
use crate::job::Job;
use hither::{HintId, OpenOptions, RemoteFile};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::Duration;

/// A file of a client. It is opened in each process that uses it.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct File {
    client: Py<Client>,
    #[pyo3(get)]
    url: String,
    /// Whether reads are tree_cachen from the layout of its trees.
    tree_cache: bool,
    opened: ReopenedAfterFork<RemoteFile>,
}

/// Name, bytes delivered, requests failed.
type Place = (String, u64, u64);

/// What the server says of a file.
#[pyclass(frozen, get_all, module = "hither._core", skip_from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct FileStat {
    /// Bytes.
    size: u64,
    /// Entity tag or date of the last change.
    validator: Option<String>,
}

/// A hint that was given.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Hint(PerProcess<HintId>);

impl File {
    pub(crate) fn new(client: Py<Client>, url: String, tree_cache: bool) -> Self {
        Self { client, url, tree_cache, opened: ReopenedAfterFork::default() }
    }

    /// The file as it is open in this process.
    fn opened(&self, py: Python<'_>) -> PyResult<(Arc<ClientHandle>, RemoteFile)> {
        self.opened.get_or(py, &self.client, |client| {
            client.open_with(&self.url, OpenOptions::default().tree_cache(self.tree_cache))
        })
    }
}

#[pymethods]
impl File {
    /// Opens it, as far as that takes no waiting. What is wrong with the URL, or with a local file, is said here.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.opened(py).map(drop)
    }

    /// Asks for size, version and both ends of it at once.
    fn fetch_ends(&self, py: Python<'_>, tail: u64) -> PyResult<()> {
        self.opened(py)?.1.prefetch_ends(tail);
        Ok(())
    }

    /// URL or path, without secrets.
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.opened(py)?.1.name())
    }

    /// Size and version.
    fn stat(&self, py: Python<'_>) -> PyResult<Job> {
        let (held, file) = self.opened(py)?;
        let stat = async move { file.stat_async().await };
        Ok(Job::new(&held, stat, |stat, py| {
            let stat = FileStat { size: stat.size, validator: stat.validator };
            Ok(Py::new(py, stat)?.into_any())
        }))
    }

    /// Some bytes, fewer at the end of the file.
    fn read_at(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Job> {
        let (held, file) = self.opened(py)?;
        let read = async move { file.read_async(offset, length).await };
        Ok(Job::new(&held, read, |bytes, py| Ok(PyBytes::new(py, &bytes).into_any().unbind())))
    }

    /// The bytes of ranges `(start, stop)`.
    fn read_ranges(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<Job> {
        let (held, file) = self.opened(py)?;
        let read = async move {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, stop)| start..stop).collect();
            file.read_ranges_async(&ranges).await
        };
        Ok(Job::new(&held, read, |found, py| {
            let buffers: Vec<Buffer> = found.into_iter().map(Buffer::shared).collect();
            Ok(buffers.into_pyobject(py)?.unbind())
        }))
    }

    /// Says what will be read.
    fn hint(
        &self,
        py: Python<'_>,
        ranges: Vec<(u64, u64)>,
        within_seconds: f64,
    ) -> PyResult<Option<Hint>> {
        let (held, file) = self.opened(py)?;
        let ranges: Vec<_> = ranges.into_iter().map(|(start, stop)| start..stop).collect();
        let when = Duration::try_from_secs_f64(within_seconds).unwrap_or_default();
        // It may need credentials, and a command that prints them.
        let hint = py.detach(|| {
            let _entered = held.client().runtime().enter();
            file.hint(&ranges, when)
        });
        Ok(hint.map(|hint| Hint(PerProcess::new(hint))))
    }

    /// Takes a hint back.
    fn cancel(&self, py: Python<'_>, hint: &Hint) -> PyResult<()> {
        if let Some(hint) = hint.0.get() {
            self.opened(py)?.1.cancel(*hint);
        }
        Ok(())
    }

    /// Lets go of it. What was asked for ahead is cancelled.
    fn close(&self) {
        self.opened.close();
    }

    /// The places of the file as `(name, bytes, failures)`, and why some are not used any more.
    fn places(&self, py: Python<'_>) -> PyResult<(Vec<Place>, Vec<String>)> {
        let (places, notices) = self.opened(py)?.1.replicas();
        let told = places.into_iter().map(|place| (place.name, place.bytes, place.failures));
        Ok((told.collect(), notices))
    }
}
