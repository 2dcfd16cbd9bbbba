//! The files of a testkit peer as a storage: they can be read, and that is all.

use futures_core::future::BoxFuture;
use hither_core::{
    Algorithm, Checksum, DirEntry, Error, ErrorKind, FileKind, PutOptions, Result, Source, Storage,
    Upload,
};
use hither_testkit::mock_http::MockHttpServer;
use hither_transfer::CopyPath;
use hither_transport::{HttpSource, Location, Network, TransportConfig};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Files of one content under every name.
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

    /// The server says that this is the checksum of every file.
    pub(crate) fn with_checksum(self, checksum: Checksum) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// Lists `files` files of `size` bytes in the directory `tree`.
    pub(crate) fn with_listing(mut self, files: usize, size: u64) -> Self {
        self.entries = (0..files)
            .map(|n| DirEntry {
                path: format!("tree/file-{n}"),
                kind: FileKind::File,
                size,
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

fn cannot<'a, T>() -> BoxFuture<'a, Result<T>> {
    Box::pin(async { Err(Error::new(ErrorKind::Unsupported, "the test server cannot do that")) })
}

impl Storage for ServerFiles {
    fn name(&self) -> String {
        // The same whatever port the peer got: a job is known by its names.
        "http://peer".to_owned()
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<DirEntry>> {
        if path == "tree" {
            let path = path.to_owned();
            let kind = FileKind::Directory;
            let entry = DirEntry { path, kind, size: 0, modified: None, validator: None };
            return Box::pin(async { Ok(entry) });
        }
        cannot()
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>> {
        Box::pin(async { Ok(self.entries.clone()) })
    }

    fn source(&self, path: &str) -> Result<Arc<dyn Source>> {
        let location = Location::parse(&format!("{}/{path}", self.url))?;
        Ok(Arc::new(HttpSource::new(location, Arc::clone(&self.network))))
    }

    fn put<'a>(&'a self, _: &'a str, _: PutOptions) -> BoxFuture<'a, Result<Box<dyn Upload>>> {
        cannot()
    }

    fn remove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        cannot()
    }

    fn remove_tree<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        cannot()
    }

    fn rename<'a>(&'a self, _: &'a str, _: &'a str, _: bool) -> BoxFuture<'a, Result<()>> {
        cannot()
    }

    fn make_directory<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        cannot()
    }

    fn checksum<'a>(
        &'a self,
        _: &'a str,
        algorithm: Algorithm,
    ) -> BoxFuture<'a, Result<Option<Checksum>>> {
        let known = self.checksum.clone().filter(|known| known.algorithm() == algorithm);
        Box::pin(async { Ok(known) })
    }
}
