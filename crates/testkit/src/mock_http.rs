//! A mock HTTP/1.1 server on the loopback with programmable faults.
//!
//! It serves one byte vector under every path. It uses no HTTP library, so everything that a broken
//! server, proxy or network can do to a response can be a [`Fault`] in one line. Without faults it
//! is a correct server: ranges and suffixes, several of them as `multipart/byteranges` in the
//! requested order, `If-Range`, `HEAD`, entity tags, unlimited keep-alive.
//!
//! A fault applies to the requests that [`FaultTrigger`] selects, counted over all connections in
//! the order of arrival; several faults may apply to one request. Faults that change the response
//! (a wrong `Content-Range`, one part instead of all) are applied first; faults that break it off
//! ([`Fault::Close`], [`Fault::Reset`], [`Fault::Stall`]) come last, at a [`ResponsePosition`] in
//! the finished bytes.
//!
//! Every request is logged on arrival. The log does not depend on time:
//! [`MockHttpServer::round_trips`] determines from the order of events which requests could have
//! waited for which responses. [`Fault::Hold`] withholds a response until a number of requests have
//! arrived, which proves that they did not wait for it. A test that gets a held response has
//! observed concurrency: it cannot pass by chance on a fast machine, nor fail on a slow one.
//!
//! The server has its own thread and runtime, so that blocking tests can use it too; dropping it
//! stops both.

mod behaviours;
pub(crate) mod connection;
mod fault;
pub mod lossy_http;
mod request;
mod response;
pub mod webdav;

pub use behaviours::{HttpBehaviour, RequestBound, behaviours};
pub use fault::{Fault, FaultTrigger, Limit, OverLimit, ResponsePosition};

use crate::test_server::TestServer;
use bytes::Bytes;
use connection::serve;
use hither_core::sync::lock;
use hither_netem::dependency_chain::longest_chain;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpSocket;
use tokio::sync::watch;

/// A request as it arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Number of the connection, from 0 in the order of acceptance.
    pub connection: usize,
    /// `GET` or `HEAD`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The value of `Range`, without `bytes=`.
    pub ranges: Option<String>,
    /// The value of `If-Range`.
    pub if_range: Option<String>,
    /// The value of `Authorization`.
    pub authorization: Option<String>,
    /// Planned status of the response, even if it was not sent; 0 for a request that is not HTTP.
    pub status: u16,
    /// Bytes of the file in the planned response.
    pub payload_bytes: u64,
    /// The times of its arrival and of its response, in events.
    ticks: (u64, Option<u64>),
}

/// The server.
#[derive(Debug)]
pub struct MockHttpServer {
    shared: Arc<Shared>,
    running: TestServer,
}

/// State shared by the connections.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Number of requests that have arrived.
    arrived: watch::Sender<usize>,
    door: watch::Sender<Door>,
}

/// State of the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Door {
    Open,
    /// To be closed by the listener.
    Closing,
    Closed,
}

#[derive(Debug)]
struct State {
    file: File,
    /// The file that replaces the current one at the request with this number.
    next_file: Option<(usize, File)>,
    faults: Vec<(FaultTrigger, Fault)>,
    log: Vec<LoggedRequest>,
    connections: usize,
    stalls: usize,
    tick: u64,
}

/// The served file.
#[derive(Debug, Clone)]
struct File {
    bytes: Bytes,
    etag: String,
}

impl MockHttpServer {
    /// Serves `bytes`, with the entity tag `"first"`, on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// No socket, runtime or thread can be created.
    pub fn start(bytes: impl Into<Bytes>) -> io::Result<Self> {
        let file = File { bytes: bytes.into(), etag: "\"first\"".to_owned() };
        let state = State {
            file,
            next_file: None,
            faults: Vec::new(),
            log: Vec::new(),
            connections: 0,
            stalls: 0,
            tick: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            arrived: watch::channel(0).0,
            door: watch::channel(Door::Open).0,
        });
        let served = Arc::clone(&shared);
        let running = TestServer::start("peer", |listener| serve(listener, served))?;
        Ok(Self { shared, running })
    }

    /// Adds a fault.
    #[must_use]
    pub fn with_fault(self, when: FaultTrigger, fault: Fault) -> Self {
        self.add_fault(when, fault);
        self
    }

    /// Adds a fault for later requests.
    pub fn add_fault(&self, when: FaultTrigger, fault: Fault) {
        self.shared.state().faults.push((when, fault));
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// Replaces the bytes for later requests, with another entity tag (including its quotes).
    pub fn replace(&self, bytes: impl Into<Bytes>, etag: &str) {
        self.shared.state().file = File { bytes: bytes.into(), etag: etag.to_owned() };
    }

    /// Replaces the bytes at the request numbered `request`, counted from 0 over all connections.
    pub fn replace_at(&self, request: usize, bytes: impl Into<Bytes>, etag: &str) {
        let file = File { bytes: bytes.into(), etag: etag.to_owned() };
        self.shared.state().next_file = Some((request, file));
    }

    /// The URL of the file.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("/data/file.root")
    }

    /// The URL of the file under another path.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address())
    }

    /// All requests so far, in the order of arrival.
    #[must_use]
    pub fn log(&self) -> Vec<LoggedRequest> {
        self.shared.state().log.clone()
    }

    /// Number of connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Number of responses so far of which the part before a [`Fault::Stall`] has been sent.
    #[must_use]
    pub fn stalls(&self) -> usize {
        self.shared.state().stalls
    }

    /// The longest chain of requests of which each arrived after the response to the previous one
    /// had begun to leave: an upper bound of the round trips.
    #[must_use]
    pub fn round_trips(&self) -> u32 {
        longest_chain(self.shared.state().log.iter().map(|it| it.ticks))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }
}

/// A URL with a port on which no server listens, and none of another test can: a socket of this
/// process is bound to it.
///
/// # Errors
///
/// No socket can be created.
pub fn refusing_url() -> io::Result<String> {
    static BOUND: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    lock(&BOUND).push(socket);
    Ok(format!("http://{address}/data/file.root"))
}

#[cfg(test)]
mod tests;
