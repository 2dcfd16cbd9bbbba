//! The threads that may wait for the disk. There are as many of them as the settings say; who comes when all are busy waits.

pub(crate) mod checksums;
pub(crate) mod cleanup;
pub(crate) mod confined_dir;
pub(crate) mod copy;
pub(crate) mod lot_charging;
pub(crate) mod metadata;
pub(crate) mod namespace;
pub(crate) mod properties;
pub(crate) mod temp_file;
use crate::backend::disk::confined_dir::{ConfinedDir, DiskReader};
use crate::http_error::HttpError;
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The tree, and a way to work in it without holding up those who talk to clients.
#[derive(Debug, Clone)]
pub(crate) struct DiskBackend {
    tree: Arc<ConfinedDir>,
    /// Threads that may wait for bytes to be on the disk, at the same time.
    durably: Arc<Semaphore>,
}

impl DiskBackend {
    /// On so many threads.
    pub(crate) fn new(tree: ConfinedDir, threads: usize) -> Self {
        Self { tree: Arc::new(tree), durably: Arc::new(Semaphore::new((threads / 2).max(1))) }
    }

    pub(crate) fn tree(&self) -> &Arc<ConfinedDir> {
        &self.tree
    }

    /// Opens a file to be read, or a directory: on the spot, if the kernel knows it.
    pub(crate) async fn find(&self, path: &str) -> Result<DiskReader, HttpError> {
        match self.tree.find_now(path) {
            Some(found) => Ok(found),
            None => {
                let path = path.to_owned();
                self.run(move |tree| tree.find(&path)).await
            }
        }
    }

    /// Does something in the tree.
    pub(crate) async fn run<T, E, F>(&self, work: F) -> Result<T, HttpError>
    where
        F: FnOnce(&ConfinedDir) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<HttpError> + Send + 'static,
    {
        let tree = Arc::clone(&self.tree);
        match tokio::task::spawn_blocking(move || work(&tree)).await {
            Ok(done) => done.map_err(Into::into),
            Err(_) => {
                Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"))
            }
        }
    }

    /// Does something that ends only when it is on the disk, which may take seconds: half of the threads are left to
    /// others meanwhile.
    pub(crate) async fn run_durably<T, E, F>(&self, work: F) -> Result<T, HttpError>
    where
        F: FnOnce(&ConfinedDir) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<HttpError> + Send + 'static,
    {
        // It is never closed.
        let _turn = self.durably.acquire().await;
        self.run(work).await
    }
}
