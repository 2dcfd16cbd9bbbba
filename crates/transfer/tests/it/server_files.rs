//! The files of a mock HTTP server as a read-only storage.

use async_trait::async_trait;
use hither_checksum::{Algorithm, Checksum};
use hither_core::{DirEntry, Error, ErrorKind, FileKind, Result, Source, Storage};
use hither_testkit::mock_http::MockHttpServer;
use hither_transfer::CopyPath;
use hither_transport::{HttpSource, Location, Network, TransportConfig};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Files with the same content under every name.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    url: String,
    network: Arc<Network>,
    checksum: Option<Checksum>,
    entries: Vec<DirEntry>,
}

impl ServerFiles {
    pub(crate) fn of(peer: &MockHttpServer) -> Self {
        let network = Network::new(TransportConfig::default(), Handle::current(), None);
        Self { url: peer.url_of(""), network, checksum: None, entries: Vec::new() }
    }

    /// Sets the checksum that the server states for every file.
    pub(crate) fn with_checksum(self, checksum: Checksum) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// Adds a listing of the directory `tree` with `files` files of `size` bytes.
    pub(crate) fn with_listing(mut self, files: usize, size: u64) -> Self {
        self.entries = (0..files)
            .map(|n| DirEntry {
                path: format!("tree/file-{n}"),
                kind: FileKind::File,
                size: Some(size),
                modified: None,
                validator: Some("\"first\"".to_owned()),
            })
            .collect();
        self
    }

    pub(crate) fn place(self, path: &str) -> CopyPath {
        CopyPath {
            storage: Arc::new(self),
            path: path.to_owned(),
            local: None,
            is_directory: false,
            contents: false,
        }
    }
}

#[async_trait]
impl Storage for ServerFiles {
    fn name(&self) -> String {
        // Independent of the peer's port, because names identify a job.
        "http://peer".to_owned()
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        if path == "tree" {
            let path = path.to_owned();
            let kind = FileKind::Directory;
            let entry = DirEntry { path, kind, size: Some(0), modified: None, validator: None };
            return Ok(entry);
        }
        Err(Error::new(ErrorKind::Unsupported, "the test server cannot do that"))
    }

    async fn list(&self, _: &str) -> Result<hither_core::Listing> {
        Ok(self.entries.clone().into())
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        let location = Location::parse(&format!("{}/{path}", self.url))?;
        Ok(Arc::new(HttpSource::new(location, Arc::clone(&self.network))))
    }

    async fn checksum(&self, _: &str, algorithm: Algorithm) -> Result<Option<Checksum>> {
        Ok(self.checksum.clone().filter(|known| known.algorithm() == algorithm))
    }
}
