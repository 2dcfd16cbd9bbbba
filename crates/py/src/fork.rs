//! Values that belong to the process that made them.
//!
//! `fork` copies memory and leaves threads behind: in the child, the runtime of a client has no threads, and a lock that one
//! of them held will never be released. So nothing that has to do with threads is touched there, not even to drop it: it
//! is forgotten, and the child makes its own.

use crate::client::Client;
use crate::error::to_exception;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// A value that is of use only in the process that made it.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    process: u32,
    value: Option<T>,
}

impl<T> PerProcess<T> {
    /// Of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process == std::process::id())
    }

    /// The value, taken out, in the process that made it.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.process == std::process::id() { self.value.take() } else { None }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

/// What a client has open in this process: a file, a tree. It is opened in each process that uses it.
#[derive(Debug)]
pub(crate) struct ReopenedAfterFork<T>(Mutex<Option<PerProcess<OfClient<T>>>>);

/// Something open, and the client that it is of.
type OfClient<T> = (Arc<ClientHandle>, T);

impl<T> Default for ReopenedAfterFork<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Send> ReopenedAfterFork<T> {
    /// It, and the client that it is of; opened by `open` if it is not. The lock is taken with the GIL held, as that of the
    /// client, and not while anything is waited for: to open a Metalink document, it is fetched.
    pub(crate) fn get_or(
        &self,
        py: Python<'_>,
        client: &Py<Client>,
        open: impl FnOnce(&hither::Client) -> Result<T, hither::Error> + Send,
    ) -> PyResult<OfClient<T>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = lock().as_ref().and_then(PerProcess::get) {
            return Ok(opened.clone());
        }
        let held = client.get().held()?;
        let opened = py.detach(|| open(held.client())).map_err(|error| to_exception(&error))?;
        let now = (held, opened);
        let mut opened = lock();
        if let Some(first) = opened.as_ref().and_then(PerProcess::get) {
            return Ok(first.clone());
        }
        *opened = Some(PerProcess::new(now.clone()));
        Ok(now)
    }

    /// Lets go of it.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A client whose end may come anywhere.
///
/// The end of a client waits for its threads. It may be dropped by one of them, or by a thread that holds the GIL, which
/// they may be waiting for: so it ends on a thread of its own.
#[derive(Debug)]
pub(crate) struct ClientHandle(Option<hither::Client>);

impl ClientHandle {
    pub(crate) fn new(client: hither::Client) -> Self {
        Self(Some(client))
    }

    /// The client.
    #[expect(clippy::expect_used, reason = "only drop takes it")]
    pub(crate) fn client(&self) -> &hither::Client {
        self.0.as_ref().expect("the client is there until it is dropped")
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            // Without a thread to spare it ends here.
            drop(std::thread::Builder::new().name("hither-end".to_owned()).spawn(|| drop(client)));
        }
    }
}
