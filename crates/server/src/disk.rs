//! The threads that may wait for the disk. There are as many of them as the settings say; who comes when all are busy waits.

use crate::refusal::Refusal;
use crate::tree::Tree;
use http::StatusCode;
use std::sync::Arc;

/// The tree, and a way to work in it without holding up those who talk to clients.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    tree: Arc<Tree>,
}

impl Disk {
    pub(crate) fn new(tree: Tree) -> Self {
        Self { tree: Arc::new(tree) }
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Does something in the tree.
    pub(crate) async fn run<T, E, F>(&self, work: F) -> Result<T, Refusal>
    where
        F: FnOnce(&Tree) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<Refusal> + Send + 'static,
    {
        let tree = Arc::clone(&self.tree);
        match tokio::task::spawn_blocking(move || work(&tree)).await {
            Ok(done) => done.map_err(Into::into),
            Err(_) => {
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is being stopped"))
            }
        }
    }
}
