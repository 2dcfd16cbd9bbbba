//! Files as bytes.

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::raised;
use crate::job::Job;
use crate::process::{Held, OfProcess};
use bytes::Bytes;
use hither::{Error, HintId, RemoteFile};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Larger reads go by ranges, which may go past the cache and are checked against the size of the file first.
const LARGE_BYTES: u64 = 8 << 20;

/// A file of a client. It is opened in each process that uses it.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct File {
    client: Py<Client>,
    #[pyo3(get)]
    url: String,
    /// Whether reads are foreseen from the layout of its trees.
    foresee: bool,
    opened: Mutex<Option<OfProcess<Opened>>>,
}

#[derive(Clone)]
struct Opened {
    held: Arc<Held>,
    file: RemoteFile,
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
pub(crate) struct Hint(OfProcess<HintId>);

impl File {
    pub(crate) fn new(client: Py<Client>, url: String, foresee: bool) -> Self {
        Self { client, url, foresee, opened: Mutex::default() }
    }

    /// The file as it is open in this process. Its lock is taken with the GIL held, as that of the client, and not while
    /// anything is waited for: to open a Metalink document, it is fetched.
    fn opened(&self, py: Python<'_>) -> PyResult<Opened> {
        let lock = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = lock().as_ref().and_then(OfProcess::get) {
            return Ok(opened.clone());
        }
        let held = self.client.get().held()?;
        let file = py.detach(|| held.client().open(&self.url));
        let file = file.map_err(|error| raised(&error))?;
        let file = if self.foresee { file } else { file.without_foresight() };
        let now = Opened { held, file };
        let mut opened = lock();
        if let Some(first) = opened.as_ref().and_then(OfProcess::get) {
            return Ok(first.clone());
        }
        *opened = Some(OfProcess::new(now.clone()));
        Ok(now)
    }
}

#[pymethods]
impl File {
    /// Opens it, as far as that takes no waiting. What is wrong with the URL, or with a local file, is said here.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.opened(py).map(drop)
    }

    /// URL or path, without secrets.
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.opened(py)?.file.name())
    }

    /// Size and version.
    fn stat(&self, py: Python<'_>) -> PyResult<Job> {
        let Opened { held, file } = self.opened(py)?;
        let stat = async move { file.stat_async().await };
        Ok(Job::new(&held, stat, |stat, py| {
            let stat = FileStat { size: stat.size, validator: stat.validator };
            Ok(Py::new(py, stat)?.into_any())
        }))
    }

    /// Some bytes, fewer at the end of the file.
    fn read_at(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Job> {
        let Opened { held, file } = self.opened(py)?;
        let read = async move { read_at(&file, offset, length).await };
        Ok(Job::new(&held, read, |bytes, py| Ok(PyBytes::new(py, &bytes).into_any().unbind())))
    }

    /// The bytes of ranges `(start, stop)`.
    fn read_ranges(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<Job> {
        let Opened { held, file } = self.opened(py)?;
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
        let Opened { held, file } = self.opened(py)?;
        let ranges: Vec<_> = ranges.into_iter().map(|(start, stop)| start..stop).collect();
        let when = Duration::try_from_secs_f64(within_seconds).unwrap_or_default();
        // It may need credentials, and a command that prints them.
        let hint = py.detach(|| {
            let _entered = held.client().runtime().enter();
            file.hint(&ranges, when)
        });
        Ok(hint.map(|hint| Hint(OfProcess::new(hint))))
    }

    /// Takes a hint back.
    fn cancel(&self, py: Python<'_>, hint: &Hint) -> PyResult<()> {
        if let Some(hint) = hint.0.get() {
            self.opened(py)?.file.cancel(*hint);
        }
        Ok(())
    }

    /// Lets go of it. What was asked for ahead is cancelled.
    fn close(&self) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The places of the file as `(name, bytes, failures)`, and why some are not used any more.
    fn places(&self, py: Python<'_>) -> PyResult<(Vec<Place>, Vec<String>)> {
        let (places, notices) = self.opened(py)?.file.places();
        let told = places.into_iter().map(|place| (place.name, place.bytes, place.failures));
        Ok((told.collect(), notices))
    }
}

async fn read_at(file: &RemoteFile, offset: u64, length: u64) -> Result<Bytes, Error> {
    if let (Ok(small), true) = (usize::try_from(length), length <= LARGE_BYTES) {
        let mut target = vec![0; small];
        let read = file.read_at_async(offset, &mut target).await?;
        target.truncate(read);
        return Ok(target.into());
    }
    let size = file.stat_async().await?.size;
    let range = offset.min(size)..offset.saturating_add(length).min(size);
    let mut found = file.read_ranges_async(std::slice::from_ref(&range)).await?;
    Ok(found.pop().unwrap_or_default())
}
