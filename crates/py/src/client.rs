//! The client of a process.

use crate::copy::{CopyProgress, PyCopyOptions, check_object, checked, copied, summary_object};
use crate::entry::Entry;
use crate::error::{invalid, to_exception};
use crate::file::File;
use crate::fork::ClientHandle;
use crate::job::Job;
use crate::options::{client_config, client_options};
use crate::staging::Staging;
use crate::tree::Tree;
use hither::{
    Algorithm, ClientOptions, Error, ErrorKind, FileLocality, OpenOptions, PerProcess, Replaceable,
    StoragePath,
};
use hither_core::sync::lock;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The client that files share in this process.
///
/// A forked child makes its own client when it first needs one.
#[pyclass(frozen, weakref, module = "hither._core")]
pub(crate) struct Client {
    options: ClientOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    handle: Option<PerProcess<Arc<ClientHandle>>>,
    closed: bool,
}

impl Client {
    /// The client of this process.
    pub(crate) fn handle(&self) -> PyResult<Arc<ClientHandle>> {
        // Taken only with the GIL held, which `fork` needs, too: no child starts with it locked.
        let mut state = lock(&self.state);
        if state.closed {
            return Err(invalid("the client is closed"));
        }
        if let Some(handle) = state.handle.as_ref().and_then(PerProcess::get) {
            return Ok(Arc::clone(handle));
        }
        let client = client_config(&mut self.options.clone()).and_then(hither::Client::new);
        let handle = Arc::new(ClientHandle::new(client.map_err(|error| to_exception(&error))?));
        state.handle = Some(PerProcess::new(Arc::clone(&handle)));
        Ok(handle)
    }

    /// Creates a job of `run` on the client of this process; `convert` converts its result to an
    /// object.
    pub(crate) fn job<T, F>(
        &self,
        run: impl FnOnce(Arc<ClientHandle>) -> F,
        convert: impl FnOnce(T, Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Job>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let handle = self.handle()?;
        Ok(Job::new(&handle, run(Arc::clone(&handle)), convert))
    }

    /// Storage and path of a URL.
    fn storage_path(&self, url: &str) -> PyResult<StoragePath> {
        self.handle()?.client().storage_path(url).map_err(|error| to_exception(&error))
    }
}

/// Adds the argument that replaces an existing target to an error about it, unless it was given.
fn name_overwrite<T>(done: Result<T, Error>, was_given: bool) -> Result<T, Error> {
    done.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists if !was_given => {
            let what = format!("{}: overwrite=True replaces it", error.message_with_causes());
            Error::new(ErrorKind::AlreadyExists, what)
        }
        _ => error,
    })
}

/// The file that a write may replace: the version that an entry describes, if one is given.
fn replaceable(overwrite: bool, expected: Option<&Bound<'_, Entry>>) -> PyResult<Replaceable> {
    let version = expected.map(|entry| entry.get().version()).transpose();
    let version = version.map_err(|error| to_exception(&error))?;
    Ok(version.map_or_else(|| overwrite.into(), Replaceable::Version))
}

#[pymethods]
impl Client {
    #[new]
    fn new(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut options = client_options(options)?;
        // Reports invalid options immediately instead of at the first use.
        client_config(&mut options).map_err(|error| to_exception(&error))?;
        Ok(Self { options, state: Mutex::default() })
    }

    /// A file by URL or path.
    #[pyo3(signature = (url, tree_cache = true, open_ahead = true))]
    fn open(slf: Py<Self>, url: String, tree_cache: bool, open_ahead: bool) -> File {
        let options = OpenOptions::default().tree_cache(tree_cache).open_ahead(open_ahead);
        File::new(slf, url, options)
    }

    /// A tree of a file; without a path the only one.
    fn open_tree(slf: Py<Self>, url: String, path: Option<String>) -> Tree {
        Tree::new(slf, url, path)
    }

    /// The paths of the trees in a file, and those of its RNTuples.
    fn tree_paths(&self, url: String) -> PyResult<Job> {
        let list = |it: Arc<ClientHandle>| async move { it.client().tree_paths(&url).await };
        self.job(list, |paths, py| Ok(paths.into_pyobject(py)?.into_any().unbind()))
    }

    /// Kind, size and version of a file or directory.
    fn stat(&self, url: String) -> PyResult<Job> {
        let stat = |it: Arc<ClientHandle>| async move { it.client().stat(&url).await };
        self.job(stat, |stat, py| Entry::new(&stat.named, &stat.entry).into_object(py))
    }

    /// The entries of a directory, and the reason why the server may have others.
    fn list(&self, url: String) -> PyResult<Job> {
        let list = |it: Arc<ClientHandle>| async move {
            let at = it.client().storage_path(&url)?;
            let found = at.storage.list(&at.path).await?;
            Ok((at, found.hidden, found.into_entries()?))
        };
        self.job(list, |(at, hidden, entries), py| {
            let entries: Vec<Entry> = entries.iter().map(|entry| Entry::new(&at, entry)).collect();
            Ok((entries, hidden).into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Makes a directory.
    fn make_directory(&self, url: String) -> PyResult<Job> {
        let make = |it: Arc<ClientHandle>| async move {
            let at = it.client().storage_path(&url)?;
            at.storage.make_directory(&at.path).await
        };
        self.job(make, |(), py| Ok(py.None()))
    }

    /// Removes a file or directory.
    fn remove(&self, url: String, recursive: bool) -> PyResult<Job> {
        let remove = move |it: Arc<ClientHandle>| async move {
            let at = it.client().storage_path(&url)?;
            if at.path.is_empty() {
                let what = "the root of a server cannot be removed";
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            if recursive {
                return at.storage.remove_tree(&at.path).await;
            }
            at.storage.remove(&at.path).await
        };
        self.job(remove, |(), py| Ok(py.None()))
    }

    /// Renames a file or directory on its server.
    fn rename(&self, source: String, target: String, overwrite: bool) -> PyResult<Job> {
        let rename = move |it: Arc<ClientHandle>| async move {
            let from = it.client().storage_path(&source)?;
            let to = it.client().storage_path(&target)?;
            if from.server != to.server {
                let what = "the two names are on different servers: copy, then remove";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            name_overwrite(from.storage.rename(&from.path, &to.path, overwrite).await, overwrite)
        };
        self.job(rename, |(), py| Ok(py.None()))
    }

    /// Writes bytes to a file.
    #[pyo3(signature = (url, data, overwrite, expected=None))]
    fn put_bytes(
        &self,
        url: String,
        data: Vec<u8>,
        overwrite: bool,
        expected: Option<&Bound<'_, Entry>>,
    ) -> PyResult<Job> {
        let target = self.storage_path(&url)?;
        let replaceable = replaceable(overwrite, expected)?;
        let put = move |it: Arc<ClientHandle>| async move {
            name_overwrite(it.client().put(&url, data.into(), replaceable).await, overwrite)
        };
        self.job(put, move |entry, py| Entry::new(&target, &entry).into_object(py))
    }

    /// Copies a local file to a file, as the command does.
    #[pyo3(signature = (url, path, overwrite, expected=None))]
    fn put_file(
        &self,
        url: String,
        path: PathBuf,
        overwrite: bool,
        expected: Option<&Bound<'_, Entry>>,
    ) -> PyResult<Job> {
        let target = self.storage_path(&url)?;
        let replaceable = replaceable(overwrite, expected)?;
        let put = move |it: Arc<ClientHandle>| async move {
            name_overwrite(it.client().put_file(&url, &path, replaceable).await, overwrite)
        };
        self.job(put, move |entry, py| Entry::new(&target, &entry).into_object(py))
    }

    /// Copies a file to a local file, as the command does.
    fn get_file(&self, url: String, path: PathBuf, overwrite: bool) -> PyResult<Job> {
        let local = self.storage_path("/")?;
        let get = move |it: Arc<ClientHandle>| async move {
            name_overwrite(it.client().get_file(&url, &path, overwrite).await, overwrite)
        };
        self.job(get, move |entry, py| Entry::new(&local, &entry).into_object(py))
    }

    /// Copies files and directories.
    fn copy(
        &self,
        sources: Vec<String>,
        replicas: Vec<String>,
        destination: String,
        options: PyCopyOptions,
        progress: &CopyProgress,
    ) -> PyResult<Job> {
        let progress = Arc::clone(&progress.0);
        let run = move |it: Arc<ClientHandle>| async move {
            let options = options.copy(it.client())?;
            let copy = it.client().copy(&sources, &replicas, &destination, options, progress);
            copied(copy.await?)
        };
        self.job(run, |summary, py| summary_object(&summary, py))
    }

    /// Makes a directory equal to another one.
    fn sync(
        &self,
        source: String,
        destination: String,
        options: PyCopyOptions,
        progress: &CopyProgress,
    ) -> PyResult<Job> {
        let progress = Arc::clone(&progress.0);
        let run = move |it: Arc<ClientHandle>| async move {
            let options = options.sync(it.client())?;
            copied(it.client().sync(&source, &destination, options, progress, |_| {}).await?)
        };
        self.job(run, |summary, py| summary_object(&summary, py))
    }

    /// Compares two directories.
    fn check(
        &self,
        source: String,
        destination: String,
        options: PyCopyOptions,
        progress: &CopyProgress,
    ) -> PyResult<Job> {
        let progress = Arc::clone(&progress.0);
        let run = move |it: Arc<ClientHandle>| async move {
            let options = options.check(it.client())?;
            let differences = Mutex::new(Vec::new());
            let found = |difference| lock(&differences).push(difference);
            let summary = it.client().check(&source, &destination, options, progress, found);
            let summary = summary.await?;
            checked(summary, differences.into_inner().unwrap_or_else(PoisonError::into_inner))
        };
        self.job(run, |checked, py| check_object(&checked, py))
    }

    /// The checksum of a file, as ``"ALGORITHM:HEX"``.
    fn checksum(&self, url: String, algorithm: &str) -> PyResult<Job> {
        let algorithm: Algorithm =
            algorithm.parse().map_err(|error| to_exception(&Error::from(error)))?;
        let checksum =
            move |it: Arc<ClientHandle>| async move { it.client().checksum(&url, algorithm).await };
        self.job(checksum, |it, py| Ok(it.value.to_string().into_pyobject(py)?.into_any().unbind()))
    }

    /// URL, writable and pending of each server that has a file.
    fn locate(&self, url: String) -> PyResult<Job> {
        let locate = |it: Arc<ClientHandle>| async move { it.client().locate(&url).await };
        self.job(locate, |servers, py| {
            let servers = servers.into_iter().map(|it| (it.server, it.writable, it.pending));
            Ok(servers.collect::<Vec<_>>().into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Asks servers to bring files from tape to disk.
    fn stage(&self, urls: Vec<String>, priority: u8) -> PyResult<Job> {
        let stage = move |it: Arc<ClientHandle>| async move {
            let requests = it.client().stage(&urls, priority).await?;
            Ok(Staging::new(Arc::clone(&it), requests, urls.len()))
        };
        self.job(stage, |staging, py| Ok(Py::new(py, staging)?.into_any()))
    }

    /// Lets files leave the disk that were staged.
    fn release(&self, urls: Vec<String>, request: Option<String>) -> PyResult<Job> {
        let release = move |it: Arc<ClientHandle>| async move {
            it.client().release(&urls, request.as_deref()).await
        };
        self.job(release, |(), py| Ok(py.None()))
    }

    /// Asks servers to stop staging files.
    fn cancel_staging(&self, urls: Vec<String>, request: Option<String>) -> PyResult<Job> {
        let cancel = move |it: Arc<ClientHandle>| async move {
            it.client().cancel_staging(&urls, request.as_deref()).await
        };
        self.job(cancel, |(), py| Ok(py.None()))
    }

    /// Where the copies of each file are: ``"disk"``, ``"tape"``, ``"disk and tape"`` or
    /// ``"unavailable"``.
    fn localities(&self, urls: Vec<String>) -> PyResult<Job> {
        let locate =
            move |it: Arc<ClientHandle>| async move { it.client().localities(&urls).await };
        self.job(locate, |found, py| {
            let names: Vec<&str> = found.into_iter().map(FileLocality::name).collect();
            Ok(names.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// The user's lots on a server.
    fn lots(&self, url: String) -> PyResult<Job> {
        let all = |it: Arc<ClientHandle>| async move { it.client().lots(&url)?.0.all().await };
        self.job(all, |lots, py| Ok(pythonize::pythonize(py, &lots)?.unbind()))
    }

    /// Reserves `size` bytes for the folder of `url`, for `lease` seconds.
    fn reserve_lot(&self, url: String, size: u64, lease: f64) -> PyResult<Job> {
        let lease = lease_time(lease)?;
        let reserve = move |it: Arc<ClientHandle>| async move {
            let (lots, path) = it.client().lots(&url)?;
            lots.reserve(&path, size, lease).await
        };
        self.job(reserve, |lot, py| Ok(pythonize::pythonize(py, &lot)?.unbind()))
    }

    /// Lets the lease of a lot begin now, or changes its size.
    fn renew_lot(
        &self,
        url: String,
        lot: String,
        size: Option<u64>,
        lease: Option<f64>,
    ) -> PyResult<Job> {
        let lease = lease.map(lease_time).transpose()?;
        let renew = move |it: Arc<ClientHandle>| async move {
            it.client().lots(&url)?.0.renew(&lot, size, lease).await
        };
        self.job(renew, |lot, py| Ok(pythonize::pythonize(py, &lot)?.unbind()))
    }

    /// Ends a lot.
    fn release_lot(&self, url: String, lot: String) -> PyResult<Job> {
        let release = move |it: Arc<ClientHandle>| async move {
            it.client().lots(&url)?.0.release(&lot).await
        };
        self.job(release, |(), py| Ok(py.None()))
    }

    /// The report of all reads so far.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize::pythonize(py, &self.handle()?.client().report())?)
    }

    /// Reason why the store that was configured cannot be used.
    fn store_error(&self) -> PyResult<Option<String>> {
        Ok(self.handle()?.client().store_error().map(ToString::to_string))
    }

    /// Saves what was learned, if the client was used in this process.
    fn flush(&self, py: Python<'_>) {
        let handle = lock(&self.state).handle.as_ref().and_then(PerProcess::get).cloned();
        if let Some(handle) = handle {
            // A failure is not reported: only the next run would lack the data.
            py.detach(|| drop(handle.client().flush()));
        }
    }

    /// Releases the client. It ends with the last open file.
    fn close(&self) {
        *lock(&self.state) = State { handle: None, closed: true };
    }
}

/// The duration of a lease, at least a second. Servers get whole seconds.
fn lease_time(seconds: f64) -> PyResult<Duration> {
    let lease = Duration::try_from_secs_f64(seconds).ok().filter(|it| it.as_secs() > 0);
    let what = || format!("lease is {seconds}, expected a number of seconds");
    lease.ok_or_else(|| to_exception(&Error::new(ErrorKind::Invalid, what())))
}
