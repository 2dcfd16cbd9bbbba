//! Files as bytes.

use crate::buffer::Buffer;
use crate::client::Client;
use crate::fork::{ClientHandle, ReopenedAfterFork};
use crate::job::Job;
use hither::{HintId, OpenOptions, PerProcess, RemoteFile};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::Duration;

/// A file of a client, opened in each process that uses it.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct File {
    client: Py<Client>,
    #[pyo3(get)]
    url: String,
    /// Prediction of reads from the layout of the file's trees, and opening ahead.
    options: OpenOptions,
    opened: ReopenedAfterFork<RemoteFile>,
}

/// Maximum size of a read from memory that keeps the GIL: copying takes microseconds.
const MAX_HELD_BYTES: usize = 64 << 10;

/// URL, bytes delivered, failed requests.
type Replica = (String, u64, u64);

/// Size and version of a file.
///
/// Examples
/// --------
/// >>> with hither.open(hither.__file__) as file: assert file.stat().size == file.size
#[pyclass(frozen, get_all, module = "hither._core", skip_from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct FileStat {
    /// Size in bytes.
    size: u64,
    /// Version of the file: entity tag or date of the last change, as the server sends it.
    validator: Option<String>,
}

/// A hint, for :meth:`hither.RemoteFile.cancel`.
///
/// Examples
/// --------
/// >>> with hither.open(hither.__file__) as file: assert file.hint([(0, 100)]) is None
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Hint(PerProcess<HintId>);

impl File {
    pub(crate) fn new(client: Py<Client>, url: String, options: OpenOptions) -> Self {
        Self { client, url, options, opened: ReopenedAfterFork::default() }
    }

    /// The file, opened in this process if it is not yet.
    fn opened(&self, py: Python<'_>) -> PyResult<(Arc<ClientHandle>, RemoteFile)> {
        let open = |client: &hither::Client| client.open_with(&self.url, self.options);
        self.opened.get_or(py, || self.client.get().handle(), open)
    }
}

#[pymethods]
impl File {
    /// Opens the file as far as that takes no waiting, which reports a wrong URL or local path.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.opened(py).map(drop)
    }

    /// Starts to fetch size, version and both ends at once.
    fn prefetch_ends(&self, py: Python<'_>, tail: u64) -> PyResult<()> {
        self.opened(py)?.1.prefetch_ends(tail);
        Ok(())
    }

    /// URL or path, without secrets.
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.opened(py)?.1.name())
    }

    /// Size and version.
    fn stat(&self, py: Python<'_>) -> PyResult<Job> {
        let (client, file) = self.opened(py)?;
        let stat = async move { file.stat_async().await };
        Ok(Job::new(&client, stat, |stat, py| {
            let stat = FileStat { size: stat.size, validator: stat.validator };
            Ok(Py::new(py, stat)?.into_any())
        }))
    }

    /// Bytes from an offset on, fewer at the end of the file.
    fn read_at(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Job> {
        let (client, file) = self.opened(py)?;
        let read = async move { file.read_async(offset, length).await };
        Ok(Job::new(&client, read, |bytes, py| Ok(PyBytes::new(py, &bytes).into_any().unbind())))
    }

    /// As `read_at`, if all bytes are in memory; None otherwise, and for reads of more than 64 KiB.
    fn read_present<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if length > MAX_HELD_BYTES {
            return Ok(None);
        }
        let file = self.opened(py)?.1;
        let mut read = None;
        let bytes = PyBytes::new_with(py, length, |target| {
            read = file.read_present(offset, target);
            Ok(())
        })?;
        Ok(read.map(|read| match bytes.as_bytes().get(..read) {
            Some(part) if read < length => PyBytes::new(py, part),
            _ => bytes,
        }))
    }

    /// The bytes of ranges `(start, stop)`.
    fn read_ranges(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<Job> {
        let (client, file) = self.opened(py)?;
        let read = async move {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, stop)| start..stop).collect();
            file.read_ranges_async(&ranges).await
        };
        Ok(Job::new(&client, read, |found, py| {
            let buffers: Vec<Buffer> = found.into_iter().map(Buffer::shared).collect();
            Ok(buffers.into_pyobject(py)?.unbind())
        }))
    }

    /// Announces ranges that will be read.
    fn hint(
        &self,
        py: Python<'_>,
        ranges: Vec<(u64, u64)>,
        within_seconds: f64,
    ) -> PyResult<Option<Hint>> {
        let (client, file) = self.opened(py)?;
        let ranges: Vec<_> = ranges.into_iter().map(|(start, stop)| start..stop).collect();
        let when = Duration::try_from_secs_f64(within_seconds).unwrap_or_default();
        // The GIL is released: a request may have to run a command for credentials.
        let hint = py.detach(|| {
            let _entered = client.client().runtime().enter();
            file.hint(&ranges, when)
        });
        Ok(hint.map(|hint| Hint(PerProcess::new(hint))))
    }

    /// Cancels a hint.
    fn cancel(&self, py: Python<'_>, hint: &Hint) -> PyResult<()> {
        if let Some(hint) = hint.0.get() {
            self.opened(py)?.1.cancel(*hint);
        }
        Ok(())
    }

    /// Closes the file and cancels its prefetches.
    fn close(&self) {
        self.opened.close();
    }

    /// The replicas of the file, and reasons why some are no longer used.
    fn replicas(&self, py: Python<'_>) -> PyResult<(Vec<Replica>, Vec<String>)> {
        let (replicas, notices) = self.opened(py)?.1.replicas();
        Ok((replicas.into_iter().map(|it| (it.name, it.bytes, it.failures)).collect(), notices))
    }
}
