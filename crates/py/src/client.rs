//! The client of a process.

use crate::entry::{Entry, entry_of};
use crate::error::{closed, to_exception};
use crate::file::File;
use crate::fork::{ClientHandle, PerProcess};
use crate::job::Job;
use crate::options::PyClientOptions;
use crate::tree::{self, Tree};
use hither::{Error, ErrorKind, StoragePath};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What files share. In a child that was forked it is another one, made when it is first needed.
#[pyclass(frozen, weakref, module = "hither._core")]
pub(crate) struct Client {
    settings: PyClientOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<PerProcess<Arc<ClientHandle>>>,
    closed: bool,
}

impl Client {
    /// That of this process.
    pub(crate) fn held(&self) -> PyResult<Arc<ClientHandle>> {
        // Taken with the GIL held, by whoever forks too: no child finds it locked.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(closed("the client"));
        }
        if let Some(held) = state.held.as_ref().and_then(PerProcess::get) {
            return Ok(Arc::clone(held));
        }
        let made = self.settings.config().and_then(hither::Client::new);
        let held = Arc::new(ClientHandle::new(made.map_err(|error| to_exception(&error))?));
        state.held = Some(PerProcess::new(Arc::clone(&held)));
        Ok(held)
    }
}

#[pymethods]
impl Client {
    #[new]
    fn new(settings: PyClientOptions) -> PyResult<Self> {
        let client = Self { settings, state: Mutex::default() };
        // What makes no sense is said here rather than at the first use.
        client.settings.config().map_err(|error| to_exception(&error))?;
        Ok(client)
    }

    /// A file by URL or path.
    #[pyo3(signature = (url, tree_cache = true))]
    fn open(slf: Py<Self>, url: String, tree_cache: bool) -> File {
        File::new(slf, url, tree_cache)
    }

    /// A tree of a file, the only one if none is named.
    fn open_tree(slf: Py<Self>, url: String, path: Option<String>) -> Tree {
        Tree::new(slf, url, path)
    }

    /// The paths of the trees in a file.
    fn tree_paths(&self, url: String) -> PyResult<Job> {
        Ok(tree::tree_paths(&self.held()?, url))
    }

    /// What is known of a name.
    fn stat(&self, url: String) -> PyResult<Job> {
        let held = self.held()?;
        let client = Arc::clone(&held);
        let look = async move { client.client().stat(&url).await };
        Ok(Job::new(&held, look, |looked, py| entry_of(&looked.named, &looked.entry).give(py)))
    }

    /// The names in a directory.
    fn list(&self, url: String) -> PyResult<Job> {
        let held = self.held()?;
        let client = Arc::clone(&held);
        let list = async move {
            let named = client.client().storage_path(&url)?;
            let entries = named.storage.list(&named.path).await?;
            Ok((named, entries))
        };
        Ok(Job::new(&held, list, |(named, entries), py| {
            let entries: Vec<Entry> = entries.iter().map(|entry| entry_of(&named, entry)).collect();
            Ok(entries.into_pyobject(py)?.unbind())
        }))
    }

    /// Makes a directory.
    fn make_directory(&self, url: String) -> PyResult<Job> {
        let held = self.held()?;
        let client = Arc::clone(&held);
        let make = async move {
            let named = client.client().storage_path(&url)?;
            named.storage.make_directory(&named.path).await
        };
        Ok(Job::new(&held, make, |(), py| Ok(py.None())))
    }

    /// Removes a file or directory.
    fn remove(&self, url: String, recursive: bool) -> PyResult<Job> {
        let held = self.held()?;
        let client = Arc::clone(&held);
        let remove = async move {
            let named = client.client().storage_path(&url)?;
            match (named.path.is_empty(), recursive) {
                (true, _) => Err(Error::new(ErrorKind::Invalid, "the root is not removed")),
                (false, true) => named.storage.remove_tree(&named.path).await,
                (false, false) => named.storage.remove(&named.path).await,
            }
        };
        Ok(Job::new(&held, remove, |(), py| Ok(py.None())))
    }

    /// Gives a file or directory another name on the same server.
    fn rename(&self, source: String, target: String, overwrite: bool) -> PyResult<Job> {
        let held = self.held()?;
        let client = Arc::clone(&held);
        let rename = async move {
            let (from, to) =
                (client.client().storage_path(&source)?, client.client().storage_path(&target)?);
            if from.server != to.server {
                let what = "the two names are on different servers: copy, then remove";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            from.storage.rename(&from.path, &to.path, overwrite).await
        };
        Ok(Job::new(&held, rename, |(), py| Ok(py.None())))
    }

    /// Writes bytes to a file.
    fn put_bytes(&self, url: String, data: Vec<u8>, overwrite: bool) -> PyResult<Job> {
        let (held, named) = self.named(&url)?;
        let client = Arc::clone(&held);
        let put = async move { client.client().put(&url, data.into(), overwrite).await };
        Ok(Job::new(&held, put, move |entry, py| entry_of(&named, &entry).give(py)))
    }

    /// Copies a local file to a file, as the command does.
    fn put_file(&self, url: String, path: PathBuf, overwrite: bool) -> PyResult<Job> {
        let (held, named) = self.named(&url)?;
        let client = Arc::clone(&held);
        let put = async move { client.client().put_file(&url, &path, overwrite).await };
        Ok(Job::new(&held, put, move |entry, py| entry_of(&named, &entry).give(py)))
    }

    /// The report of all that was read so far, as JSON.
    fn report(&self) -> PyResult<String> {
        tree::as_json(&self.held()?.client().report())
    }

    /// Why nothing is remembered between runs although that was wanted.
    fn store_error(&self) -> PyResult<Option<String>> {
        Ok(self.held()?.client().store_error().map(ToString::to_string))
    }

    /// Keeps what was learned, if the client was ever used in this process.
    fn settle(&self, py: Python<'_>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held = state.held.as_ref().and_then(PerProcess::get).cloned();
        drop(state);
        if let Some(held) = held {
            // It is for the next run; this one has nothing to do about it.
            py.detach(|| drop(held.client().flush()));
        }
    }

    /// Lets go of it. It ends with the last file that is open.
    fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { held: None, closed: true };
    }
}

impl Client {
    fn named(&self, url: &str) -> PyResult<(Arc<ClientHandle>, StoragePath)> {
        let held = self.held()?;
        let named = held.client().storage_path(url).map_err(|error| to_exception(&error))?;
        Ok((held, named))
    }
}
