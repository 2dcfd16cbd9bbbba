//! A WebDAV server in memory with programmable behaviour, and with faults of single requests: login
//! pages, false success, lost or cut responses, silence, partly stored files, listings without some
//! names. With another [`Protocol`] it is a server of S3 or XRootD, with the same files and faults.

mod answers;
mod behaviour;
mod faulty;
mod listing;
mod message;
mod s3;
mod xrootd;

pub use behaviour::{
    ChangeFault, LOGIN_PAGE, OF_ANOTHER_CLIENT, PiecesTaken, PlannedFault, Protocol, ReadFault,
    StatedSizes, StatedValidators, WebDavBehaviour, WebDavFault,
};

use super::connection::{read_body, read_head};
use crate::test_server::TestServer;
use answers::Site;
use hither_core::sync::lock;
use message::{BodyEnd, Request};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The server.
#[derive(Debug)]
pub struct MockWebDavServer {
    running: TestServer,
    site: Arc<Mutex<Site>>,
}

impl MockWebDavServer {
    /// Starts a server with the directory `/d/` on a free port of 127.0.0.1. `fault` applies to
    /// changes with its method; a fault that loses a connection occurs once.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub fn start(fault: Option<(&'static str, ChangeFault)>) -> io::Result<Self> {
        let planned = fault.map(|(method, fault)| PlannedFault {
            method,
            nth: 0,
            times: fault.times(),
            fault: WebDavFault::Change(fault),
        });
        Self::behaving(WebDavBehaviour::default(), planned.into_iter().collect())
    }

    /// Like [`MockWebDavServer::start`], with a behaviour and the faults of single requests.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub fn behaving(behaviour: WebDavBehaviour, faults: Vec<PlannedFault>) -> io::Result<Self> {
        let site = Arc::new(Mutex::new(Site::new(behaviour, faults)));
        let shared = Arc::clone(&site);
        let running = TestServer::start("webdav", |listener| serve(listener, shared))?;
        Ok(Self { running, site })
    }

    /// The URL of a path.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        let address = self.running.address();
        match self.site().behaviour.protocol {
            Protocol::WebDav => format!("http://{address}{}", message::encoded(path)),
            Protocol::S3 => format!("s3:/{path}"),
            Protocol::Xrootd => format!("root://{address}/{path}"),
        }
    }

    /// The protocol that the server speaks.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.site().behaviour.protocol
    }

    /// The URL of the server itself, which is the endpoint of an S3 client.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.running.address())
    }

    /// Stores a file with its parent directories, as another client would.
    pub fn store(&self, path: &str, bytes: &[u8]) {
        let mut site = self.site();
        site.make_parents(path);
        site.insert(path, Some(bytes.to_vec()));
    }

    /// Stores a file whose time of modification is this number of seconds before those of other
    /// files.
    pub fn store_before(&self, path: &str, bytes: &[u8], seconds: u64) {
        self.store(path, bytes);
        self.site().age(path, seconds);
    }

    /// Sets the requests in whose responses sizes are stated.
    pub fn state_sizes(&self, sizes: StatedSizes) {
        self.site().behaviour.sizes = sizes;
    }

    /// Removes all planned faults.
    pub fn clear_faults(&self) {
        self.site().faults.clear();
    }

    /// The paths of all files and directories except the predefined ones.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let site = self.site();
        let paths = site.resources.keys().filter(|path| !matches!(&***path, "/" | "/d/"));
        paths.cloned().collect()
    }

    /// All files with their bytes.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let site = self.site();
        let files = site.resources.iter();
        files.filter_map(|(path, it)| Some((path.clone(), it.bytes.clone()?))).collect()
    }

    /// The bytes of a file.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.site().resources.get(path)?.bytes.clone()
    }

    /// The number of requests with this method that have arrived.
    #[must_use]
    pub fn count(&self, method: &str) -> usize {
        self.site().log.iter().filter(|(seen, _)| seen == method).count()
    }

    /// The methods and paths of all requests that have arrived.
    #[must_use]
    pub fn log(&self) -> Vec<(String, String)> {
        self.site().log.clone()
    }

    /// The planned faults that have occurred, each with the path of the request; for
    /// [`ReadFault::Omits`] and [`ReadFault::Refuses`], with the path of the name.
    #[must_use]
    pub fn happened(&self) -> Vec<(WebDavFault, String)> {
        self.site().happened.clone()
    }

    fn site(&self) -> MutexGuard<'_, Site> {
        lock(&self.site)
    }
}

async fn serve(listener: TcpListener, site: Arc<Mutex<Site>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let site = Arc::clone(&site);
        let protocol = lock(&site).behaviour.protocol;
        connections.spawn(async move {
            match protocol {
                Protocol::Xrootd => drop(xrootd::serve_connection(stream, &site).await),
                _ => drop(serve_connection(stream, &site).await),
            }
        });
    }
}

/// Serves a connection until it has to be closed.
async fn serve_connection(mut stream: TcpStream, site: &Mutex<Site>) -> Option<()> {
    let mut received = Vec::new();
    stream.set_nodelay(true).ok()?;
    loop {
        let head = read_head(&mut stream, &mut received).await.ok()??;
        let mut request = Request::parse(&head)?;
        let length = request.field("content-length").and_then(|it| it.parse().ok());
        let length: usize = length.unwrap_or_default();
        if request.field("expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        request.body = read_body(&mut stream, &mut received, length).await.ok()??;
        let response = lock(site).respond(&request)?;
        stream.write_all(&response.bytes(&request.method)).await.ok()?;
        match response.end {
            BodyEnd::Length => {}
            BodyEnd::Stalled | BodyEnd::Silent => return until_closed(&mut stream).await,
            BodyEnd::Close | BodyEnd::Cut => return None,
        }
    }
}

/// Sends nothing until the client closes the connection.
async fn until_closed(stream: &mut TcpStream) -> Option<()> {
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await.ok()? > 0 {}
    None
}
