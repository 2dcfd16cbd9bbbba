//! Clients, files and trees after `fork`: each process opens its own.

use crate::error::to_exception;
use hither::PerProcess;
use hither_core::sync::lock;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// A file or tree of a client, opened in each process that uses it.
#[derive(Debug)]
pub(crate) struct ReopenedAfterFork<T>(Mutex<Option<PerProcess<WithClient<T>>>>);

/// An open file or tree, and its client.
type WithClient<T> = (Arc<ClientHandle>, T);

impl<T> Default for ReopenedAfterFork<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Send> ReopenedAfterFork<T> {
    /// The open file or tree, and its client; calls `client` and `open` if it is not open yet.
    ///
    /// The lock is taken while the GIL is held, like the client's, but not during `open`, which may
    /// wait: it fetches a Metalink document.
    pub(crate) fn get_or(
        &self,
        py: Python<'_>,
        client: impl FnOnce() -> PyResult<Arc<ClientHandle>>,
        open: impl FnOnce(&hither::Client) -> Result<T, hither::Error> + Send,
    ) -> PyResult<WithClient<T>> {
        if let Some(opened) = lock(&self.0).as_ref().and_then(PerProcess::get) {
            return Ok(opened.clone());
        }
        let handle = client()?;
        let value = py.detach(|| open(handle.client())).map_err(|error| to_exception(&error))?;
        let mut opened = lock(&self.0);
        if let Some(first) = opened.as_ref().and_then(PerProcess::get) {
            return Ok(first.clone());
        }
        *opened = Some(PerProcess::new((Arc::clone(&handle), value.clone())));
        Ok((handle, value))
    }

    /// Closes the file or tree.
    pub(crate) fn close(&self) {
        *lock(&self.0) = None;
    }
}

/// A client that any thread may drop.
///
/// Dropping a client waits for its threads. One of them may drop the last reference, or a thread
/// may do so while it holds the GIL that they wait for. So another thread drops the client.
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
            // If no thread can be started, the closure drops the client on this thread.
            drop(std::thread::Builder::new().name("hither-end".to_owned()).spawn(|| drop(client)));
        }
    }
}
